package directory

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	toolscache "k8s.io/client-go/tools/cache"
)

// watch lists and watches the metadata of a resource into a store until ctx ends.
func (d *Directory) watch(ctx context.Context, resource schema.GroupVersionResource, namespace string, store toolscache.ReflectorStore) {
	var client metadata.ResourceInterface = d.client.Resource(resource)
	if namespace != "" {
		client = d.client.Resource(resource).Namespace(namespace)
	}
	source := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, options)
		},
	}
	name := "directory of " + resource.String()
	toolscache.NewReflectorWithOptions(toolscache.ToListWatcherWithWatchListSemantics(source, d.client),
		&metav1.PartialObjectMetadata{}, store, toolscache.ReflectorOptions{Name: name}).RunWithContext(ctx)
}

// strip leaves nothing of an object but what the stores look at.
func strip(obj any) (any, error) {
	object, err := metadataOf(obj)
	if err != nil {
		return nil, err
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace:         object.Namespace,
		Name:              object.Name,
		UID:               object.UID,
		ResourceVersion:   object.ResourceVersion,
		DeletionTimestamp: object.DeletionTimestamp,
	}}, nil
}

// metadataOf returns an object as what the metadata client gives.
func metadataOf(obj any) (*metav1.PartialObjectMetadata, error) {
	object, isMetadata := obj.(*metav1.PartialObjectMetadata)
	if !isMetadata {
		return nil, fmt.Errorf("watching metadata: got a %T", obj)
	}
	return object, nil
}

// objectStore keeps the names of the objects of one root kind, by namespace, and nothing else.
type objectStore struct {
	directory *Directory
	// Guarded by Directory.mu.
	names    map[string]map[string]struct{}
	isSynced bool
}

var _ toolscache.TransformingStore = &objectStore{}

// newObjectStore returns an empty store.
func newObjectStore(d *Directory) *objectStore {
	return &objectStore{directory: d, names: map[string]map[string]struct{}{}}
}

// Transformer implements toolscache.TransformingStore: what a list collects is small already.
func (s *objectStore) Transformer() toolscache.TransformFunc { return strip }

// Add implements toolscache.ReflectorStore.
func (s *objectStore) Add(obj any) error {
	object, err := metadataOf(obj)
	if err != nil {
		return err
	}
	s.directory.mu.Lock()
	defer s.directory.mu.Unlock()
	defer s.directory.wakeUp()
	names := s.names[object.Namespace]
	if names == nil {
		names = map[string]struct{}{}
		s.names[object.Namespace] = names
	}
	if _, isKnown := names[object.Name]; !isKnown {
		names[object.Name] = struct{}{}
		s.directory.addLocked(object.Namespace, 1)
	}
	return nil
}

// Update implements toolscache.ReflectorStore.
func (s *objectStore) Update(obj any) error { return s.Add(obj) }

// Delete implements toolscache.ReflectorStore.
func (s *objectStore) Delete(obj any) error {
	object, err := metadataOf(obj)
	if err != nil {
		return err
	}
	s.directory.mu.Lock()
	defer s.directory.mu.Unlock()
	defer s.directory.wakeUp()
	names := s.names[object.Namespace]
	if _, isKnown := names[object.Name]; !isKnown {
		return nil
	}
	delete(names, object.Name)
	if len(names) == 0 {
		delete(s.names, object.Namespace)
	}
	s.directory.addLocked(object.Namespace, -1)
	return nil
}

// Replace implements toolscache.ReflectorStore.
func (s *objectStore) Replace(objects []any, _ string) error {
	listed := map[string]map[string]struct{}{}
	for _, obj := range objects {
		object, err := metadataOf(obj)
		if err != nil {
			return err
		}
		if listed[object.Namespace] == nil {
			listed[object.Namespace] = map[string]struct{}{}
		}
		listed[object.Namespace][object.Name] = struct{}{}
	}
	s.directory.mu.Lock()
	defer s.directory.mu.Unlock()
	defer s.directory.wakeUp()
	for namespace, names := range s.names {
		s.directory.addLocked(namespace, len(listed[namespace])-len(names))
	}
	for namespace, names := range listed {
		if _, wasKnown := s.names[namespace]; !wasKnown {
			s.directory.addLocked(namespace, len(names))
		}
	}
	s.names = listed
	if !s.isSynced {
		s.isSynced = true
		s.directory.syncedLocked()
	}
	return nil
}

// Resync implements toolscache.ReflectorStore.
func (s *objectStore) Resync() error { return nil }

// namespaceStore keeps the names of the namespaces that are being deleted, and of no other.
type namespaceStore struct {
	directory *Directory
}

var _ toolscache.TransformingStore = &namespaceStore{}

// Transformer implements toolscache.TransformingStore.
func (s *namespaceStore) Transformer() toolscache.TransformFunc { return strip }

// Add implements toolscache.ReflectorStore.
func (s *namespaceStore) Add(obj any) error {
	object, err := metadataOf(obj)
	if err != nil {
		return err
	}
	s.set(object.Name, object.DeletionTimestamp != nil)
	return nil
}

// Update implements toolscache.ReflectorStore.
func (s *namespaceStore) Update(obj any) error { return s.Add(obj) }

// Delete implements toolscache.ReflectorStore.
func (s *namespaceStore) Delete(obj any) error {
	object, err := metadataOf(obj)
	if err != nil {
		return err
	}
	s.set(object.Name, false)
	return nil
}

// set notes whether a namespace is being deleted.
func (s *namespaceStore) set(namespace string, isTerminating bool) {
	d := s.directory
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, was := d.terminating[namespace]; was == isTerminating {
		return
	}
	if isTerminating {
		d.terminating[namespace] = struct{}{}
	} else {
		delete(d.terminating, namespace)
	}
	d.markLocked(namespace)
	d.wakeUp()
}

// Replace implements toolscache.ReflectorStore.
func (s *namespaceStore) Replace(objects []any, _ string) error {
	listed := map[string]bool{}
	for _, obj := range objects {
		object, err := metadataOf(obj)
		if err != nil {
			return err
		}
		listed[object.Name] = object.DeletionTimestamp != nil
	}
	for namespace := range s.known() {
		if !listed[namespace] {
			s.set(namespace, false)
		}
	}
	for namespace, isTerminating := range listed {
		s.set(namespace, isTerminating)
	}
	return nil
}

// known returns the namespaces that are being deleted.
func (s *namespaceStore) known() map[string]struct{} {
	s.directory.mu.Lock()
	defer s.directory.mu.Unlock()
	known := make(map[string]struct{}, len(s.directory.terminating))
	for namespace := range s.directory.terminating {
		known[namespace] = struct{}{}
	}
	return known
}

// Resync implements toolscache.ReflectorStore.
func (s *namespaceStore) Resync() error { return nil }
