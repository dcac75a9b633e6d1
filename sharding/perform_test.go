package sharding

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"example.com/redis-operator/sharding/membership"
	"example.com/redis-operator/sharding/placement"
	"example.com/redis-operator/sharding/scopedcache"
	"example.com/redis-operator/sharding/shardingtest"
)

// newCoordinator is one whose actions on the guard can be performed; it reaches no API.
func newCoordinator(t *testing.T) *coordinator {
	t.Helper()
	s, err := New(&rest.Config{}, validOptions())
	if err != nil {
		t.Fatal(err)
	}
	noNames := func(Shard) map[string]int { return nil }
	return &coordinator{
		scopes: newScopes(logr.Discard(), nil, noNames, s.ShardOf), holders: map[Shard]Identity{},
		s: s, options: s.options, log: logr.Discard(), queue: newEventQueue(), failed: make(chan error, 1), work: t.Context(),
		history: &history{metrics: s.metrics, shards: map[Shard]*shardHistory{}},
	}
}

// A drain takes effect before the next action is begun, whenever its goroutine runs.
func TestDrainClosesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCoordinator(t)
		deadline := time.Now().Add(time.Minute)
		admit := func() { c.s.guard.Admit(3, "5", func() time.Time { return deadline }) }
		admit()
		namespace := namespaceOf(c.s, 3)
		ctx, done, err := c.s.guard.Enter(t.Context(), namespace)
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		c.perform(StopAdmitting{Shard: 3, Epoch: "5", Cause: CauseHandover})
		c.perform(Drain{Shard: 3, Seq: 1})
		if err := c.s.guard.Check(ctx); !errors.Is(err, ErrDraining) {
			t.Errorf("Check answers %v right after the drain was begun, want ErrDraining", err)
		}
		admit()
		synctest.Wait()
		if !c.s.guard.Admits(3) {
			t.Error("a drain that ran late closed a shard that is admitted again")
		}
		c.running.Wait()
	})
}

// namespaceOf finds a namespace of a shard.
func namespaceOf(s *Sharding, shard Shard) string {
	for name := "x"; ; name += "x" {
		if s.ShardOf(name) == shard {
			return name
		}
	}
}

// The presence Lease of a dead process is deleted, also where the API does not answer at first.
func TestPresenceIsCollectedInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const dead = Identity("redis-operator-1_uid_n")
		api := shardingtest.NewLeases()
		leases := api.Leases("operators")
		if _, err := leases.Create(t.Context(), &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: membership.LeaseName(dead), Namespace: "operators"},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		tries := 0
		api.SetFault(func(_ context.Context, call shardingtest.Call) shardingtest.Fault {
			if call.Verb != "delete" {
				return shardingtest.Fault{}
			}
			if tries++; tries < 3 {
				return shardingtest.Fault{Err: errors.New("connection refused")}
			}
			return shardingtest.Fault{}
		})
		c := newCoordinator(t)
		c.members = membership.New(membership.Options{Client: api, Namespace: "operators"})
		c.perform(CollectPresence{Identity: dead})
		c.running.Wait()
		if _, err := leases.Get(t.Context(), membership.LeaseName(dead), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("reading the presence Lease of a dead process: %v, want that there is none", err)
		}
	})
}

// A pass that comes before its namespace is read is no error: it comes again.
func TestReconcilerWaitsForTheNamespace(t *testing.T) {
	cases := map[string]struct {
		err     error
		wantErr bool
	}{
		"not read yet":   {err: fmt.Errorf("reading: %w", &scopedcache.NotSyncedError{Namespace: "x", Kinds: []string{"Secret"}})},
		"something else": {err: errors.New("broken"), wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newCoordinator(t)
			c.s.guard.Admit(3, "5", func() time.Time { return time.Now().Add(time.Minute) })
			reconciler := c.s.Reconciler(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				return reconcile.Result{}, tc.err
			}))
			request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespaceOf(c.s, 3), Name: "x"}}
			result, err := reconciler.Reconcile(t.Context(), request)
			if (err != nil) != tc.wantErr || (result.RequeueAfter > 0) == tc.wantErr {
				t.Errorf("answers %+v, %v", result, err)
			}
		})
	}
}

// What the installation records counts everywhere, not for the claims alone.
func TestTimingsAreTakenOverEverywhere(t *testing.T) {
	recorded := placement.Timings{LeaseDuration: 4 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: time.Second}
	c := newCoordinator(t)
	if err := c.connect(); err != nil {
		t.Fatal(err)
	}
	before := c.clients
	if err := c.takeOver(c.options.timings()); err != nil || c.clients != before {
		t.Errorf("taking over the own timings: %v, other clients: %v", err, c.clients != before)
	}
	if err := c.takeOver(recorded); err != nil || c.clients == before || c.options.timings() != recorded {
		t.Errorf("taking over: %v, other clients: %v, options have %v", err, c.clients != before, c.options.timings())
	}
	// Calls are cancelled 667 ms before the deadline now, not 2 s.
	c.s.guard.Admit(3, "5", func() time.Time { return time.Now().Add(1500 * time.Millisecond) })
	if !c.s.guard.Admits(3) {
		t.Error("the guard goes by the old timings")
	}
	c.compareTimings(placement.Placement{Timings: recorded})
	if len(c.failed) != 0 {
		t.Errorf("ended with %v although the timings are the same", <-c.failed)
	}
}

// A process that started before P was there compares with the first that it sees.
func TestTimingsOfTheFirstPlacementAreCompared(t *testing.T) {
	c := newCoordinator(t)
	short := placement.Timings{LeaseDuration: 4 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: time.Second}
	c.compareTimings(placement.Placement{Timings: short})
	select {
	case err := <-c.failed:
		if !errors.Is(err, ErrOtherTimings) {
			t.Errorf("ended with %v", err)
		}
	default:
		t.Error("went on with other timings")
	}
	// Those that cannot be used here are not worth a restart.
	c = newCoordinator(t)
	c.compareTimings(placement.Placement{Timings: placement.Timings{LeaseDuration: 4 * time.Second, RenewDeadline: 4 * time.Second, RetryPeriod: time.Second}})
	if len(c.failed) != 0 {
		t.Errorf("ended with %v", <-c.failed)
	}
}
