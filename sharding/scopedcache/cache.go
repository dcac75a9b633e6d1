package scopedcache

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var errSkeleton = errors.New("not written yet")

// Cache is a cache.Cache of cluster-scoped kinds, shared namespaces and scopes.
type Cache struct{}

var _ cache.Cache = &Cache{}

// New returns a Cache without any scope. It starts nothing.
func New(config *rest.Config, options Options) (*Cache, error) {
	return nil, errSkeleton
}

// AddScope caches a namespace and waits until all of it has been read. Called again for the same
// namespace it goes on waiting. When ctx ends first it returns a NotSyncedError that names the
// kinds that hold it up, and the scope goes on trying until RemoveScope. Before Start it waits for
// Start. Scopes are started side by side; one that does not sync does not keep others waiting.
func (c *Cache) AddScope(ctx context.Context, namespace string) error { return errSkeleton }

// RemoveScope stops caching a namespace. From its return on, reads of the namespace are
// NotOwnedErrors and no event of it is delivered, except for one that was being delivered at that
// moment. Its goroutines and watches end soon after. Unknown namespaces are ignored.
func (c *Cache) RemoveScope(namespace string) {}

// Scopes returns the added namespaces, synced or not, sorted. Shared ones only if added.
func (c *Cache) Scopes() []string { return nil }

// Replay delivers every object that is cached of these scopes to every handler once more, as an
// ordinary Add, so that a priority queue gives it ordinary priority (I5). Call it after the
// namespaces' shard was admitted. It returns when the events are queued, not when they are
// delivered. A kind of these scopes that syncs later is delivered as ordinary Adds too. Namespaces
// that are no scopes are ignored.
func (c *Cache) Replay(namespaces []string) {}

// Get implements client.Reader. A namespace that is not cached gives a NotOwnedError, one that is
// not synced a NotSyncedError.
func (c *Cache) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return errSkeleton
}

// List implements client.Reader. Over all namespaces it merges the shared namespaces and the
// scopes that are synced, in the order of their names. A namespace that is not cached gives a
// NotOwnedError.
func (c *Cache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return errSkeleton
}

// GetInformer implements cache.Informers. The informer of a namespaced kind stands for all scopes;
// it has synced when the shared namespaces have, whatever scopes do.
func (c *Cache) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	return nil, errSkeleton
}

// GetInformerForKind implements cache.Informers.
func (c *Cache) GetInformerForKind(ctx context.Context, gvk schema.GroupVersionKind, opts ...cache.InformerGetOption) (cache.Informer, error) {
	return nil, errSkeleton
}

// RemoveInformer implements cache.Informers: the kind is no longer cached, anywhere.
func (c *Cache) RemoveInformer(ctx context.Context, obj client.Object) error { return errSkeleton }

// IndexField implements client.FieldIndexer for all scopes, present and future.
func (c *Cache) IndexField(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	return errSkeleton
}

// Start implements cache.Informers: it runs until ctx ends and everything has stopped.
func (c *Cache) Start(ctx context.Context) error { return errSkeleton }

// WaitForCacheSync implements cache.Informers. It waits for the cluster-scoped kinds and the
// shared namespaces, not for scopes: AddScope waits for those.
func (c *Cache) WaitForCacheSync(ctx context.Context) bool { return false }
