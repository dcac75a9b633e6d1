package claim_test

import (
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"example.com/redis-operator/sharding/claim"
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
