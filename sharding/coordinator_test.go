package sharding

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/shardingtest"
)

// beginWithClaims gives the coordinator a machine, and claims on Leases in memory.
func (c *coordinator) beginWithClaims(t *testing.T) {
	t.Helper()
	c.machine = NewMachine(MachineConfig{
		Member: Member(c.options.Member), Settings: c.options.settings(), Timings: c.options.timings(),
		HandoverBound: c.options.HandoverBound, DrainBound: c.options.DrainBound,
	}, time.Now())
	c.timer = time.NewTimer(0)
	options := c.claimOptions(selfID)
	options.Client = shardingtest.NewLeases()
	var err error
	if c.claims, err = claim.NewSet(options); err != nil {
		t.Fatal(err)
	}
}

// However many events there are, the coordinator looks at its claims.
func TestEventsDoNotKeepFromLooking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCoordinator(t)
		c.beginWithClaims(t)
		c.claims.Claim(3).Observe(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(string(otherID))},
		})
		end := errors.New("the end")
		c.running.Go(func() {
			for n := range 100 {
				c.queue.put(PresenceSeen{Identity: otherID, Version: fmt.Sprint(10 + n)})
				<-time.After(50 * time.Millisecond)
			}
			c.fail(end)
		})
		if err := c.loop(t.Context()); !errors.Is(err, end) {
			t.Fatalf("the loop ended with %v", err)
		}
		if got := c.machine.shards[3].holder; got != otherID {
			t.Errorf("the machine knows of holder %q, want %q", got, otherID)
		}
		c.running.Wait()
	})
}
