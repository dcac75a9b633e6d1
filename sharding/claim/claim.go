package claim

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"example.com/redis-operator/sharding/placement"
)

// Claim is one process's claim on one shard's Lease. It lives as long as the process: it times what
// it sees of the Lease also while it does not contend, so that an expired holder is known as such
// when it starts to.
//
// While it contends or holds it costs one goroutine.
type Claim struct {
	o     Options
	shard placement.Shard
}

// New returns a claim that does nothing yet.
func New(o Options, shard placement.Shard) (*Claim, error) {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &Claim{o: o, shard: shard}, nil
}

// Start begins contending for the Lease, and goes on, through loss and new acquisition, until Release,
// Stop, or the end of ctx, which is the same as Stop. Does nothing if the claim already contends.
func (c *Claim) Start(ctx context.Context) {}

// Release stops contending and, where the stored holder is this process, empties the Lease so that
// another can take it at once. Call it only after the work has drained. It returns nil once another
// may hold the Lease, for whatever reason; on an error (ctx over, API away) it may be called again, or
// Start, which takes it up again under the same epoch if its deadline has not passed.
func (c *Claim) Release(ctx context.Context) error { return nil }

// Stop stops contending and renewing and waits for both to end. It writes nothing: the Lease runs
// out. A claim that was held is reported Lost(ReasonAbandoned) at once, and the exit at its deadline
// still applies.
func (c *Claim) Stop() {}

// Shard is the shard claimed.
func (c *Claim) Shard() placement.Shard { return c.shard }

// Epoch is the tenure in which the Lease is held. False if it is not, or not any more.
func (c *Claim) Epoch() (Epoch, bool) { return "", false }

// Deadline is when the claim ends unless it is renewed: LeaseDuration after the last successful write
// was sent. Zero if the Lease is not held.
func (c *Claim) Deadline() time.Time { return time.Time{} }

// DeadlineOf is Deadline for as long as the given epoch lasts, and the zero time afterwards.
func (c *Claim) DeadlineOf(epoch Epoch) time.Time { return time.Time{} }

// Holder is the holder that the Lease named when it was last seen, empty if it was free or missing.
// False if it was not seen yet.
func (c *Claim) Holder() (placement.Identity, bool) { return "", false }

// Observe tells the claim of a state of its Lease, from a watch. What is older than what it knows is
// ignored. The Lease is not kept.
func (c *Claim) Observe(lease *coordinationv1.Lease) {}

// ObserveAbsent tells the claim that its Lease is missing as of a resourceVersion: that of the
// deletion, or of the list that did not hold it.
func (c *Claim) ObserveAbsent(resourceVersion string) {}

// Break tells the claim that its observation was interrupted: what it has seen is timed anew from
// now, so that a holder that was cut off as well can take up its Lease again first.
func (c *Claim) Break() {}
