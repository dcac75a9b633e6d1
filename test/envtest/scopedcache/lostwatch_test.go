package scopedcache_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/redis-operator/sharding/directory"
	"example.com/redis-operator/sharding/scopedcache"
)

// changeBehindTheBack replaces red and blue by blue (changed) and green.
func changeBehindTheBack(t *testing.T, namespace string) {
	t.Helper()
	mustDelete(t, configMap(namespace, "red"))
	mustCreate(t, configMap(namespace, "green"))
	changed := configMap(namespace, "blue")
	changed.Data["color"] = "navy"
	if err := direct.Update(t.Context(), changed); err != nil {
		t.Fatalf("updating: %v", err)
	}
}

func TestCacheSurvivesLostWatch(t *testing.T) {
	namespace := newNamespace(t)
	mustCreate(t, configMap(namespace, "red"))
	mustCreate(t, configMap(namespace, "blue"))
	link, linked := newLink(config)
	cache := startCache(t, linked, scopedcache.Options{})
	informer, err := cache.GetInformer(t.Context(), &corev1.ConfigMap{})
	if err != nil {
		t.Fatalf("GetInformer: %v", err)
	}
	events := make(chan string, 100)
	handle, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { events <- "add " + obj.(*corev1.ConfigMap).Name },
		UpdateFunc: func(_, obj any) { events <- "update " + obj.(*corev1.ConfigMap).Name },
		DeleteFunc: func(obj any) {
			tombstone := obj.(toolscache.DeletedFinalStateUnknown)
			events <- "delete " + tombstone.Obj.(*corev1.ConfigMap).Name
		},
	})
	if err != nil {
		t.Fatalf("AddEventHandler: %v", err)
	}
	mustAddScope(t, cache, namespace)
	wantEvents(t, events, "add blue", "add red")
	if !handle.HasSynced() {
		t.Error("the handler has not synced")
	}

	link.cut()
	changeBehindTheBack(t, namespace)
	link.mend(10)
	wantEvents(t, events, "add green", "delete red", "update blue")
	// The list that follows the second refusal finds all as it was, and nobody is told of that.
	link.awaitRefusals(t, 2)
	var list corev1.ConfigMapList
	if err := cache.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
		t.Fatalf("List: %v", err)
	}
	if diff := cmp.Diff([]string{"blue", "green"}, namesOf(t, &list)); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
	link.mend(0)
	mustCreate(t, configMap(namespace, "white"))
	wantEvents(t, events, "add white")
}

// wantEvents waits for exactly these events, in any order.
func wantEvents(t *testing.T, events <-chan string, want ...string) {
	t.Helper()
	var got []string
	deadline := time.After(patience)
	for len(got) < len(want) {
		select {
		case e := <-events:
			got = append(got, e)
		case <-deadline:
			t.Fatalf("got events %v, want %v", got, want)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestDirectorySurvivesLostWatch(t *testing.T) {
	emptied, filled, changed := newNamespace(t), newNamespace(t), newNamespace(t)
	mustCreate(t, configMap(emptied, "red"))
	mustCreate(t, configMap(changed, "red"))
	mustCreate(t, configMap(changed, "blue"))
	link, linked := newLink(config)
	index := startDirectory(t, linked, directory.Options{RootKinds: []schema.GroupVersionKind{configMapKind}})
	wantCounts(t, index, map[string]int{emptied: 1, filled: 0, changed: 2})

	link.cut()
	mustDelete(t, configMap(emptied, "red"))
	mustCreate(t, configMap(filled, "red"))
	changeBehindTheBack(t, changed)
	mustCreate(t, configMap(changed, "white"))
	link.mend(10)
	wantCounts(t, index, map[string]int{emptied: 0, filled: 1, changed: 3})
	link.awaitRefusals(t, 1)
}

// wantCounts waits until the directory has these counts.
func wantCounts(t *testing.T, index *directory.Directory, want map[string]int) {
	t.Helper()
	eventually(t, func() string {
		for namespace, count := range want {
			if got := index.Count(namespace); got != count {
				return fmt.Sprintf("%s holds %d, want %d", namespace, got, count)
			}
		}
		return ""
	})
}
