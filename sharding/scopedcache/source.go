package scopedcache

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// listedSource has a reflector list first and then watch. A watch that sends what there is first, which
// client-go prefers, spares the memory of large lists and sends a bookmark behind it: for the few objects
// of one namespace the bookmarks of thousands of watches are more than the objects.
type listedSource struct {
	toolscache.ListerWatcher
	source toolscache.ListerWatcherWithContext
}

func newListedSource(source toolscache.ListerWatcher) listedSource {
	return listedSource{ListerWatcher: source, source: toolscache.ToListerWatcherWithContext(source)}
}

// ListWithContext implements toolscache.ListerWatcherWithContext. A reflector's first list is content with
// what any API server has cached ("0"); an owner must see all that the owner before it has written.
func (s listedSource) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if options.ResourceVersion == "0" {
		options.ResourceVersion = ""
	}
	return s.source.ListWithContext(ctx, options)
}

// WatchWithContext implements toolscache.ListerWatcherWithContext.
func (s listedSource) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return s.source.WatchWithContext(ctx, options)
}

// IsWatchListSemanticsUnSupported is asked by the reflector.
func (listedSource) IsWatchListSemanticsUnSupported() bool { return true }
