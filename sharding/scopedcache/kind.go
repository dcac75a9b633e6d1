package scopedcache

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// form is how the objects of a kind are held; each form of a kind has an informer of its own.
type form int

const (
	structured form = iota
	anyFields
	metadataOnly
)

// kindKey names a kind and its form.
type kindKey struct {
	schema.GroupVersionKind
	form form
}

// String names the kind for people.
func (k kindKey) String() string {
	return k.GroupKind().String()
}

// keyOf returns the key of an object's kind, or of the kind that a list holds.
func keyOf(obj runtime.Object, scheme *runtime.Scheme) (kindKey, error) {
	gvk, err := apiutil.GVKForObject(obj, scheme)
	if err != nil {
		return kindKey{}, fmt.Errorf("finding the kind of %T: %w", obj, err)
	}
	key := kindKey{GroupVersionKind: gvk}
	isList := false
	switch obj.(type) {
	case *metav1.PartialObjectMetadata:
		key.form = metadataOnly
	case *metav1.PartialObjectMetadataList:
		key.form, isList = metadataOnly, true
	case *unstructured.UnstructuredList:
		key.form, isList = anyFields, true
	case runtime.Unstructured:
		key.form = anyFields
	default:
		_, isList = obj.(client.ObjectList)
	}
	if isList {
		key.Kind = strings.TrimSuffix(key.Kind, "List")
	}
	return key, nil
}

// prototypeOf returns an empty object of a kind.
func prototypeOf(key kindKey, scheme *runtime.Scheme) (client.Object, error) {
	switch key.form {
	case metadataOnly:
		obj := &metav1.PartialObjectMetadata{}
		obj.SetGroupVersionKind(key.GroupVersionKind)
		return obj, nil
	case anyFields:
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(key.GroupVersionKind)
		return obj, nil
	}
	made, err := scheme.New(key.GroupVersionKind)
	if err != nil {
		return nil, fmt.Errorf("making an object of kind %s: %w", key, err)
	}
	obj, isObject := made.(client.Object)
	if !isObject {
		return nil, fmt.Errorf("making an object of kind %s: %T is no client.Object", key, made)
	}
	return obj, nil
}

// fieldIndex is an index that follows every scope.
type fieldIndex struct {
	field   string
	extract client.IndexerFunc
}

// kind is what is registered once for a kind and follows every scope: handlers and indexes. It is
// the Informer that controllers get.
type kind struct {
	key        kindKey
	prototype  client.Object
	namespaced bool
	start      func(*registration) // runs a registration as soon as the cache does
	// permanentSynced is closed when every permanent informer has synced.
	permanentSynced chan struct{}

	// mu guards what follows. It is taken before the mutex of an informer, never after it.
	mu            sync.Mutex
	removed       bool
	unsynced      int // permanent informers that have not synced
	informers     map[*informer]struct{}
	registrations []*registration
	indexes       []fieldIndex
	indexers      []toolscache.Indexers
}

var _ cache.Informer = &kind{}

// newKind returns a kind without informers.
func newKind(key kindKey, prototype client.Object, namespaced bool) *kind {
	return &kind{
		key:             key,
		prototype:       prototype,
		namespaced:      namespaced,
		permanentSynced: make(chan struct{}),
		informers:       map[*informer]struct{}{},
	}
}

// join adds the informer of one more scope.
func (k *kind) join(i *informer) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.informers[i] = struct{}{}
	for _, indexers := range k.indexers {
		if err := i.AddIndexers(indexers); err != nil {
			return err
		}
	}
	for _, r := range k.registrations {
		i.addRegistration(r)
	}
	return nil
}

// leave takes out the informer of a scope that has gone.
func (k *kind) leave(i *informer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.informers, i)
}

// permanentDone is called by each permanent informer when it has synced.
func (k *kind) permanentDone() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unsynced--
	if k.unsynced > 0 {
		return
	}
	close(k.permanentSynced)
	for _, r := range k.registrations {
		r.push(notification{change: initialDone})
	}
}

// addIndex records a field index for scopes to come. It reports false when the field has one.
func (k *kind) addIndex(index fieldIndex) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, other := range k.indexes {
		if other.field == index.field {
			return false
		}
	}
	k.indexes = append(k.indexes, index)
	return true
}

// fieldIndexes returns the field indexes recorded so far.
func (k *kind) fieldIndexes() []fieldIndex {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.indexes)
}

// remove marks the kind as no longer cached and ends its registrations.
func (k *kind) remove() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.removed = true
	for _, r := range k.registrations {
		r.close()
	}
	k.registrations = nil
}

// isRemoved reports whether remove was called.
func (k *kind) isRemoved() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.removed
}

// AddEventHandler implements cache.Informer.
func (k *kind) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return k.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements cache.Informer; see AddEventHandlerWithOptions.
func (k *kind) AddEventHandlerWithResyncPeriod(handler toolscache.ResourceEventHandler, period time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return k.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions registers a handler for every scope, present and future. A resync
// period of zero means no resyncs; any other gives those of the cache's own period.
func (k *kind) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	wantsResync := options.ResyncPeriod == nil || *options.ResyncPeriod > 0
	r := newRegistration(handler, wantsResync)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.removed {
		return nil, fmt.Errorf("adding a handler for %s: %w", k.key, ErrStopped)
	}
	k.registrations = append(k.registrations, r)
	for i := range k.informers {
		i.addRegistration(r)
	}
	if k.unsynced == 0 {
		r.push(notification{change: initialDone})
	}
	k.start(r)
	return r, nil
}

// RemoveEventHandler implements cache.Informer. What is queued for the handler is dropped.
func (k *kind) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	r, isOurs := handle.(*registration)
	if !isOurs {
		return fmt.Errorf("removing a handler of %s: %T was not returned by this informer", k.key, handle)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.registrations = slices.DeleteFunc(k.registrations, func(other *registration) bool { return other == r })
	for i := range k.informers {
		i.removeRegistration(r)
	}
	r.close()
	return nil
}

// AddIndexers implements cache.Informer for every scope, present and future.
func (k *kind) AddIndexers(indexers toolscache.Indexers) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.informers {
		if err := i.AddIndexers(indexers); err != nil {
			return err
		}
	}
	k.indexers = append(k.indexers, maps.Clone(indexers))
	return nil
}

// HasSynced reports whether the permanent scopes have synced; AddScope tells about the others.
func (k *kind) HasSynced() bool {
	select {
	case <-k.permanentSynced:
		return true
	default:
		return false
	}
}

// HasSyncedChecker implements cache.Informer for what HasSynced reports.
func (k *kind) HasSyncedChecker() toolscache.DoneChecker {
	return doneChecker{name: "scoped informer of " + k.key.String(), done: k.permanentSynced}
}

// IsStopped implements cache.Informer.
func (k *kind) IsStopped() bool { return k.isRemoved() }

// doneChecker is a toolscache.DoneChecker made of its parts.
type doneChecker struct {
	name string
	done <-chan struct{}
}

// Name implements toolscache.DoneChecker.
func (d doneChecker) Name() string { return d.name }

// Done implements toolscache.DoneChecker.
func (d doneChecker) Done() <-chan struct{} { return d.done }
