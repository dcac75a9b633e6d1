package scopedcache

import (
	"context"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
)

// What a SharedIndexInformer must have besides; handlers are added to the kind, not here.

// AddEventHandler implements toolscache.SharedInformer by adding to the kind.
func (i *informer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.kind.AddEventHandler(handler)
}

// AddEventHandlerWithResyncPeriod implements toolscache.SharedInformer by adding to the kind.
func (i *informer) AddEventHandlerWithResyncPeriod(handler toolscache.ResourceEventHandler, period time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.kind.AddEventHandlerWithResyncPeriod(handler, period)
}

// AddEventHandlerWithOptions implements toolscache.SharedInformer by adding to the kind.
func (i *informer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.kind.AddEventHandlerWithOptions(handler, options)
}

// RemoveEventHandler implements toolscache.SharedInformer by removing from the kind.
func (i *informer) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	return i.kind.RemoveEventHandler(handle)
}

// GetStore implements toolscache.SharedInformer.
func (i *informer) GetStore() toolscache.Store { return i.indexer }

// GetIndexer implements toolscache.SharedIndexInformer.
func (i *informer) GetIndexer() toolscache.Indexer { return i.indexer }

// AddIndexers implements toolscache.SharedIndexInformer.
func (i *informer) AddIndexers(indexers toolscache.Indexers) error {
	return i.indexer.AddIndexers(indexers)
}

// GetController implements toolscache.SharedInformer; client-go calls it deprecated and useless.
func (i *informer) GetController() toolscache.Controller { return nil }

// HasSynced implements toolscache.SharedInformer.
func (i *informer) HasSynced() bool {
	isSynced, _ := i.state()
	return isSynced
}

// HasSyncedChecker is done when the informer has synced, and also when it has ended before: the
// cache above starts a goroutine that waits for it, which must not outlive the scope.
func (i *informer) HasSyncedChecker() toolscache.DoneChecker {
	return doneChecker{name: i.kind.key.String(), done: i.settled}
}

// LastSyncResourceVersion implements toolscache.SharedInformer.
func (i *informer) LastSyncResourceVersion() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.version
}

// SetWatchErrorHandler implements toolscache.SharedInformer.
func (i *informer) SetWatchErrorHandler(handler toolscache.WatchErrorHandler) error {
	return i.SetWatchErrorHandlerWithContext(func(_ context.Context, r *toolscache.Reflector, err error) {
		handler(r, err)
	})
}

// SetWatchErrorHandlerWithContext implements toolscache.SharedInformer.
func (i *informer) SetWatchErrorHandlerWithContext(handler toolscache.WatchErrorHandlerWithContext) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.onError = handler
	return nil
}

// SetTransform implements toolscache.SharedInformer.
func (i *informer) SetTransform(transform toolscache.TransformFunc) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.transform = transform
	return nil
}

// IsStopped implements toolscache.SharedInformer.
func (i *informer) IsStopped() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.isStopped
}
