// Package directory knows which namespaces hold root objects, and how many.
//
// It watches the metadata of the root kinds and keeps nothing of an object but its namespace and
// name, and nothing at all of a namespace without one: empty namespaces cost nothing. It decides
// nothing; the coordinator reads from it which namespaces of a shard need a scope.
//
// A lost watch, a 410 included, is made good by a new list; what has gone meanwhile is noticed. A
// namespace that is being deleted keeps its count for as long as its root objects exist, however
// long it is stuck: somebody has to see them off.
//
// A Directory is safe for concurrent use.
package directory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// retryMapping is how often a root kind that is not installed is looked for again.
const retryMapping = 2 * time.Second

var namespacesResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// Directory is an index of the namespaces that hold root objects.
type Directory struct {
	options Options
	client  metadata.Interface
	mapper  meta.RESTMapper
	synced  chan struct{} // closed when every root kind has been read once
	wake    chan struct{} // holds one token when there may be something to tell

	// mu guards what follows. Listeners are not called with it held.
	mu          sync.Mutex
	isStarted   bool
	unsynced    int // watches of root kinds that have not been read once
	counts      map[string]int
	terminating map[string]struct{}
	listeners   []*listener
}

// listener is a function that wants to know of changes, and what it does not know yet.
type listener struct {
	tell  func(namespace string, count int)
	dirty map[string]struct{} // guarded by Directory.mu
}

// New returns a Directory. It starts nothing; without Options.Mapper it asks the API server for
// its resources.
func New(config *rest.Config, options Options) (*Directory, error) {
	if err := options.Validate(); err != nil {
		return nil, fmt.Errorf("checking the options of the directory: %w", err)
	}
	config = rest.CopyConfig(config)
	config.DisableCompression = true
	config.QPS, config.RateLimiter = -1, nil
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("building the HTTP client of the directory: %w", err)
	}
	client, err := metadata.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("building the client of the directory: %w", err)
	}
	mapper := options.Mapper
	if mapper == nil {
		if mapper, err = apiutil.NewDynamicRESTMapper(config, httpClient); err != nil {
			return nil, fmt.Errorf("building the REST mapper of the directory: %w", err)
		}
	}
	return newDirectory(client, mapper, options), nil
}

// newDirectory returns a Directory over a client.
func newDirectory(client metadata.Interface, mapper meta.RESTMapper, options Options) *Directory {
	options = options.withDefaults()
	return &Directory{
		options:     options,
		client:      client,
		mapper:      mapper,
		synced:      make(chan struct{}),
		wake:        make(chan struct{}, 1),
		unsynced:    len(options.RootKinds) * max(1, len(options.Namespaces)),
		counts:      map[string]int{},
		terminating: map[string]struct{}{},
	}
}

// Start runs until ctx ends and everything has stopped.
func (d *Directory) Start(ctx context.Context) error {
	d.mu.Lock()
	if d.isStarted {
		d.mu.Unlock()
		return errors.New("starting the directory: it was started before")
	}
	d.isStarted = true
	d.mu.Unlock()

	var running sync.WaitGroup
	for _, gvk := range d.options.RootKinds {
		running.Go(func() { d.watchKind(ctx, gvk) })
	}
	if len(d.options.Namespaces) == 0 {
		store := &namespaceStore{directory: d}
		running.Go(func() { d.watch(ctx, namespacesResource, "", store) })
	}
	running.Go(func() { d.tellListeners(ctx) })
	running.Wait()
	return nil
}

// NeedLeaderElection makes a manager start the directory without being a leader.
func (d *Directory) NeedLeaderElection() bool { return false }

// watchKind watches one root kind, wherever the options say.
func (d *Directory) watchKind(ctx context.Context, gvk schema.GroupVersionKind) {
	resource, err := d.waitForMapping(ctx, gvk)
	if err != nil {
		return // ctx has ended
	}
	namespaces := d.options.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	var running sync.WaitGroup
	for _, namespace := range namespaces {
		store := newObjectStore(d)
		running.Go(func() { d.watch(ctx, resource, namespace, store) })
	}
	running.Wait()
}

// waitForMapping returns the resource of a kind, as soon as it is installed.
func (d *Directory) waitForMapping(ctx context.Context, gvk schema.GroupVersionKind) (schema.GroupVersionResource, error) {
	var resource schema.GroupVersionResource
	err := wait.PollUntilContextCancel(ctx, retryMapping, true, func(context.Context) (bool, error) {
		mapping, err := d.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			d.options.Log.Error(err, "Waiting for a root kind to be installed", "kind", gvk.String())
			return false, nil
		}
		resource = mapping.Resource
		return true, nil
	})
	return resource, err
}

// WaitForSync waits until every root kind has been read once, and reports whether it was.
func (d *Directory) WaitForSync(ctx context.Context) bool {
	select {
	case <-d.synced:
		return true
	case <-ctx.Done():
		return false
	}
}

// Namespaces returns the namespaces of a shard that hold root objects, and how many.
func (d *Directory) Namespaces(shard int) map[string]int {
	all := d.All()
	maps.DeleteFunc(all, func(namespace string, _ int) bool { return d.options.ShardOf(namespace) != shard })
	return all
}

// All returns every namespace that holds root objects, and how many.
func (d *Directory) All() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.counts)
}

// Count returns how many root objects a namespace holds.
func (d *Directory) Count(namespace string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counts[namespace]
}

// Terminating reports whether a namespace is being deleted. Always false with Options.Namespaces.
func (d *Directory) Terminating(namespace string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, isTerminating := d.terminating[namespace]
	return isTerminating
}

// OnChange calls tell with each namespace whose count has changed (0: it is empty or gone), or
// that began or ceased to be terminating, and first with each that is known already. Calls come
// one after another, in a goroutine of the directory, from Start on; several changes may come as
// one call, with the last count.
func (d *Directory) OnChange(tell func(namespace string, count int)) {
	d.mu.Lock()
	l := &listener{tell: tell, dirty: map[string]struct{}{}}
	for namespace := range d.counts {
		l.dirty[namespace] = struct{}{}
	}
	for namespace := range d.terminating {
		l.dirty[namespace] = struct{}{}
	}
	d.listeners = append(d.listeners, l)
	d.mu.Unlock()
	d.wakeUp()
}

// wakeUp lets tellListeners look for what there is to tell.
func (d *Directory) wakeUp() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// tellListeners calls the listeners until ctx ends.
func (d *Directory) tellListeners(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
		}
		for _, call := range d.takeCalls() {
			if ctx.Err() != nil {
				return
			}
			call()
		}
	}
}

// takeCalls returns the calls to be made.
func (d *Directory) takeCalls() []func() {
	d.mu.Lock()
	defer d.mu.Unlock()
	var calls []func()
	for _, l := range d.listeners {
		for namespace := range l.dirty {
			count := d.counts[namespace]
			calls = append(calls, func() { l.tell(namespace, count) })
		}
		l.dirty = map[string]struct{}{}
	}
	return calls
}

// addLocked changes the count of a namespace. The caller holds mu, and wakes up the listeners.
func (d *Directory) addLocked(namespace string, difference int) {
	if difference == 0 {
		return
	}
	d.counts[namespace] += difference
	if d.counts[namespace] == 0 {
		delete(d.counts, namespace)
	}
	d.markLocked(namespace)
}

// markLocked notes that there is something to tell of a namespace. The caller holds mu.
func (d *Directory) markLocked(namespace string) {
	for _, l := range d.listeners {
		l.dirty[namespace] = struct{}{}
	}
}

// syncedLocked notes that one watch of a root kind has been read once. The caller holds mu.
func (d *Directory) syncedLocked() {
	d.unsynced--
	if d.unsynced == 0 {
		close(d.synced)
	}
}
