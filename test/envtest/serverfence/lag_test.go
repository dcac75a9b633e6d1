package serverfence_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/placement"
	"example.com/redis-operator/sharding/serverfence"
)

// settle is how long a new owner waits before its first write after an unclean takeover: what of the old
// owner's writes the server still lets in has to be over by then.
const settle = 250 * time.Millisecond

// What a process makes of it while the server still goes by an old state of the Lease, and it holds the
// shard: the refusal is known as the fence's, the Lease says that the shard is not lost, and both the proof
// and the write come right by themselves. The test keeps the state that the server goes by in a copy.
func TestRefusedWhileTheParameterLags(t *testing.T) {
	s := newStage(t)
	object := s.object(t, 1)
	known := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: newNamespace(t, "lag-"), Name: claim.LeaseName(s.name, 1),
	}}
	known.Spec.HolderIdentity = ptr.To(string(s.other.identity()))
	create(t, known)
	var binding admissionv1.ValidatingAdmissionPolicyBinding
	get(t, &binding, "", s.byShard(1))
	binding.Spec.ParamRef.Namespace = known.Namespace
	if err := suite.admin.Update(t.Context(), &binding); err != nil {
		t.Fatal(err)
	}
	var err error
	eventually(t, "the true owner is refused", 10*time.Second, func() bool {
		err = patch(t, s.owner, object)
		return err != nil
	}, func() any { return nil })
	expect(t, "the true owner", err, s.byShard(1))
	if !serverfence.IsRefusal(err, s.name) {
		t.Errorf("not known as the fence's: %v", err)
	}
	var lease coordinationv1.Lease
	get(t, &lease, s.name, claim.LeaseName(s.name, 1))
	if claim.HolderOf(&lease) != s.owner.identity() {
		t.Errorf("the Lease names %s, want the true owner", claim.HolderOf(&lease))
	}
	proved := make(chan error)
	go func() {
		proved <- serverfence.Prove(t.Context(), s.proofOptions(s.owner), []placement.Shard{1})
	}()
	select {
	case err := <-proved:
		t.Fatalf("Prove = %v while the parameter lags", err)
	case <-time.After(settle):
	}
	known.Spec.HolderIdentity = ptr.To(string(s.owner.identity()))
	if err := suite.admin.Update(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	if err := <-proved; err != nil {
		t.Errorf("Prove = %v once the server knows", err)
	}
	expect(t, "the true owner, once the server knows", patch(t, s.owner, object), "")
}

// The server learns of a new holder a little late. The true owner may be refused meanwhile, which the Lease
// tells from a loss; the old owner may be accepted, but not for as long as the new one settles.
func TestParameterLags(t *testing.T) {
	s := newStage(t)
	disturb(t, s)
	object := s.object(t, 1)
	owners := []*actor{s.owner, s.other}
	var lags, stale []time.Duration
	const changes = 20
	refusals := 0
	for flip := range changes {
		before, after := owners[flip%2], owners[(flip+1)%2]
		s.hold(t, 1, after.identity())
		began := time.Now()
		var old sync.WaitGroup
		old.Go(func() {
			for time.Since(began) < 2*settle {
				sent := time.Since(began)
				if patch(t, before, object) == nil {
					stale = append(stale, sent)
				}
			}
		})
		for {
			err := patch(t, after, object)
			if err == nil {
				break
			}
			refusals++
			if !serverfence.IsRefusal(err, s.name) {
				t.Fatalf("not a refusal of the fence: %v", err)
			}
			var lease coordinationv1.Lease
			get(t, &lease, s.name, claim.LeaseName(s.name, 1))
			if claim.HolderOf(&lease) != after.identity() {
				t.Fatalf("the Lease names %s", claim.HolderOf(&lease))
			}
			if time.Since(began) > settle {
				t.Fatalf("the true owner is refused for longer than %s: %v", settle, err)
			}
		}
		lags = append(lags, time.Since(began))
		old.Wait()
	}
	slices.Sort(lags)
	slices.Sort(stale)
	t.Logf("%d changes of the holder: %d writes of the true owner refused, its first accepted after p50 %s, max %s; "+
		"stale writes accepted, by when they were sent: %v", changes, refusals, lags[changes/2], lags[changes-1], stale)
	if len(stale) > 0 && stale[len(stale)-1] > settle {
		t.Errorf("a stale write that was sent %s after the change was accepted", stale[len(stale)-1])
	}
}

// disturb keeps the server busy with changes of other Leases, until the test ends.
func disturb(t *testing.T, s *stage) {
	t.Helper()
	c, err := kubernetes.NewForConfig(suite.config)
	if err != nil {
		t.Fatal(err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: "busy"}}
	create(t, lease)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := int32(1); ctx.Err() == nil; i++ {
			lease.Spec.LeaseDurationSeconds = ptr.To(i)
			if updated, err := c.CoordinationV1().Leases(s.name).Update(ctx, lease, metav1.UpdateOptions{}); err == nil {
				lease = updated
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}
