package scopedcache_test

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/redis-operator/sharding/scopedcache"
)

// TestScopesLeaveNothingBehind adds and removes scopes 200 times: no goroutine, no handler call
// too many and no memory may remain, whether a scope had synced or not.
func TestScopesLeaveNothingBehind(t *testing.T) {
	namespace := newNamespace(t)
	mustCreate(t, configMap(namespace, "red"))
	cache := startCache(t, config, scopedcache.Options{
		Kinds: []client.Object{&corev1.ConfigMap{}, &corev1.Secret{}, &corev1.Pod{}},
	})
	var calls, deletions atomic.Int64
	for _, obj := range []client.Object{&corev1.ConfigMap{}, &corev1.Secret{}} {
		informer, err := cache.GetInformer(t.Context(), obj)
		if err != nil {
			t.Fatalf("GetInformer: %v", err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { calls.Add(1) },
			DeleteFunc: func(any) { deletions.Add(1) },
		}); err != nil {
			t.Fatalf("AddEventHandler: %v", err)
		}
	}
	cycle := func(times int) {
		for range times {
			before := calls.Load()
			mustAddScope(t, cache, namespace)
			eventually(t, func() string {
				if calls.Load() == before {
					return "no event of the new scope"
				}
				return ""
			})
			cache.RemoveScope(namespace)
			added := make(chan error, 1)
			go func() { added <- cache.AddScope(t.Context(), namespace) }()
			cache.RemoveScope(namespace) // whatever the other is at
			<-added
			cache.RemoveScope(namespace)
		}
	}
	cycle(20)
	goroutines, heap := settled(t, 0)
	cycle(200)
	goroutinesAfter, heapAfter := settled(t, goroutines)
	t.Logf("goroutines %d -> %d, heap %d -> %d KiB", goroutines, goroutinesAfter, heap>>10, heapAfter>>10)
	if goroutinesAfter > goroutines+5 {
		t.Errorf("goroutines grew from %d to %d", goroutines, goroutinesAfter)
	}
	if heapAfter > heap+1<<20 {
		t.Errorf("heap grew from %d to %d KiB", heap>>10, heapAfter>>10)
	}
	if calls.Load() < 220 || calls.Load() > 2*220 {
		t.Errorf("%d Add events for 220 to 440 scopes with one object", calls.Load())
	}
	if deletions.Load() != 0 {
		t.Errorf("%d Delete events, want none", deletions.Load())
	}
}

// settled returns the goroutines, once they are no more than a few above want (0: once they no
// longer change), and the bytes of live heap.
func settled(t *testing.T, want int) (goroutines int, heap uint64) {
	t.Helper()
	last, stable := -1, 0
	eventually(t, func() string {
		goroutines = runtime.NumGoroutine()
		if goroutines == last {
			stable++
		} else {
			last, stable = goroutines, 0
		}
		if (want > 0 && goroutines <= want+5) || (want == 0 && stable > 10) || stable > 100 {
			return ""
		}
		return fmt.Sprintf("%d goroutines", goroutines)
	})
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return goroutines, stats.HeapAlloc
}
