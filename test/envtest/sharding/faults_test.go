package sharding

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"example.com/redis-operator/sharding"
)

// share starts two replicas over some namespaces and waits until all is served.
func (i *installation) share() []string {
	i.t.Helper()
	namespaces := i.fill(6)
	i.scale(2)
	i.start(0)
	i.start(1)
	i.eventually("two replicas share", func() string { return i.isBalanced(2) })
	i.eventually("every root object is reconciled", func() string { return i.isReconciled(namespaces) })
	return namespaces
}

// epochs are those of all claims.
func (i *installation) epochs() map[sharding.Shard]sharding.Epoch {
	epochs := map[sharding.Shard]sharding.Epoch{}
	for _, r := range i.replicas {
		if r.dead.Load() {
			continue
		}
		for _, shard := range r.sharding.Snapshot().Shards {
			if shard.Epoch != "" {
				epochs[shard.Shard] = shard.Epoch
			}
		}
	}
	return epochs
}

// After all its watches are lost and too old to go on (410), a replica sees everything that has
// happened.
func TestLostWatches(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, 4)
	i.share()
	for _, r := range i.replicas {
		if lost := r.link.loseWatches(); lost == 0 {
			t.Fatal("there were no watches to lose")
		}
	}
	namespace := i.name + "-late"
	i.createNamespace(namespace)
	i.createRoot(namespace, "root")
	i.scale(3)
	i.start(2)
	i.eventually("three replicas share", func() string { return i.isBalanced(3) })
	i.eventually("what has appeared is reconciled", func() string { return i.isReconciled([]string{namespace}) })
}

// A P that is deleted by hand is created again as it was, and no shard changes hands.
func TestPlacementDeleted(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, 4)
	namespaces := i.share()
	before, epochs := i.replicas[0].sharding.Snapshot().Placement, i.epochs()
	if err := i.api.CoreV1().ConfigMaps(i.namespace).Delete(t.Context(), i.name+"-placement", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	i.eventually("P is there again", func() string {
		_, err := i.api.CoreV1().ConfigMaps(i.namespace).Get(t.Context(), i.name+"-placement", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		for _, r := range i.replicas {
			if r.sharding.Snapshot().Placement.Version == before.Version {
				return r.member + " has not seen it"
			}
		}
		return ""
	})
	if after := i.replicas[0].sharding.Snapshot().Placement; !after.Equal(before) {
		t.Errorf("P was %+v and is %+v", before, after)
	}
	i.eventually("all is served", i.isServed)
	for _, namespace := range namespaces {
		i.createRoot(namespace, "later")
	}
	i.eventually("what has appeared since is reconciled", func() string { return i.isObjectReconciled(namespaces, "later") })
	for shard, epoch := range i.epochs() {
		if epochs[shard] != epoch {
			t.Errorf("shard %d was claimed anew", shard)
		}
	}
}

// A Lease that is deleted by hand is created again by its holder, whose claim goes on.
func TestLeaseDeleted(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, 4)
	i.share()
	epochs := i.epochs()
	leases := i.api.CoordinationV1().Leases(i.namespace)
	for _, name := range []string{i.name + "-shard-0", i.name + "-shard-1", i.name + "-shard-2", i.name + "-shard-3"} {
		if err := leases.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		i.eventually("the Lease is there again", func() string {
			lease, err := leases.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
			if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
				return "it is not held"
			}
			return ""
		})
	}
	i.eventually("all is served", i.isServed)
	for shard, epoch := range i.epochs() {
		if epochs[shard] != epoch {
			t.Errorf("shard %d was claimed anew: epoch %s, before %s", shard, epoch, epochs[shard])
		}
	}
}

// press keeps asking every replica to reconcile every root object, as events and timers do that come
// in while a replica knows nothing of the API. The function that it returns ends that, and tells how
// many requests there were.
func (i *installation) press(namespaces []string) (end func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	asked := make(chan int)
	go func() {
		count := 0
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for ctx.Err() == nil {
			for _, r := range i.replicas {
				for _, namespace := range namespaces {
					// What was let through may fail: the API is away.
					_, _ = r.guarded.Reconcile(ctx, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: "root"}})
					count++
				}
			}
			select {
			case <-ctx.Done():
			case <-ticker.C:
			}
		}
		asked <- count
	}()
	return func() int {
		cancel()
		return <-asked
	}
}

// While the API is away every replica stops at its deadlines and stays; afterwards each goes on with
// what it had, and nobody is taken for dead.
func TestAPIAway(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, 4)
	namespaces := i.share()
	identities := []sharding.Identity{i.replicas[0].sharding.Identity(), i.replicas[1].sharding.Identity()}
	holders := i.holders()
	for _, r := range i.replicas {
		r.link.setCut(true)
	}
	for _, r := range i.replicas {
		i.eventually(r.member+" stops acting", func() string {
			if n := len(r.sharding.Snapshot().Admitted()); n > 0 {
				return "it admits"
			}
			return ""
		})
	}
	away := time.NewTimer(3 * i.options.LeaseDuration)
	defer away.Stop()
	calls := i.recorder.total()
	end := i.press(namespaces)
	<-away.C
	if asked := end(); asked < 100 {
		t.Errorf("there were only %d requests meanwhile", asked)
	}
	if now := i.recorder.total(); now != calls {
		t.Errorf("I6: %d calls were made without a claim", now-calls)
	}
	before := i.recorder.byObject()
	for _, r := range i.replicas {
		r.link.setCut(false)
	}
	i.eventually("all is served again", i.isServed)
	i.eventually("every root object is reconciled again", func() string {
		now := i.recorder.byObject()
		for _, namespace := range namespaces {
			if key := namespace + "/root"; now[key] == before[key] {
				return "I5: nobody has reconciled " + key + " since"
			}
		}
		return ""
	})
	for n, r := range i.replicas {
		if r.sharding.Identity() != identities[n] {
			t.Errorf("%s was taken for dead: it is %s, it was %s", r.member, r.sharding.Identity(), identities[n])
		}
		if reason := r.exited.Load(); reason != nil {
			t.Errorf("%s would have exited: %s", r.member, *reason)
		}
	}
	for shard, holder := range i.holders() {
		if holder != holders[shard] {
			t.Errorf("shard %s went from %s to %s", shard, holders[shard], holder)
		}
	}
}

// holders are those that the shard Leases name, by Lease.
func (i *installation) holders() map[string]string {
	i.t.Helper()
	leases, err := i.api.CoordinationV1().Leases(i.namespace).List(i.t.Context(), metav1.ListOptions{
		LabelSelector: "sharding.example.com/shard-lease",
	})
	if err != nil {
		i.t.Fatal(err)
	}
	holders := map[string]string{}
	for _, lease := range leases.Items {
		if lease.Spec.HolderIdentity != nil {
			holders[lease.Name] = *lease.Spec.HolderIdentity
		}
	}
	return holders
}

// A replica that alone is cut off is taken for dead, and joins anew when it is back.
func TestCutOffReplica(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, 4)
	namespaces := i.share()
	cut, other := i.replicas[0], i.replicas[1]
	before := cut.sharding.Identity()
	cut.link.setCut(true)
	i.eventually("the other replica serves everything", func() string {
		if n := len(other.sharding.Snapshot().Admitted()); n < 4 {
			return "it does not"
		}
		return ""
	})
	if n := len(cut.sharding.Snapshot().Admitted()); n > 0 {
		t.Errorf("I1: the replica that is cut off admits %d shards", n)
	}
	cut.link.setCut(false)
	i.eventually("it has joined under a new identity", func() string {
		if cut.sharding.Identity() == before {
			return "it has the old one"
		}
		return ""
	})
	i.eventually("two replicas share", func() string { return i.isBalanced(2) })
	i.eventually("every root object is reconciled", func() string { return i.isReconciled(namespaces) })
}
