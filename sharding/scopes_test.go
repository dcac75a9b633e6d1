package sharding

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"example.com/redis-operator/sharding/scopedcache"
)

// fakeCache syncs every namespace at once but those that are stuck.
type fakeCache struct {
	mu       sync.Mutex // guards everything below
	stuck    map[string]bool
	failures map[string]int // how many more times adding it fails at once
	added    int
	scopes   map[string]bool
	replayed []string
}

func (f *fakeCache) AddScope(ctx context.Context, namespace string) error {
	f.mu.Lock()
	f.scopes[namespace] = true
	stuck := f.stuck[namespace]
	f.added++
	fails := f.failures[namespace] > 0
	if fails {
		f.failures[namespace]--
	}
	f.mu.Unlock()
	if fails {
		return errors.New("no such kind")
	}
	if !stuck {
		return nil
	}
	<-ctx.Done()
	return &scopedcache.NotSyncedError{Namespace: namespace, Err: ctx.Err()}
}

func (f *fakeCache) RemoveScope(namespace string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.scopes, namespace)
}

func (f *fakeCache) Replay(namespaces []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replayed = append(f.replayed, namespaces...)
}

func (f *fakeCache) setStuck(namespace string, stuck bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stuck[namespace] = stuck
}

func (f *fakeCache) list() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(slices.Sorted(maps.Keys(f.scopes)), " ")
}

func (f *fakeCache) replays() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.replayed, " ")
}

// scopesOfShard0 has namespaces a and b in shard 0, and everything else in shard 1.
func scopesOfShard0(stuck ...string) (*scopes, *fakeCache) {
	cache := &fakeCache{stuck: map[string]bool{}, scopes: map[string]bool{}}
	for _, namespace := range stuck {
		cache.stuck[namespace] = true
	}
	shardOf := func(namespace string) Shard {
		if namespace < "m" {
			return 0
		}
		return 1
	}
	names := func(shard Shard) map[string]int {
		if shard == 0 {
			return map[string]int{"a": 1, "b": 2}
		}
		return nil
	}
	return newScopes(logr.Discard(), cache, names, shardOf), cache
}

// moment is when something happened; zero while it has not.
type moment struct{ at atomic.Pointer[time.Time] }

func (m *moment) get() time.Time {
	if at := m.at.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// warm engages a shard and tells when it was warm.
func warm(s *scopes, shard Shard) *moment {
	m := &moment{}
	s.Warm(context.Background(), shard, func() {
		now := time.Now()
		m.at.Store(&now)
	})
	return m
}

func TestWarmLoadsAndDropRemoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, cache := scopesOfShard0()
		var dropped []string
		s.dropped = func(namespace string) { dropped = append(dropped, namespace) }
		at, empty := warm(s, 0), warm(s, 1)
		synctest.Wait()
		if at.get().IsZero() || empty.get().IsZero() || cache.list() != "a b" || !s.Has("a") || s.Has("z") {
			t.Fatalf("warm at %s and %s with scopes %q", at.get(), empty.get(), cache.list())
		}
		if s.Admitted(0); cache.replays() != "a b" {
			t.Errorf("I5: replayed %q, want a and b", cache.replays())
		}
		s.Drop(0)
		if slices.Sort(dropped); cache.list() != "" || strings.Join(dropped, " ") != "a b" || s.Has("a") {
			t.Errorf("after the drop the scopes are %q, told of %v", cache.list(), dropped)
		}
		s.Close()
	})
}

// A namespace that does not sync is reported after 10 s and holds up nobody; once it has synced,
// what is in it is replayed.
func TestStuckNamespaceHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, cache := scopesOfShard0("b")
		start := time.Now()
		at := warm(s, 0)
		<-time.After(stuckAfter - time.Millisecond)
		synctest.Wait()
		if !at.get().IsZero() {
			t.Fatal("warm although a namespace has not synced")
		}
		<-time.After(time.Millisecond)
		synctest.Wait()
		if _, stuck := s.Counts(); at.get().Sub(start) != stuckAfter || stuck != 1 {
			t.Fatalf("warm after %s with %d stuck, want %s and 1", at.get().Sub(start), stuck, stuckAfter)
		}
		s.Admitted(0)
		cache.setStuck("b", false)
		<-time.After(stuckAfter)
		synctest.Wait()
		if _, stuck := s.Counts(); stuck != 0 || cache.replays() != "a b b" {
			t.Errorf("%d stuck, replayed %q; want none, and b once more", stuck, cache.replays())
		}
		s.Close()
	})
}

// A namespace that cannot be added at all is tried again once a second, and holds up nobody.
func TestFailingNamespaceIsTriedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const failures = 3
		s, cache := scopesOfShard0()
		cache.failures = map[string]int{"b": failures}
		at := warm(s, 0)
		synctest.Wait()
		if _, stuck := s.Counts(); at.get().IsZero() || stuck != 1 {
			t.Errorf("warm at %s with %d stuck, want warm at once with 1", at.get(), stuck)
		}
		<-time.After(failures * retryScope)
		synctest.Wait()
		if _, stuck := s.Counts(); stuck != 0 || cache.added != 2+failures {
			t.Errorf("%d stuck after %d attempts, want none after %d", stuck, cache.added, 2+failures)
		}
		s.Close()
	})
}

func TestScopesFollowTheDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, cache := scopesOfShard0()
		warm(s, 0)
		synctest.Wait()
		s.Admitted(0)
		s.Changed("c", 1)
		s.Changed("z", 1) // of a shard that is not engaged
		synctest.Wait()
		if cache.list() != "a b c" || cache.replays() != "a b c" {
			t.Fatalf("scopes %q, replayed %q after c appeared", cache.list(), cache.replays())
		}
		s.Changed("a", 0)
		s.Changed("b", 0)
		<-time.After(emptyAfter)
		s.Changed("b", 1) // fills again in time
		if s.Sweep(time.Now()); cache.list() != "a b c" {
			t.Fatalf("scopes %q: one was dropped too early", cache.list())
		}
		<-time.After(time.Millisecond)
		if s.Sweep(time.Now()); cache.list() != "b c" || s.Has("a") {
			t.Fatalf("scopes %q, want b and c", cache.list())
		}
		s.Changed("a", 1)
		synctest.Wait()
		if cache.list() != "a b c" {
			t.Errorf("scopes %q after a filled again", cache.list())
		}
		s.Close()
	})
}

// A scope that is still loading when its shard is dropped does not stay behind.
func TestDropWhileLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, cache := scopesOfShard0("a", "b")
		at := warm(s, 0)
		s.Drop(0) // before any of them was added
		synctest.Wait()
		if cache.list() != "" || !at.get().IsZero() {
			t.Errorf("scopes %q stay behind, warm at %s", cache.list(), at.get())
		}
		s.Close()
	})
}
