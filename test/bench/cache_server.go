package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	redisv1 "example.com/redis-operator/api/v1"
)

const (
	fullPrefix  = "full"
	emptyPrefix = "empty"
	// startPatience bounds the start and the stop of etcd and of kube-apiserver.
	startPatience = 2 * time.Minute
	// writers is how many objects are written at the same time while the stage is set.
	writers = 16
)

// cacheBench is the API server of a run.
type cacheBench struct {
	options     CacheOptions
	report      report
	environment *envtest.Environment
	client      client.Client
	kubeconfig  string
}

// cacheScheme knows the kinds that are cached.
func cacheScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, redisv1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // the types of this module cannot clash
		}
	}
	return scheme
}

// start starts the API server and creates the namespaces that are not empty.
func (b *cacheBench) start(ctx context.Context) error {
	b.environment = &envtest.Environment{
		BinaryAssetsDirectory: b.options.assets(),
		CRDDirectoryPaths:     []string{filepath.Join(b.options.Root, "deploy", "crd", "cache.example.com_redisclusters.yaml")},
		ErrorIfCRDPathMissing: true,
		// The machine may be busy.
		ControlPlaneStartTimeout: startPatience,
		ControlPlaneStopTimeout:  startPatience,
	}
	config, err := b.environment.Start()
	if err != nil {
		return errors.Join(fmt.Errorf("starting etcd and kube-apiserver: %w", err), b.environment.Stop())
	}
	config.QPS = -1
	if err := b.prepare(ctx, config.Host); err != nil {
		b.stop()
		return err
	}
	return nil
}

// prepare fills the API server.
func (b *cacheBench) prepare(ctx context.Context, host string) error {
	var err error
	if b.client, err = client.New(b.environment.Config, client.Options{Scheme: cacheScheme()}); err != nil {
		return fmt.Errorf("building a client of %s: %w", host, err)
	}
	file, err := os.CreateTemp("", "bench-kubeconfig-")
	if err != nil {
		return err
	}
	b.kubeconfig = file.Name()
	if _, err := file.Write(b.environment.KubeConfig); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := file.Close(); err != nil {
		return err
	}
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
	if b.kubeconfig != "" {
		_ = os.Remove(b.kubeconfig)
	}
	if err := b.environment.Stop(); err != nil {
		b.report.note("stopping etcd and kube-apiserver: %v", err)
	}
}

// name names the i-th namespace of a kind.
func name(prefix string, i int) string { return fmt.Sprintf("%s-%04d", prefix, i) }

// createNamespaces creates namespaces.
func (b *cacheBench) createNamespaces(ctx context.Context, prefix string, count int) error {
	return inParallel(ctx, count, func(ctx context.Context, i int) error {
		err := b.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name(prefix, i)}})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
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

// inParallel calls work with 0 to count-1, a few at a time, and joins the errors.
func inParallel(ctx context.Context, count int, work func(context.Context, int) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	indexes := make(chan int)
	results := make(chan error, writers)
	var working sync.WaitGroup
	for range writers {
		working.Go(func() {
			var first error
			for i := range indexes {
				if err := work(ctx, i); err != nil && first == nil {
					first = err
					cancel()
				}
			}
			results <- first
		})
	}
	for i := range count {
		select {
		case indexes <- i:
		case <-ctx.Done():
		}
	}
	close(indexes)
	working.Wait()
	close(results)
	var errs []error
	for err := range results {
		errs = append(errs, err)
	}
	return errors.Join(append(errs, context.Cause(ctx))...)
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
	encoded, err := json.Marshal(settings)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	command := exec.CommandContext(ctx, self)
	command.Env = append(os.Environ(), cacheChildVariable+"="+string(encoded))
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting a child: %w", err)
	}
	child := &runningChild{command: command, input: input, output: bufio.NewReader(output)}
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
