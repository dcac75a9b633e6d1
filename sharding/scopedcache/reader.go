package scopedcache

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Get implements client.Reader. A namespace that is not cached gives a NotOwnedError, one that is
// not synced a NotSyncedError. A kind that is read for the first time is cached from then on, in
// every scope.
func (c *Cache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	k, err := c.kindToRead(obj)
	if err != nil {
		return err
	}
	s, err := c.find(k, key.Namespace)
	if err != nil {
		return err
	}
	if err := s.waitForKind(ctx, k); err != nil {
		return err
	}
	return s.unlessClosed(s.inner.Get(ctx, key, obj, opts...))
}

// List implements client.Reader. Over all namespaces it merges the shared namespaces and the
// scopes that are synced, in the order of their names. A namespace that is not cached gives a
// NotOwnedError.
func (c *Cache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	k, err := c.kindToRead(list)
	if err != nil {
		return err
	}
	var options client.ListOptions
	options.ApplyOptions(opts)
	if k.namespaced && options.Namespace == "" {
		return c.listAll(ctx, k, list, options)
	}
	s, err := c.find(k, options.Namespace)
	if err != nil {
		return err
	}
	if err := s.waitForKind(ctx, k); err != nil {
		return err
	}
	return s.unlessClosed(s.inner.List(ctx, list, opts...))
}

// listAll lists over every namespace that is cached.
func (c *Cache) listAll(ctx context.Context, k *kind, list client.ObjectList, options client.ListOptions) error {
	if options.Continue != "" {
		return errors.New("listing from the scoped cache: it does not support Continue")
	}
	limit := options.Limit
	all := []runtime.Object{}
	for _, s := range c.readable(k) {
		items, err := s.list(ctx, k, list, options)
		if errors.Is(err, ErrNotOwned) {
			continue // removed since
		}
		if err != nil {
			return err
		}
		all = append(all, items...)
		if limit > 0 && int64(len(all)) >= limit {
			all = slices.Clip(all[:limit])
			break
		}
	}
	if err := meta.SetList(list, all); err != nil {
		return fmt.Errorf("filling a list of %s: %w", k.key, err)
	}
	// As controller-runtime's caches do, whether there is more or not.
	list.SetContinue("continue-not-supported")
	return nil
}

// list lists one scope into a new list of the same type.
func (s *scope) list(ctx context.Context, k *kind, like client.ObjectList, options client.ListOptions) ([]runtime.Object, error) {
	if err := s.waitForKind(ctx, k); err != nil {
		return nil, err
	}
	part, isList := like.DeepCopyObject().(client.ObjectList)
	if !isList {
		return nil, fmt.Errorf("listing %s: %T is no list", k.key, like)
	}
	options.Namespace = s.namespace
	if err := s.unlessClosed(s.inner.List(ctx, part, &options)); err != nil {
		return nil, err
	}
	items, err := meta.ExtractList(part)
	if err != nil {
		return nil, fmt.Errorf("taking the items of a list of %s: %w", k.key, err)
	}
	return items, nil
}

// kindToRead returns the kind of an object or a list that is to be read.
func (c *Cache) kindToRead(obj runtime.Object) (*kind, error) {
	select {
	case <-c.started:
	default:
		return nil, &cache.ErrCacheNotStarted{}
	}
	key, err := keyOf(obj, c.settings.options.Scheme)
	if err != nil {
		return nil, err
	}
	if c.settings.options.ReaderFailOnMissingInformer && !c.hasKind(key) {
		return nil, &cache.ErrResourceNotCached{GVK: key.GroupVersionKind}
	}
	return c.kindFor(key)
}

// hasKind reports whether a kind is registered.
func (c *Cache) hasKind(key kindKey) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, isKnown := c.kinds[key]
	return isKnown
}

// GetInformer implements cache.Informers. The informer of a namespaced kind stands for all scopes;
// it has synced when the shared namespaces have, whatever scopes do.
func (c *Cache) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	key, err := keyOf(obj, c.settings.options.Scheme)
	if err != nil {
		return nil, err
	}
	return c.informerFor(ctx, key, opts)
}

// GetInformerForKind implements cache.Informers.
func (c *Cache) GetInformerForKind(ctx context.Context, gvk schema.GroupVersionKind, opts ...cache.InformerGetOption) (cache.Informer, error) {
	return c.informerFor(ctx, kindKey{GroupVersionKind: gvk}, opts)
}

// informerFor returns the informer of a kind, by default once it has synced.
func (c *Cache) informerFor(ctx context.Context, key kindKey, opts []cache.InformerGetOption) (cache.Informer, error) {
	k, err := c.kindFor(key)
	if err != nil {
		return nil, err
	}
	var options cache.InformerGetOptions
	for _, apply := range opts {
		apply(&options)
	}
	select {
	case <-c.started:
	default:
		return k, nil // it cannot sync before Start
	}
	if options.BlockUntilSynced != nil && !*options.BlockUntilSynced {
		return k, nil
	}
	select {
	case <-k.permanentSynced:
		return k, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for %s to sync: %w", key, ctx.Err())
	}
}

// RemoveInformer implements cache.Informers: the kind is no longer cached, anywhere, and its
// handlers are forgotten.
func (c *Cache) RemoveInformer(ctx context.Context, obj client.Object) error {
	key, err := keyOf(obj, c.settings.options.Scheme)
	if err != nil {
		return err
	}
	k, scopes := c.forgetKind(key)
	if k == nil {
		return nil
	}
	k.remove()
	var errs []error
	for _, s := range scopes {
		errs = append(errs, s.drop(ctx, k))
	}
	return errors.Join(errs...)
}

// IndexField implements client.FieldIndexer for all scopes, present and future.
func (c *Cache) IndexField(_ context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	k, err := c.kindOf(obj)
	if err != nil {
		return err
	}
	index := fieldIndex{field: field, extract: extract}
	if !k.addIndex(index) {
		return fmt.Errorf("indexing %s by %s: there is an index of that name", k.key, field)
	}
	for _, s := range c.allScopes() {
		if err := s.index(k, index); err != nil {
			return err
		}
	}
	return nil
}
