package scopedcache

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// scope is one part of what is cached: a namespace, or what belongs to none. Its life:
//
//	new --open kinds--> opened --launch--> listing --every kind read--> synced --close--> closed
//	                       |                  |                                             ^
//	                       +------------------+---------------------------------------------+
type scope struct {
	namespace   string // empty for the cluster-scoped kinds
	isPermanent bool   // shared or cluster-scoped: never removed
	covers      func(*kind) bool
	inner       cache.Cache
	ctx         context.Context
	cancel      context.CancelFunc
	// replayed is set once the owner admits work of the scope: from then on no object is initial.
	replayed atomic.Bool
	launched sync.Once

	// mu guards what follows. It is taken while the cache above calls newInformer: see opening.
	mu        sync.Mutex
	opening   *kind // the kind whose informer is being made
	openedAs  *informer
	informers map[kindKey]*informer
	indexed   map[kindKey]map[string]bool // fields that have an index
	isOpened  bool                        // the kinds known when it was added are open
	synced    bool                        // latched: kinds that are registered later do not take it back
}

// scopeSettings are what all scopes of a Cache have in common.
type scopeSettings struct {
	config     *rest.Config
	httpClient *http.Client
	options    cache.Options
}

// newScope builds a scope and the cache under it. It starts nothing and sends nothing.
func newScope(parent context.Context, settings scopeSettings, namespace string) (*scope, error) {
	s := &scope{
		namespace: namespace,
		informers: map[kindKey]*informer{},
		indexed:   map[kindKey]map[string]bool{},
	}
	s.ctx, s.cancel = context.WithCancel(parent)
	options := settings.options
	options.HTTPClient = settings.httpClient
	options.ReaderFailOnMissingInformer = true // only open makes informers
	options.NewInformer = s.newInformer
	if namespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}
	inner, err := cache.New(settings.config, options)
	if err != nil {
		s.cancel()
		return nil, fmt.Errorf("building the cache of namespace %q: %w", namespace, err)
	}
	s.inner = inner
	return s, nil
}

// newInformer is called by the inner cache in the course of open.
func (s *scope) newInformer(source toolscache.ListerWatcher, _ runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	if s.namespace != "" {
		source = newListedSource(source)
	}
	s.openedAs = newInformer(s, s.opening, source, resync, indexers)
	return s.openedAs
}

// open makes the informer of a kind, with its indexes and handlers, unless there is one or the
// scope does not cover the kind. The informer starts at once if the scope was launched.
func (s *scope) open(k *kind) error {
	if !s.covers(k) || k.isRemoved() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return ErrStopped
	}
	if _, isOpen := s.informers[k.key]; isOpen {
		return nil
	}
	s.opening, s.openedAs = k, nil
	_, err := s.inner.GetInformer(s.ctx, k.prototype, cache.BlockUntilSynced(false))
	made := s.openedAs
	s.opening, s.openedAs = nil, nil
	if err != nil {
		return fmt.Errorf("caching %s in namespace %q: %w", k.key, s.namespace, err)
	}
	s.informers[k.key] = made
	s.indexed[k.key] = map[string]bool{}
	if err := k.join(made); err != nil {
		return fmt.Errorf("indexing %s in namespace %q: %w", k.key, s.namespace, err)
	}
	for _, index := range k.fieldIndexes() {
		if err := s.indexLocked(k, index); err != nil {
			return err
		}
	}
	return nil
}

// openAll opens kinds, and marks the scope as one that may become synced.
func (s *scope) openAll(kinds []*kind) error {
	for _, k := range kinds {
		if err := s.open(k); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isOpened = true
	return nil
}

// index adds a field index to a kind that is open already.
func (s *scope) index(k *kind, index fieldIndex) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, isOpen := s.informers[k.key]; !isOpen {
		return nil
	}
	return s.indexLocked(k, index)
}

// indexLocked adds a field index to an open kind unless it is there. The caller holds mu.
func (s *scope) indexLocked(k *kind, index fieldIndex) error {
	if s.indexed[k.key][index.field] {
		return nil
	}
	if err := s.inner.IndexField(s.ctx, k.prototype, index.field, index.extract); err != nil {
		return fmt.Errorf("indexing %s of %s in namespace %q: %w", index.field, k.key, s.namespace, err)
	}
	s.indexed[k.key][index.field] = true
	return nil
}

// drop ends the informer of one kind.
func (s *scope) drop(ctx context.Context, k *kind) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, isOpen := s.informers[k.key]
	if !isOpen {
		return nil
	}
	delete(s.informers, k.key)
	delete(s.indexed, k.key)
	i.stop()
	k.leave(i)
	return s.inner.RemoveInformer(ctx, k.prototype)
}

// close ends the scope without waiting for its goroutines. No event of it is delivered any more.
func (s *scope) close() {
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.informers {
		i.stop()
		i.kind.leave(i)
	}
	s.informers = map[kindKey]*informer{}
}

// run starts the informers and blocks until the scope is closed and they have ended. It holds one
// of slots until the scope has synced, but no longer than patience.
func (s *scope) run(slots chan struct{}, patience time.Duration) {
	select {
	case slots <- struct{}{}:
	case <-s.ctx.Done():
		return
	}
	var starting sync.WaitGroup
	starting.Go(func() {
		ctx, cancel := context.WithTimeout(s.ctx, patience)
		defer cancel()
		_ = s.wait(ctx)
		<-slots
	})
	// It can only fail when it is started twice.
	_ = s.inner.Start(s.ctx)
	starting.Wait()
}

// wait blocks until everything that is open has synced. It returns a NotSyncedError when ctx ends
// first, ErrStopped when the scope is closed.
func (s *scope) wait(ctx context.Context) error {
	for {
		waiting := s.unsynced()
		if len(waiting) == 0 {
			return nil
		}
		select {
		case <-waiting[0].settled:
			if s.ctx.Err() != nil {
				return ErrStopped
			}
		case <-s.ctx.Done():
			return ErrStopped
		case <-ctx.Done():
			return s.notSynced(ctx.Err())
		}
	}
}

// unsynced returns the informers that have not synced, and latches synced if there is none.
func (s *scope) unsynced() []*informer {
	s.mu.Lock()
	defer s.mu.Unlock()
	var waiting []*informer
	for _, i := range s.informers {
		if !i.HasSynced() {
			waiting = append(waiting, i)
		}
	}
	if len(waiting) == 0 && s.isOpened {
		s.synced = true
	}
	return waiting
}

// isSynced reports whether everything that was opened when the scope was added has synced.
func (s *scope) isSynced() bool {
	s.unsynced()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.synced
}

// notSynced describes what holds the scope up. When no list or watch has failed, cause is why.
func (s *scope) notSynced(cause error) *NotSyncedError {
	err := &NotSyncedError{Namespace: s.namespace, Err: cause}
	for _, i := range s.unsynced() {
		err.Kinds = append(err.Kinds, i.kind.key.String())
		if _, lastError := i.state(); lastError != nil {
			err.Err = errors.Join(cause, lastError)
		}
	}
	slices.Sort(err.Kinds)
	return err
}

// waitForKind returns once the informer of a kind has synced. It waits for one that was opened after
// the rest of the scope had synced.
func (s *scope) waitForKind(ctx context.Context, k *kind) error {
	if err := s.open(k); err != nil { // no more than a look unless the kind is just being registered
		return s.unlessClosed(err)
	}
	s.mu.Lock()
	i, isOpen := s.informers[k.key]
	s.mu.Unlock()
	if !isOpen {
		return s.unlessClosed(ErrStopped)
	}
	select {
	case <-i.settled:
		return s.unlessClosed(nil)
	case <-ctx.Done():
		_, lastError := i.state()
		return &NotSyncedError{
			Namespace: s.namespace, Kinds: []string{k.key.String()}, Err: errors.Join(ctx.Err(), lastError),
		}
	}
}

// unlessClosed returns err, or what a read of a closed scope returns: what a closing scope answers
// must not be taken for the truth.
func (s *scope) unlessClosed(err error) error {
	if s.ctx.Err() == nil {
		return err
	}
	if s.isPermanent {
		return ErrStopped
	}
	return &NotOwnedError{Namespace: s.namespace}
}

// replay queues everything that the scope holds as ordinary Adds.
func (s *scope) replay() {
	s.replayed.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.informers {
		i.replay()
	}
}
