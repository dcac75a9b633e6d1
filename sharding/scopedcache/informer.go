package scopedcache

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// Backoff between the end of a watch and the next list, as client-go's reflectors have it.
const (
	backoffStart  = 800 * time.Millisecond
	backoffMax    = 30 * time.Second
	backoffReset  = 2 * time.Minute
	backoffSteps  = 6
	backoffFactor = 2
)

// informer is a SharedIndexInformer of one kind in one scope: a client-go reflector that writes
// into an index directly and queues notifications for the kind's handlers. client-go's own has a
// queue, a processor and two goroutines a handler between the two, which thousands of informers
// with a handful of objects each do not need.
//
// It runs on the context of its scope: RunWithContext looks at no other (a context made of a
// channel, as the cache above passes it, costs a goroutine for each context derived from it).
type informer struct {
	scope   *scope
	kind    *kind
	ctx     context.Context // ends with the scope, or when the kind is removed
	cancel  context.CancelFunc
	source  toolscache.ListerWatcher
	resync  time.Duration
	indexer toolscache.Indexer
	// settled is closed when the informer has synced or will not sync any more.
	settled chan struct{}
	settle  sync.Once

	// mu makes a change of the index and what is queued about it one step, so that every handler
	// is told what was stored in the order in which it was stored. It guards what follows.
	mu            sync.Mutex
	isSynced      bool
	isRunning     bool
	isStopped     bool
	version       string // resourceVersion of the last list
	lastError     error  // of the last list or watch; nil once synced
	transform     toolscache.TransformFunc
	onError       toolscache.WatchErrorHandlerWithContext
	registrations []*registration
}

var (
	_ toolscache.SharedIndexInformer = &informer{}
	_ toolscache.ReflectorStore      = &informer{}
)

// newInformer returns an informer that does nothing until it is run.
func newInformer(s *scope, k *kind, source toolscache.ListerWatcher, resync time.Duration, indexers toolscache.Indexers) *informer {
	ctx, cancel := context.WithCancel(s.ctx)
	return &informer{
		scope:   s,
		kind:    k,
		ctx:     ctx,
		cancel:  cancel,
		source:  source,
		resync:  resync,
		indexer: toolscache.NewIndexer(toolscache.DeletionHandlingMetaNamespaceKeyFunc, indexers),
		settled: make(chan struct{}),
		onError: toolscache.DefaultWatchErrorHandler,
	}
}

// RunWithContext lists and watches until the informer's scope or kind is removed.
func (i *informer) RunWithContext(context.Context) {
	i.mu.Lock()
	if i.isRunning {
		i.mu.Unlock()
		return
	}
	i.isRunning = true
	onError := i.onError
	i.mu.Unlock()

	reflector := toolscache.NewReflectorWithOptions(i.source, i.kind.prototype, i,
		toolscache.ReflectorOptions{Name: "scopedcache", ResyncPeriod: i.resync})
	backoff := wait.Backoff{
		Duration: backoffStart, Cap: backoffMax, Steps: backoffSteps, Factor: backoffFactor, Jitter: 1,
	}
	delay := backoff.DelayWithReset(clock.RealClock{}, backoffReset)
	_ = delay.Until(i.ctx, true, true, func(ctx context.Context) (bool, error) {
		if err := reflector.ListAndWatchWithContext(ctx); err != nil && ctx.Err() == nil {
			i.recordError(err)
			onError(ctx, reflector, err)
		}
		return false, nil
	})
	i.stop()
}

// Run implements toolscache.SharedInformer; the channel is not looked at, see informer.
func (i *informer) Run(<-chan struct{}) { i.RunWithContext(i.ctx) }

// stop ends the informer, whether it runs or not.
func (i *informer) stop() {
	i.cancel()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.isStopped = true
	i.settle.Do(func() { close(i.settled) })
}

// recordError keeps the last error of a list or watch, for who waits for the informer.
func (i *informer) recordError(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.isSynced {
		i.lastError = err
	}
}

// state reports whether the informer has synced, and the last error if it has not.
func (i *informer) state() (isSynced bool, lastError error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.isSynced, i.lastError
}

// addRegistration adds a handler and queues what is known for it.
func (i *informer) addRegistration(r *registration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.registrations = append(i.registrations, r)
	r.push(i.snapshot(!i.scope.replayed.Load())...)
}

// removeRegistration takes a handler out.
func (i *informer) removeRegistration(r *registration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.registrations = slices.DeleteFunc(i.registrations, func(other *registration) bool { return other == r })
}

// replay queues every object for every handler, as an ordinary Add.
func (i *informer) replay() {
	i.mu.Lock()
	defer i.mu.Unlock()
	notifications := i.snapshot(false)
	for _, r := range i.registrations {
		r.push(notifications...)
	}
}

// snapshot returns an Add for every object. The caller holds mu.
func (i *informer) snapshot(isInitial bool) []notification {
	objects := i.indexer.List()
	notifications := make([]notification, 0, len(objects))
	for _, obj := range objects {
		notifications = append(notifications, notification{source: i, change: added, isInitial: isInitial, new: obj})
	}
	return notifications
}

// Add implements toolscache.ReflectorStore.
func (i *informer) Add(obj any) error { return i.store(obj) }

// Update implements toolscache.ReflectorStore.
func (i *informer) Update(obj any) error { return i.store(obj) }

// store keeps an object and tells the handlers.
func (i *informer) store(obj any) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	n, err := i.put(obj)
	if err != nil {
		return err
	}
	i.notify(n)
	return nil
}

// put keeps an object and returns what to tell about it. The caller holds mu.
func (i *informer) put(obj any) (notification, error) {
	obj, err := i.transformed(obj)
	if err != nil {
		return notification{}, err
	}
	old, exists, err := i.indexer.Get(obj)
	if err != nil {
		return notification{}, fmt.Errorf("looking up a %s: %w", i.kind.key, err)
	}
	if err := i.indexer.Update(obj); err != nil {
		return notification{}, fmt.Errorf("keeping a %s: %w", i.kind.key, err)
	}
	if exists {
		return notification{source: i, change: updated, old: old, new: obj}, nil
	}
	isInitial := !i.isSynced && !i.scope.replayed.Load()
	return notification{source: i, change: added, isInitial: isInitial, new: obj}, nil
}

// Delete implements toolscache.ReflectorStore.
func (i *informer) Delete(obj any) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	obj, err := i.transformed(obj)
	if err != nil {
		return err
	}
	if err := i.indexer.Delete(obj); err != nil {
		return fmt.Errorf("dropping a %s: %w", i.kind.key, err)
	}
	i.notify(notification{source: i, change: deleted, old: obj})
	return nil
}

// Replace implements toolscache.ReflectorStore: the reflector calls it with what a list returned,
// at first and after each loss of the watch. Objects that have gone meanwhile are told as deleted,
// with their last known state; the index has them all before any handler hears of one.
func (i *informer) Replace(objects []any, version string) error {
	isFirst, err := i.replace(objects, version)
	if err == nil && isFirst && i.scope.isPermanent {
		i.kind.permanentDone() // outside mu: the kind's mutex comes before ours
	}
	return err
}

// replace does the work of Replace and reports whether it was the first.
func (i *informer) replace(objects []any, version string) (isFirst bool, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	notifications := make([]notification, 0, len(objects))
	listed := make(map[string]struct{}, len(objects))
	for _, obj := range objects {
		key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj)
		if err != nil {
			return false, fmt.Errorf("naming a %s: %w", i.kind.key, err)
		}
		listed[key] = struct{}{}
		n, err := i.put(obj)
		if err != nil {
			return false, err
		}
		notifications = append(notifications, n)
	}
	for _, key := range i.indexer.ListKeys() {
		if _, isListed := listed[key]; isListed {
			continue
		}
		n, err := i.dropMissing(key)
		if err != nil {
			return false, err
		}
		notifications = append(notifications, n)
	}
	i.version = version
	i.notify(notifications...)
	return i.markSynced(), nil
}

// dropMissing drops an object that a list did not return. The caller holds mu.
func (i *informer) dropMissing(key string) (notification, error) {
	obj, _, err := i.indexer.GetByKey(key)
	if err != nil {
		return notification{}, fmt.Errorf("looking up %s %s: %w", i.kind.key, key, err)
	}
	if err := i.indexer.Delete(obj); err != nil {
		return notification{}, fmt.Errorf("dropping %s %s: %w", i.kind.key, key, err)
	}
	tombstone := toolscache.DeletedFinalStateUnknown{Key: key, Obj: obj}
	return notification{source: i, change: deleted, old: tombstone}, nil
}

// markSynced records the first complete list and reports whether this was it. The caller holds mu.
func (i *informer) markSynced() bool {
	if i.isSynced {
		return false
	}
	i.isSynced = true
	i.lastError = nil
	i.settle.Do(func() { close(i.settled) })
	return true
}

// Resync implements toolscache.ReflectorStore: every object again, as an update without a change.
func (i *informer) Resync() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, obj := range i.indexer.List() {
		n := notification{source: i, change: updated, old: obj, new: obj}
		for _, r := range i.registrations {
			if r.wantsResync {
				r.push(n)
			}
		}
	}
	return nil
}

// notify queues notifications for every handler. The caller holds mu. An update that changes nothing comes
// from a list after a lost watch and is not told: who wants every object now and then has Resync.
func (i *informer) notify(notifications ...notification) {
	for _, n := range notifications {
		if n.change == updated && isUnchanged(n) {
			continue
		}
		for _, r := range i.registrations {
			r.push(n)
		}
	}
}

// isUnchanged reports whether both sides of an update have the same resourceVersion.
func isUnchanged(n notification) bool {
	before, errBefore := meta.Accessor(n.old)
	after, errAfter := meta.Accessor(n.new)
	return errBefore == nil && errAfter == nil && before.GetResourceVersion() == after.GetResourceVersion()
}

// transformed applies the transform, if there is one. The caller holds mu.
func (i *informer) transformed(obj any) (any, error) {
	if i.transform == nil {
		return obj, nil
	}
	changed, err := i.transform(obj)
	if err != nil {
		return nil, fmt.Errorf("transforming a %s: %w", i.kind.key, err)
	}
	return changed, nil
}
