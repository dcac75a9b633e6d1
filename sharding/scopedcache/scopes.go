package scopedcache

import (
	"context"
	"errors"
	"maps"
	"slices"
)

// AddScope caches a namespace and waits until all of it has been read. Called again for the same
// namespace it goes on waiting. When ctx ends first it returns a NotSyncedError that names the
// kinds that hold it up, and the scope goes on trying until RemoveScope. Before Start it waits for
// Start. Scopes are started side by side; one that does not sync does not keep others waiting.
// It returns ErrStopped when the scope is removed or the cache ends meanwhile.
func (c *Cache) AddScope(ctx context.Context, namespace string) error {
	if namespace == "" {
		return errors.New("adding a scope: an empty name would cache every namespace")
	}
	s, kinds, err := c.ensureScope(namespace)
	if err != nil {
		return err
	}
	if err := s.openAll(kinds); err != nil {
		return err
	}
	c.launch(s)
	return s.wait(ctx)
}

// ensureScope returns the scope of a namespace, new or known, and the kinds to open in it.
func (c *Cache) ensureScope(namespace string) (*scope, []*kind, error) {
	c.mu.Lock()
	s, kinds := c.scopes[namespace], slices.Collect(maps.Values(c.kinds))
	c.mu.Unlock()
	if s != nil {
		return s, kinds, nil
	}
	made, err := newScope(c.root, c.settings, namespace)
	if err != nil {
		return nil, nil, err
	}
	shared := c.shared[namespace]
	made.covers = func(k *kind) bool {
		return k.namespaced && (shared == nil || !shared.covers(k))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isOver {
		made.close()
		return nil, nil, ErrStopped
	}
	if s = c.scopes[namespace]; s != nil {
		made.close() // another call was quicker
	} else {
		s = made
		c.scopes[namespace] = s
	}
	return s, slices.Collect(maps.Values(c.kinds)), nil
}

// launch runs a scope, once, if the cache runs.
func (c *Cache) launch(s *scope) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.launchLocked(s)
}

// RemoveScope stops caching a namespace. From its return on, reads of the namespace are
// NotOwnedErrors and no event of it is delivered, except for one that was being delivered at that
// moment. Its goroutines and watches end soon after. Unknown namespaces are ignored.
func (c *Cache) RemoveScope(namespace string) {
	c.mu.Lock()
	s, isKnown := c.scopes[namespace]
	delete(c.scopes, namespace)
	c.mu.Unlock()
	if isKnown {
		s.close()
	}
}

// Scopes returns the added namespaces, synced or not, sorted. Shared ones only if added.
func (c *Cache) Scopes() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.scopes))
}

// Replay delivers every object that is cached of these scopes to every handler once more, as an
// ordinary Add, so that a priority queue gives it ordinary priority (I5). Call it after the
// namespaces' shard was admitted. It returns when the events are queued, not when they are
// delivered. What is read for the first time afterwards, a handler or a kind that is registered
// later included, comes as ordinary Adds too. Namespaces that are no scopes are ignored.
func (c *Cache) Replay(namespaces []string) {
	for _, namespace := range namespaces {
		c.mu.Lock()
		s, isKnown := c.scopes[namespace]
		shared, isShared := c.shared[namespace]
		c.mu.Unlock()
		if !isKnown {
			continue
		}
		s.replay()
		if isShared {
			shared.replay()
		}
	}
}

// find returns the scope that caches a kind in a namespace.
func (c *Cache) find(k *kind, namespace string) (*scope, error) {
	if !k.namespaced {
		return c.cluster, nil
	}
	if shared, isShared := c.shared[namespace]; isShared && shared.covers(k) {
		return shared, nil
	}
	c.mu.Lock()
	s, isKnown := c.scopes[namespace]
	c.mu.Unlock()
	if !isKnown {
		return nil, &NotOwnedError{Namespace: namespace}
	}
	if !s.isSynced() {
		return nil, s.notSynced(nil)
	}
	return s, nil
}

// readable returns every scope that a List over all namespaces covers, in the order of its names:
// what is shared, and the scopes that have synced.
func (c *Cache) readable(k *kind) []*scope {
	c.mu.Lock()
	all := append(slices.Collect(maps.Values(c.scopes)), slices.Collect(maps.Values(c.shared))...)
	c.mu.Unlock()
	all = slices.DeleteFunc(all, func(s *scope) bool {
		return !s.covers(k) || (!s.isPermanent && !s.isSynced())
	})
	slices.SortFunc(all, func(a, b *scope) int {
		if a.namespace < b.namespace {
			return -1
		}
		return 1 // no kind is covered twice in a namespace
	})
	return all
}
