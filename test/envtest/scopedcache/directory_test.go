package scopedcache_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/redis-operator/sharding/directory"
)

var configMapKind = corev1.SchemeGroupVersion.WithKind("ConfigMap")

// startDirectory starts a directory that ends with the test, and waits until it has synced.
func startDirectory(t *testing.T, config *rest.Config, options directory.Options) *directory.Directory {
	t.Helper()
	index, err := directory.New(config, options)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- index.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Start: %v", err)
			}
		case <-time.After(patience):
			t.Error("Start has not returned")
		}
	})
	waiting, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	if !index.WaitForSync(waiting) {
		t.Fatal("WaitForSync: false")
	}
	return index
}

// journal remembers what a directory told last of each namespace.
type journal struct {
	mu    sync.Mutex
	last  map[string]int
	calls map[string]int
}

// tell is a listener.
func (j *journal) tell(namespace string, count int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.last[namespace] = count
	j.calls[namespace]++
}

// of returns what was told last of a namespace, and how often anything was.
func (j *journal) of(namespace string) (last, calls int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last[namespace], j.calls[namespace]
}

func TestDirectoryFollowsANamespace(t *testing.T) {
	namespace, empty := newNamespace(t), newNamespace(t)
	index := startDirectory(t, config, directory.Options{
		RootKinds: []schema.GroupVersionKind{configMapKind, corev1.SchemeGroupVersion.WithKind("Secret")},
		ShardOf:   func(of string) int { return len(of) % 2 },
	})
	told := &journal{last: map[string]int{}, calls: map[string]int{}}
	index.OnChange(told.tell)
	wantTold := func(count int, isTerminating bool) {
		t.Helper()
		eventually(t, func() string {
			last, calls := told.of(namespace)
			if calls == 0 || last != count || index.Count(namespace) != count || index.Terminating(namespace) != isTerminating {
				return fmt.Sprintf("told %d (%d calls), holds %d, terminating %t; want %d, %t",
					last, calls, index.Count(namespace), index.Terminating(namespace), count, isTerminating)
			}
			return ""
		})
	}

	mustCreate(t, configMap(namespace, "red"))
	wantTold(1, false)
	mustCreate(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "red"}})
	wantTold(2, false)
	ofShard := index.Namespaces(len(namespace) % 2)
	if ofShard[namespace] != 2 {
		t.Errorf("Namespaces of its shard holds %d, want 2", ofShard[namespace])
	}
	if count, isThere := index.Namespaces(1 - len(namespace)%2)[namespace]; isThere {
		t.Errorf("Namespaces of the other shard holds %d, want none", count)
	}
	mustDelete(t, configMap(namespace, "red"))
	wantTold(1, false)
	mustDelete(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "red"}})
	wantTold(0, false)

	// Stuck: nobody finalizes the namespace, and its object has a finalizer of its own.
	held := configMap(namespace, "held")
	held.Finalizers = []string{"example.com/held"}
	mustCreate(t, held)
	wantTold(1, false)
	mustDelete(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	wantTold(1, true)
	mustDelete(t, held)
	wantTold(1, true)
	held.Finalizers = nil
	if err := direct.Patch(t.Context(), held, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Fatalf("letting go of the object: %v", err)
	}
	wantTold(0, true)
	finalize(t, namespace)
	wantTold(0, false)

	if last, calls := told.of(empty); calls != 0 || last != 0 {
		t.Errorf("told %d of an empty namespace in %d calls, want none", last, calls)
	}
	if _, isThere := index.All()[empty]; isThere {
		t.Error("All holds an empty namespace")
	}
}

// finalize does the last step of a namespace's deletion, which is the controller manager's.
func finalize(t *testing.T, name string) {
	t.Helper()
	var namespace corev1.Namespace
	if err := direct.Get(t.Context(), client.ObjectKey{Name: name}, &namespace); err != nil {
		t.Fatal(err)
	}
	namespace.Spec.Finalizers = nil
	if err := direct.SubResource("finalize").Update(t.Context(), &namespace); err != nil {
		t.Fatalf("finalizing %s: %v", name, err)
	}
}

func TestDirectoryOfSomeNamespaces(t *testing.T) {
	mine, foreign := newNamespace(t), newNamespace(t)
	mustCreate(t, configMap(mine, "red"))
	mustCreate(t, configMap(foreign, "red"))
	index := startDirectory(t, config, directory.Options{
		RootKinds:  []schema.GroupVersionKind{configMapKind},
		Namespaces: []string{mine},
	})
	mustCreate(t, configMap(foreign, "blue"))
	mustCreate(t, configMap(mine, "blue"))
	wantCounts(t, index, map[string]int{mine: 2})
	if diff := cmp.Diff(map[string]int{mine: 2}, index.All()); diff != "" {
		t.Errorf("All (-want +got):\n%s", diff)
	}
}
