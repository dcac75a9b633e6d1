package shardingtest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"example.com/redis-operator/sharding/guard"
	"example.com/redis-operator/sharding/shardingtest"
)

func TestLeasesContract(t *testing.T) {
	shardingtest.LeasesContract(t, func(*testing.T) (coordinationv1client.LeasesGetter, string) {
		return shardingtest.NewLeases(), "default"
	})
}

func TestFaults(t *testing.T) {
	errLost := errors.New("lost")
	api := shardingtest.NewLeases()
	leases := api.Leases("default")
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	api.SetFault(func(_ context.Context, c shardingtest.Call) shardingtest.Fault {
		if c.Verb == "create" {
			return shardingtest.Fault{Lost: errLost}
		}
		return shardingtest.Fault{}
	})
	if _, err := leases.Create(t.Context(), lease, metav1.CreateOptions{}); !errors.Is(err, errLost) {
		t.Fatalf("create = %v, want the answer lost", err)
	}
	if _, err := leases.Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Errorf("get = %v: the lost create was not carried out", err)
	}
	api.SetFault(func(context.Context, shardingtest.Call) shardingtest.Fault { return shardingtest.Fault{Err: errLost} })
	if err := leases.Delete(t.Context(), "a", metav1.DeleteOptions{}); !errors.Is(err, errLost) {
		t.Errorf("delete = %v", err)
	}
	api.SetFault(nil)
	if _, err := leases.Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Errorf("get = %v: the refused delete was carried out", err)
	}
	if got := api.Calls("get"); got != 2 {
		t.Errorf("%d gets, want 2", got)
	}
}

func TestCompactAndCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := shardingtest.NewLeases()
		leases := api.Leases("default")
		follow := metav1.ListOptions{ResourceVersion: "1"}
		cut, err := leases.Watch(t.Context(), follow)
		if err != nil {
			t.Fatal(err)
		}
		api.CutWatches()
		if _, ok := <-cut.ResultChan(); ok {
			t.Error("a cut watch shows something")
		}
		expired, err := leases.Watch(t.Context(), follow)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		api.Compact()
		if e := <-expired.ResultChan(); e.Type != watch.Added {
			t.Errorf("event = %v", e)
		}
		e := <-expired.ResultChan()
		status, ok := e.Object.(*metav1.Status)
		if !ok || e.Type != watch.Error || status.Code != 410 {
			t.Errorf("event = %v, want an error 410", e)
		}
		if _, ok := <-expired.ResultChan(); ok {
			t.Error("an expired watch goes on")
		}
		if _, err := leases.Watch(t.Context(), follow); !apierrors.IsResourceExpired(err) {
			t.Errorf("watching from the past = %v, want 410", err)
		}
	})
}

func TestStatic(t *testing.T) {
	all := shardingtest.NewStatic()
	for _, namespace := range []string{"a", "b"} {
		ctx, done, err := all.Enter(t.Context(), namespace)
		if err != nil || all.Check(ctx) != nil {
			t.Errorf("%s is not owned: %v", namespace, err)
		}
		done()
	}
	some := shardingtest.NewStatic("a")
	if _, _, err := some.Enter(t.Context(), "b"); !errors.Is(err, guard.ErrNotAdmitted) {
		t.Errorf("entering b = %v, want ErrNotAdmitted", err)
	}
	ctx, done, err := some.Enter(t.Context(), "a")
	if err != nil {
		t.Fatalf("entering a: %v", err)
	}
	defer done()
	var dropped []string
	some.Dropped(func(namespace string) { dropped = append(dropped, namespace) })
	some.Lose("a")
	if err := some.Check(ctx); !errors.Is(err, guard.ErrNotAdmitted) || len(dropped) != 1 {
		t.Errorf("after losing a: %v, dropped %v", err, dropped)
	}
	some.Own("a")
	if err := some.Check(ctx); !errors.Is(err, guard.ErrStaleEpoch) {
		t.Errorf("after owning a again: %v, want ErrStaleEpoch", err)
	}
}
