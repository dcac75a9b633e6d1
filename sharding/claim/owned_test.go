package claim_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/placement"
)

// A Lease that was lost and is taken up again was owned by its own process until the loss, and by no
// predecessor.
func TestOwnLeaseIsTakenUpAgain(t *testing.T) {
	cases := map[string]struct {
		meanwhile func(t *testing.T, p *process) (ownedUntil time.Time)
		wantAgain bool
	}{
		"still its own": {func(_ *testing.T, p *process) time.Time { return p.last(claim.Lost).At }, true},
		"another had it": {func(t *testing.T, p *process) time.Time {
			heldBy(t, p.api, bob, 10)
			p.Observe(getLease(t, p.api))
			seen := time.Now()
			pass(3 * time.Second)
			p.set(func(p *process) { p.dead = bob })
			p.Reconsider()
			return seen
		}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := installed(t)
				edit(t, api, func(l *coordinationv1.Lease) { l.Annotations[claim.VacatedAnnotation] = string(claim.EmptyConfirmed) })
				p := newProcess(t, api, alice).start()
				if p.last(claim.Acquired).Again || !p.OwnedUntil().IsZero() {
					t.Errorf("the first acquisition is one after %s, again: %v", p.OwnedUntil(), p.last(claim.Acquired).Again)
				}
				pass(time.Hour)
				p.api.SetFault(failing())
				pass(15 * time.Second)
				p.wantTold("Acquired Stalled Expiring Lost(Deadline)")
				p.api.SetFault(nil)
				want := tc.meanwhile(t, p)
				pass(5 * time.Second)
				p.wantTold("Acquired Stalled Expiring Lost(Deadline) Acquired")
				if got := p.last(claim.Acquired).Again; got != tc.wantAgain {
					t.Errorf("acquired again: %v, want %v", got, tc.wantAgain)
				}
				if got := p.OwnedUntil(); !got.Equal(want) {
					t.Errorf("owned until %s after it should", got.Sub(want))
				}
			})
		})
	}
}

// Whoever watches is told of another holder, and of each once.
func TestTellsOfAnotherHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		var told []placement.Identity
		observer := newProcess(t, api, carol, func(o *claim.Options) {
			o.OnHolder = func(_ placement.Shard, holder placement.Identity) { told = append(told, holder) }
		})
		show := func(holder placement.Identity) {
			edit(t, api, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To(string(holder)) })
			observer.Observe(getLease(t, api))
		}
		observer.Observe(getLease(t, api))
		for _, holder := range []placement.Identity{alice, alice, "", bob} {
			show(holder)
		}
		if diff := cmp.Diff([]placement.Identity{"", alice, "", bob}, told); diff != "" {
			t.Errorf("holders (-want +told):\n%s", diff)
		}
	})
}
