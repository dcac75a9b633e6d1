package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "example.com/redis-operator/api/v1"
)

const (
	fullPrefix  = "full"
	emptyPrefix = "empty"
)

// cacheBench is one run.
type cacheBench struct {
	options CacheOptions
	report  report
	*apiServer
}

// start starts the API server and creates the namespaces that are not empty.
func (b *cacheBench) start(ctx context.Context) error {
	var err error
	if b.apiServer, err = startAPIServer(b.options.Root); err != nil {
		return err
	}
	if err := b.prepare(ctx); err != nil {
		return errors.Join(err, b.apiServer.stop())
	}
	return nil
}

// prepare fills the API server.
func (b *cacheBench) prepare(ctx context.Context) error {
	b.report.note("creating %d namespaces with one RedisCluster each", b.options.Namespaces)
	if err := b.createNamespaces(ctx, fullPrefix, b.options.Namespaces); err != nil {
		return err
	}
	return inParallel(ctx, b.options.Namespaces, func(ctx context.Context, i int) error {
		return b.client.Create(ctx, &redisv1.RedisCluster{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: name(fullPrefix, i), Name: "main",
			},
			Spec: redisv1.RedisClusterSpec{Size: 3, Image: "redis:7.0", Config: padding(objectSizes[0])},
		})
	})
}

// padding returns directives that let a RedisCluster take up about size bytes; the rest of it, without
// managedFields, takes bareSize.
func padding(size int) map[string]redisv1.ConfigValue {
	const bareSize, longest = 400, 1000
	directives := map[string]redisv1.ConfigValue{}
	for left := size - bareSize; left > 0; left -= longest + 20 {
		directives[fmt.Sprintf("directive-%c%c", 'a'+len(directives)/26, 'a'+len(directives)%26)] =
			redisv1.ConfigValue(strings.Repeat("x", min(left, longest)))
	}
	return directives
}

// stop stops the API server.
func (b *cacheBench) stop() {
	if err := b.apiServer.stop(); err != nil {
		b.report.note("%v", err)
	}
}

// resize gives every RedisCluster another size.
func (b *cacheBench) resize(ctx context.Context, size int) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"config": padding(size)}})
	if err != nil {
		return err
	}
	return inParallel(ctx, b.options.Namespaces, func(ctx context.Context, i int) error {
		obj := &redisv1.RedisCluster{ObjectMeta: metav1.ObjectMeta{Namespace: name(fullPrefix, i), Name: "main"}}
		return b.client.Patch(ctx, obj, client.RawPatch("application/merge-patch+json", patch))
	})
}

// runningChild is a process that holds a cache.
type runningChild struct {
	command *exec.Cmd
	input   io.WriteCloser
	output  *bufio.Reader
	first   cacheSample
}

// startChild starts this program again as a child with a cache, and waits until that has synced.
func (b *cacheBench) startChild(ctx context.Context, settings cacheChild) (*runningChild, error) {
	settings.Kubeconfig = b.kubeconfig
	self, err := startSelf(ctx, cacheChildVariable, settings)
	if err != nil {
		return nil, fmt.Errorf("starting a child: %w", err)
	}
	child := &runningChild{command: self.command, input: self.input, output: bufio.NewReader(self.output)}
	if child.first, err = child.read(); err != nil {
		child.end()
		return nil, fmt.Errorf("measuring %s: %w", settings.Variant, err)
	}
	return child, nil
}

// runChild measures once.
func (b *cacheBench) runChild(ctx context.Context, settings cacheChild) (cacheSample, error) {
	child, err := b.startChild(ctx, settings)
	if err != nil {
		return cacheSample{}, err
	}
	child.end()
	return child.first, nil
}

// measure takes another sample.
func (c *runningChild) measure() (cacheSample, error) {
	if _, err := io.WriteString(c.input, "again\n"); err != nil {
		return cacheSample{}, err
	}
	return c.read()
}

// read reads one sample.
func (c *runningChild) read() (cacheSample, error) {
	line, err := c.output.ReadBytes('\n')
	if err != nil {
		return cacheSample{}, fmt.Errorf("reading what a child measured: %w", err)
	}
	var sample cacheSample
	return sample, json.Unmarshal(line, &sample)
}

// end lets the child exit and waits for it.
func (c *runningChild) end() {
	_ = c.input.Close()
	_ = c.command.Wait() // what it measured has been read
}
