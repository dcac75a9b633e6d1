package scopedcache_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"example.com/redis-operator/sharding/scopedcache"
)

// recorder is a reconciler that counts, by key, and remembers Delete events.
type recorder struct {
	reader client.Reader

	mu        sync.Mutex
	found     map[types.NamespacedName]int
	missing   map[types.NamespacedName]int
	notOwned  map[types.NamespacedName]int
	deletions []string
	ordinary  map[types.NamespacedName]int // Add events that were not initial
}

// newRecorder returns a recorder that has seen nothing.
func newRecorder() *recorder {
	return &recorder{
		found:    map[types.NamespacedName]int{},
		missing:  map[types.NamespacedName]int{},
		notOwned: map[types.NamespacedName]int{},
		ordinary: map[types.NamespacedName]int{},
	}
}

// Reconcile implements reconcile.Reconciler.
func (r *recorder) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	err := r.reader.Get(ctx, request.NamespacedName, &corev1.ConfigMap{})
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.found[request.NamespacedName]++
	case errors.Is(err, scopedcache.ErrNotOwned):
		r.notOwned[request.NamespacedName]++ // what a guard would have kept away
	case errors.Is(err, scopedcache.ErrNotSynced):
		// One kind of a scope may tell of its objects before another has synced. A guard keeps such
		// requests away, and the replay after the admission brings them back.
		return reconcile.Result{RequeueAfter: time.Millisecond}, nil
	case client.IgnoreNotFound(err) == nil:
		r.missing[request.NamespacedName]++
	default:
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, nil
}

// events returns a handler that records Delete and ordinary Add events and enqueues nothing.
func (r *recorder) events() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if !e.IsInInitialList {
				r.ordinary[client.ObjectKeyFromObject(e.Object)]++
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.deletions = append(r.deletions, fmt.Sprintf("%T %s", e.Object, client.ObjectKeyFromObject(e.Object)))
		},
	}
}

// count reads one of the recorder's maps.
func (r *recorder) count(of map[types.NamespacedName]int, key types.NamespacedName) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return of[key]
}

// deletionsSeen returns the Delete events so far.
func (r *recorder) deletionsSeen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.deletions...)
}

// startController runs a manager with one controller over a scoped cache, until the test ends.
func startController(t *testing.T) (*recorder, *scopedcache.Cache) {
	t.Helper()
	var cache *scopedcache.Cache
	options := scopedcache.Options{}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		NewCache:   options.NewFunc(func(built *scopedcache.Cache) { cache = built }),
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatalf("NewManager: %v", err)
	}
	seen := newRecorder()
	seen.reader = manager.GetClient()
	toNamed := func(_ context.Context, obj client.Object) []reconcile.Request {
		name := obj.GetAnnotations()["used-by"]
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}}}
	}
	err = ctrl.NewControllerManagedBy(manager).
		For(&corev1.ConfigMap{}).
		Owns(&corev1.Secret{}).
		Watches(&corev1.ServiceAccount{}, handler.EnqueueRequestsFromMapFunc(toNamed)).
		Watches(&corev1.ConfigMap{}, seen.events()).
		Watches(&corev1.Secret{}, seen.events()).
		Complete(seen)
	if err != nil {
		t.Fatalf("building the controller: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Start of the manager: %v", err)
		}
	})
	return seen, cache
}

// wantWokenByOwned checks that an object that it owns wakes the given one.
func wantWokenByOwned(t *testing.T, seen *recorder, object types.NamespacedName) {
	t.Helper()
	before := seen.count(seen.found, object)
	var owner corev1.ConfigMap
	if err := direct.Get(t.Context(), object, &owner); err != nil {
		t.Fatal(err)
	}
	mustCreate(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: "owned", OwnerReferences: []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: new(true),
	}}}})
	eventually(t, func() string {
		if seen.count(seen.found, object) <= before {
			return "the owner was not reconciled"
		}
		return ""
	})
}

// wantWokenByMapped checks that an object that names the given one wakes it.
func wantWokenByMapped(t *testing.T, seen *recorder, object types.NamespacedName) {
	t.Helper()
	before := seen.count(seen.found, object)
	mustCreate(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: object.Namespace, Name: "robot", Annotations: map[string]string{"used-by": "main"},
	}})
	eventually(t, func() string {
		if seen.count(seen.found, object) <= before {
			return "what it names was not reconciled"
		}
		return ""
	})
}

func TestControllerFollowsScopes(t *testing.T) {
	seen, cache := startController(t)
	first, second, foreign := newNamespace(t), newNamespace(t), newNamespace(t)
	for _, namespace := range []string{first, second, foreign} {
		mustCreate(t, configMap(namespace, "main"))
	}
	inFirst := types.NamespacedName{Namespace: first, Name: "main"}
	inSecond := types.NamespacedName{Namespace: second, Name: "main"}
	inForeign := types.NamespacedName{Namespace: foreign, Name: "main"}

	mustAddScope(t, cache, first)
	mustAddScope(t, cache, second)
	eventually(t, func() string {
		if seen.count(seen.found, inFirst) == 0 || seen.count(seen.found, inSecond) == 0 {
			return "the objects that were there first have not been reconciled"
		}
		return ""
	})

	t.Run("an owned object wakes its owner", func(t *testing.T) { wantWokenByOwned(t, seen, inFirst) })
	t.Run("a mapped object wakes what it names", func(t *testing.T) { wantWokenByMapped(t, seen, inSecond) })
	t.Run("dropping a scope deletes nothing and silences it", func(t *testing.T) {
		cache.RemoveScope(first)
		reconciled := seen.count(seen.found, inFirst)
		mustCreate(t, configMap(first, "late"))
		mustCreate(t, configMap(second, "late"))
		late := types.NamespacedName{Namespace: second, Name: "late"}
		eventually(t, func() string {
			if seen.count(seen.found, late) == 0 {
				return "the scope that is left is silent"
			}
			return ""
		})
		if got := seen.deletionsSeen(); len(got) != 0 {
			t.Errorf("Delete events %v, want none", got)
		}
		if got := seen.count(seen.missing, inFirst); got != 0 {
			t.Errorf("%d reads of a dropped scope said NotFound", got)
		}
		if got := seen.count(seen.found, inFirst); got != reconciled {
			t.Errorf("reconciled %d times after the drop", got-reconciled)
		}
	})
	t.Run("a scope that returns is initial, a replay is not", func(t *testing.T) {
		before := seen.count(seen.ordinary, inFirst)
		mustAddScope(t, cache, first)
		found := seen.count(seen.found, inFirst)
		cache.Replay([]string{first, foreign})
		eventually(t, func() string {
			if seen.count(seen.ordinary, inFirst) != before+1 {
				return "the replay brought no ordinary Add"
			}
			if seen.count(seen.found, inFirst) <= found {
				return "the replay reconciled nothing"
			}
			return ""
		})
	})
	t.Run("a real deletion is one", func(t *testing.T) {
		mustDelete(t, configMap(second, "main"))
		eventually(t, func() string {
			if len(seen.deletionsSeen()) != 1 || seen.count(seen.missing, inSecond) == 0 {
				return fmt.Sprintf("deletions are %v", seen.deletionsSeen())
			}
			return ""
		})
	})
	if got := seen.count(seen.found, inForeign) + seen.count(seen.notOwned, inForeign); got != 0 {
		t.Errorf("a namespace without a scope was reconciled %d times", got)
	}
}
