package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/sharding/directory"
	"example.com/redis-operator/sharding/scopedcache"
)

const (
	variantScoped         = "scoped"
	variantMultiNamespace = "multi-namespace"
	variantClusterWide    = "cluster-wide"

	cacheChildVariable = "BENCH_CACHE_CHILD"
)

// cacheChild is what a child is to do.
type cacheChild struct {
	Variant    string
	Kubeconfig string
	// Own and OwnEmpty are how many namespaces with and without a RedisCluster are cached; the
	// cluster-wide variant caches all, and the scoped one only those that its directory finds.
	Own, OwnEmpty int
}

// cacheSample is what a child measured.
type cacheSample struct {
	SyncSeconds                float64
	RSS, BaseRSS               int64
	Heap, BaseHeap             int64
	Goroutines, BaseGoroutines int
	// Received is the bytes in the bodies of lists and watches, ReceivedByDirectory those of the
	// directory, which are not in Received.
	Received, ReceivedByDirectory int64
}

// cachedKinds are the kinds that every variant caches.
func cachedKinds() []client.Object {
	return []client.Object{
		&redisv1.RedisCluster{}, &appsv1.StatefulSet{}, &corev1.Service{}, &corev1.ConfigMap{}, &corev1.Secret{},
	}
}

// RunCacheChild does the work of a child of Cache, if this process is one, and reports whether it
// was. The program that calls Cache calls this first.
func RunCacheChild(ctx context.Context) (bool, error) {
	encoded := os.Getenv(cacheChildVariable)
	if encoded == "" {
		return false, nil
	}
	var settings cacheChild
	if err := json.Unmarshal([]byte(encoded), &settings); err != nil {
		return true, fmt.Errorf("reading %s: %w", cacheChildVariable, err)
	}
	return true, settings.run(ctx)
}

// run fills a cache, prints a sample, and another for each line that comes in.
func (c cacheChild) run(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS = -1
	var received, byDirectory atomic.Int64
	var sample cacheSample
	if sample.BaseRSS, sample.BaseHeap, err = memory(); err != nil {
		return err
	}
	sample.BaseGoroutines = runtime.NumGoroutine()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	started := time.Now()
	held, err := c.fill(ctx, counting(config, &received), counting(config, &byDirectory))
	if err != nil {
		return err
	}
	sample.SyncSeconds = time.Since(started).Seconds()
	sample.Received, sample.ReceivedByDirectory = received.Load(), byDirectory.Load()
	lines := bufio.NewScanner(os.Stdin)
	for {
		if sample.RSS, sample.Heap, err = memory(); err != nil {
			return err
		}
		sample.Goroutines = runtime.NumGoroutine()
		if err := json.NewEncoder(os.Stdout).Encode(sample); err != nil {
			return err
		}
		if !lines.Scan() {
			runtime.KeepAlive(held)
			return lines.Err()
		}
	}
}

// fill fills the variant's cache and returns it.
func (c cacheChild) fill(ctx context.Context, config, ofDirectory *rest.Config) (any, error) {
	switch c.Variant {
	case variantScoped:
		return c.fillScoped(ctx, config, ofDirectory)
	case variantMultiNamespace:
		namespaces := map[string]cache.Config{}
		for i := range c.Own {
			namespaces[name(fullPrefix, i)] = cache.Config{}
		}
		for i := range c.OwnEmpty {
			namespaces[name(emptyPrefix, i)] = cache.Config{}
		}
		return fillPlain(ctx, config, cache.Options{DefaultNamespaces: namespaces})
	case variantClusterWide:
		return fillPlain(ctx, config, cache.Options{})
	}
	return nil, fmt.Errorf("no variant %q", c.Variant)
}

// fillScoped asks the directory which namespaces there are and adds a scope for each of ours.
func (c cacheChild) fillScoped(ctx context.Context, config, ofDirectory *rest.Config) (any, error) {
	index, err := directory.New(ofDirectory, directory.Options{
		RootKinds: []schema.GroupVersionKind{redisv1.GroupVersion.WithKind("RedisCluster")},
	})
	if err != nil {
		return nil, err
	}
	go func() { _ = index.Start(ctx) }()
	scoped, err := scopedcache.New(config, scopedcache.Options{Cache: cache.Options{Scheme: cacheScheme()}})
	if err != nil {
		return nil, err
	}
	go func() { _ = scoped.Start(ctx) }()
	if err := addHandlers(ctx, scoped); err != nil {
		return nil, err
	}
	if !index.WaitForSync(ctx) {
		return nil, errors.New("the directory has not synced")
	}
	ours := map[string]bool{}
	for i := range c.Own {
		ours[name(fullPrefix, i)] = true
	}
	var adding sync.WaitGroup
	problems := make(chan error, len(ours))
	for namespace := range index.All() {
		if ours[namespace] {
			adding.Go(func() { problems <- scoped.AddScope(ctx, namespace) })
		}
	}
	adding.Wait()
	close(problems)
	for err := range problems {
		if err != nil {
			return nil, err
		}
	}
	if got := len(scoped.Scopes()); got != c.Own {
		return nil, fmt.Errorf("%d scopes, want %d", got, c.Own)
	}
	return []any{index, scoped}, checkCount(ctx, scoped, c.Own)
}

// fillPlain fills one of controller-runtime's own caches as controllers do: a source a kind.
func fillPlain(ctx context.Context, config *rest.Config, options cache.Options) (any, error) {
	options.Scheme = cacheScheme()
	options.DefaultTransform = cache.TransformStripManagedFields()
	options.ByObject = scopedcache.DefaultByObject()
	plain, err := cache.New(config, options)
	if err != nil {
		return nil, err
	}
	go func() { _ = plain.Start(ctx) }()
	if err := addHandlers(ctx, plain); err != nil {
		return nil, err
	}
	if !plain.WaitForCacheSync(ctx) {
		return nil, errors.New("the cache has not synced")
	}
	return plain, checkCount(ctx, plain, 1)
}

// addHandlers watches every kind, side by side.
func addHandlers(ctx context.Context, informers cache.Informers) error {
	problems := make(chan error, len(cachedKinds()))
	for _, kind := range cachedKinds() {
		go func() {
			informer, err := informers.GetInformer(ctx, kind)
			if err == nil {
				_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) {}})
			}
			problems <- err
		}()
	}
	var errs []error
	for range cachedKinds() {
		errs = append(errs, <-problems)
	}
	return errors.Join(errs...)
}

// checkCount fails unless the cache holds that many RedisClusters at least.
func checkCount(ctx context.Context, reader client.Reader, atLeast int) error {
	var list redisv1.RedisClusterList
	if err := reader.List(ctx, &list); err != nil {
		return fmt.Errorf("listing what was cached: %w", err)
	}
	if len(list.Items) < atLeast {
		return fmt.Errorf("%d RedisClusters are cached, want %d", len(list.Items), atLeast)
	}
	return nil
}

// memory returns the resident set and the live heap, after unused memory was returned.
func memory() (resident, heap int64, err error) {
	debug.FreeOSMemory()
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0, fmt.Errorf("reading the resident set: %w", err)
	}
	for line := range bytes.Lines(status) {
		text, isRSS := strings.CutPrefix(string(line), "VmRSS:")
		if !isRSS {
			continue
		}
		kilobytes, err := strconv.ParseInt(strings.Fields(text)[0], 10, 64)
		return kilobytes << 10, int64(stats.HeapAlloc), err
	}
	return 0, 0, errors.New("reading the resident set: /proc/self/status has no VmRSS")
}

// counting returns a config whose lists and watches are counted: their bodies, decompressed.
func counting(config *rest.Config, into *atomic.Int64) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripperFunc(func(request *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(request)
			if err == nil && isListOrWatch(request) {
				response.Body = countingBody{ReadCloser: response.Body, into: into}
			}
			return response, err
		})
	})
	return config
}

// isListOrWatch tells lists and watches of an informer from discovery.
func isListOrWatch(request *http.Request) bool {
	query := request.URL.Query()
	return query.Has("watch") || query.Has("resourceVersion") || query.Has("limit")
}

// roundTripperFunc is an http.RoundTripper made of a function.
type roundTripperFunc func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripperFunc) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// countingBody counts what is read.
type countingBody struct {
	io.ReadCloser
	into *atomic.Int64
}

// Read implements io.Reader.
func (b countingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.into.Add(int64(n))
	return n, err
}
