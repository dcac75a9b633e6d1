package sharding

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"example.com/redis-operator/sharding/scopedcache"
)

const (
	// stuckAfter is how long a namespace may take to sync before it is reported and no longer
	// waited for.
	stuckAfter = 10 * time.Second
	// retryScope is the pause after an attempt to add a scope that failed at once.
	retryScope = time.Second
	// emptyAfter is how long a namespace without root objects stays cached, so that the controllers
	// see the last of them go.
	emptyAfter = 10 * time.Second
)

// scopeCache is what scopes need of a scopedcache.Cache.
type scopeCache interface {
	AddScope(ctx context.Context, namespace string) error
	RemoveScope(namespace string)
	Replay(namespaces []string)
}

// scopes keeps the scopes of the cache in step with the shards that are wanted and with the
// directory: a namespace is cached while its shard is engaged and it holds root objects.
type scopes struct {
	log     logr.Logger
	cache   scopeCache
	names   func(Shard) map[string]int // of the directory
	shardOf func(namespace string) Shard
	dropped func(namespace string) // tells pollers, connections and series
	running sync.WaitGroup

	mu      sync.Mutex // guards everything below
	engaged map[Shard]*engagement
	stuck   int
}

// engagement is one shard while it is warmed or held.
type engagement struct {
	ctx      context.Context //nolint:containedctx // the lifetime of the engagement itself
	cancel   context.CancelFunc
	admitted bool
	scopes   map[string]*scope
}

// scope is one namespace of an engaged shard.
type scope struct {
	synced     bool
	emptySince time.Time // zero while it holds root objects
}

func newScopes(log logr.Logger, cache scopeCache, names func(Shard) map[string]int, shardOf func(string) Shard) *scopes {
	return &scopes{
		log: log, cache: cache, names: names, shardOf: shardOf,
		dropped: func(string) {}, engaged: map[Shard]*engagement{},
	}
}

// Warm loads all scopes of a shard and calls done, from another goroutine, once they are synced or
// reported as stuck. done is not called after Drop.
func (s *scopes) Warm(ctx context.Context, shard Shard, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engaged[shard] != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	e := &engagement{ctx: ctx, cancel: cancel, scopes: map[string]*scope{}}
	s.engaged[shard] = e
	var first sync.WaitGroup
	for _, namespace := range slices.Sorted(maps.Keys(s.names(shard))) {
		s.addLocked(e, namespace, &first)
	}
	s.running.Go(func() {
		first.Wait()
		if ctx.Err() == nil {
			done()
		}
	})
}

// addLocked begins to cache a namespace; first is told when that is done or no longer waited for.
func (s *scopes) addLocked(e *engagement, namespace string, first *sync.WaitGroup) {
	added := &scope{}
	e.scopes[namespace] = added
	first.Add(1)
	s.running.Go(func() { s.load(e, namespace, added, first.Done) })
}

// load waits until a namespace has synced, however long that takes.
func (s *scopes) load(e *engagement, namespace string, added *scope, done func()) {
	finish := sync.OnceFunc(done)
	defer finish()
	reported := false
	for {
		ctx, cancel := context.WithTimeout(e.ctx, stuckAfter)
		err := s.cache.AddScope(ctx, namespace)
		failedEarly := err != nil && ctx.Err() == nil
		cancel()
		if !s.isCurrent(e, namespace, added) || errors.Is(err, scopedcache.ErrStopped) {
			s.unstick(reported)
			return
		}
		if err == nil {
			s.unstick(reported)
			break
		}
		if !reported {
			reported = true
			s.log.Error(err, "Waiting no longer for a scope to sync", "namespace", namespace, "shard", s.shardOf(namespace))
			s.mu.Lock()
			s.stuck++
			s.mu.Unlock()
		}
		finish()
		if failedEarly {
			pause(e.ctx, retryScope)
		}
	}
	s.mu.Lock()
	added.synced = true
	replay := e.admitted && e.scopes[namespace] == added
	s.mu.Unlock()
	if replay {
		// Objects of an initial list have low priority; those of a shard that is served already
		// are queued once more at normal priority (I5).
		s.cache.Replay([]string{namespace})
	}
}

// isCurrent tells whether the scope is still wanted. One that was dropped while it was being added
// may have been made after it was removed; unless another engagement has it, it is removed again.
func (s *scopes) isCurrent(e *engagement, namespace string, added *scope) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.engaged[s.shardOf(namespace)]
	if now == e && e.ctx.Err() == nil && e.scopes[namespace] == added {
		return true
	}
	if now == nil || now.scopes[namespace] == nil {
		s.cache.RemoveScope(namespace)
	}
	return false
}

func (s *scopes) unstick(reported bool) {
	if reported {
		s.mu.Lock()
		s.stuck--
		s.mu.Unlock()
	}
}

// Admitted replays all scopes of a shard that is admitted from now on (I5).
func (s *scopes) Admitted(shard Shard) {
	s.mu.Lock()
	var namespaces []string
	if e := s.engaged[shard]; e != nil {
		e.admitted = true
		namespaces = slices.Sorted(maps.Keys(e.scopes))
	}
	s.mu.Unlock()
	if len(namespaces) > 0 {
		s.cache.Replay(namespaces)
	}
}

// Drop drops all scopes of a shard and tells the listeners.
func (s *scopes) Drop(shard Shard) {
	s.mu.Lock()
	e := s.engaged[shard]
	delete(s.engaged, shard)
	s.mu.Unlock()
	if e == nil {
		return
	}
	e.cancel()
	for namespace := range e.scopes {
		s.cache.RemoveScope(namespace)
		s.dropped(namespace)
	}
}

// Changed follows the directory.
func (s *scopes) Changed(namespace string, count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.engaged[s.shardOf(namespace)]
	if e == nil {
		return
	}
	known := e.scopes[namespace]
	switch {
	case known == nil && count > 0:
		s.addLocked(e, namespace, &sync.WaitGroup{})
	case known != nil && count > 0:
		known.emptySince = time.Time{}
	case known != nil && known.emptySince.IsZero():
		known.emptySince = time.Now()
	}
}

// Sweep drops the namespaces that have been empty for a while.
func (s *scopes) Sweep(now time.Time) {
	var gone []string
	s.mu.Lock()
	for _, e := range s.engaged {
		for namespace, known := range e.scopes {
			if !known.emptySince.IsZero() && now.Sub(known.emptySince) > emptyAfter {
				delete(e.scopes, namespace)
				gone = append(gone, namespace)
				// Under the lock, so that a namespace which fills again is not removed after
				// it was added. The call starts nothing and waits for nothing.
				s.cache.RemoveScope(namespace)
			}
		}
	}
	s.mu.Unlock()
	for _, namespace := range gone {
		s.dropped(namespace)
	}
}

// Has tells whether a namespace is cached.
func (s *scopes) Has(namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.engaged[s.shardOf(namespace)]
	return e != nil && e.scopes[namespace] != nil
}

// Counts returns how many namespaces are cached by shard, and how many of all are stuck.
func (s *scopes) Counts() (byShard map[Shard]int, stuck int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	byShard = map[Shard]int{}
	for shard, e := range s.engaged {
		byShard[shard] = len(e.scopes)
	}
	return byShard, s.stuck
}

// Close ends all engagements and waits for their goroutines. It drops nothing.
func (s *scopes) Close() {
	s.mu.Lock()
	for _, e := range s.engaged {
		e.cancel()
	}
	s.mu.Unlock()
	s.running.Wait()
}
