package sharding

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/placement"
)

// perform carries out one action. What takes effect at once is done here; the rest is begun.
func (c *coordinator) perform(action Action) {
	switch a := action.(type) {
	case Admit:
		c.admit(a)
	case Replay:
		c.running.Go(func() { c.scopes.Admitted(a.Shard) })
	case StopAdmitting:
		c.stopAdmitting(a)
	case CancelCalls:
		c.s.guard.Cancel(a.Shard)
	case Revoke:
		c.s.guard.Revoke(a.Shard)
	case Drain:
		// Closed at once: a goroutine may run so late that the shard is admitted again by then.
		drained := c.s.guard.StartDrain(a.Shard)
		c.running.Go(func() { c.drain(a, drained) })
	case Warm:
		c.warm(a)
	case Drop:
		c.scopes.Drop(a.Shard)
	case Contend:
		c.claims.Claim(a.Shard).Start(c.work)
	case Release:
		claimed := c.claims.Claim(a.Shard)
		c.running.Go(func() { c.release(a.Shard, claimed) })
	default:
		c.performMembership(action)
	}
}

// performMembership carries out what concerns the process as a whole.
func (c *coordinator) performMembership(action Action) {
	switch a := action.(type) {
	case WritePlacement:
		c.running.Go(func() { c.writePlacement(a.Placement) })
	case ReadPlacement:
		c.running.Go(func() { c.readPlacement() })
	case Publish:
		c.members.Publish(a.Placement, a.Warmed, a.Costs, a.Urgent)
	case VerifyExpiry:
		c.running.Go(func() { c.verifyExpiry(a) })
	case CollectPresence:
		c.running.Go(func() { c.collectPresence(a.Identity) })
	case Relist:
		c.log.Info("Listing the presence Leases again: own renewals do not come back on the watch")
		c.members.Relist()
	case Rejoin:
		c.rejoin(a)
	case Wake:
		c.timer.Reset(time.Until(a.At))
	case Refuse:
		c.fail(a.Err)
	case Finish:
		c.finished = true
	}
}

// admit opens a shard. The time logged is one before the first work that can be admitted.
func (c *coordinator) admit(a Admit) {
	claimed := c.claims.Claim(a.Shard)
	log := c.log.WithValues("shard", a.Shard, "epoch", a.Epoch, "identity", c.identity)
	c.s.firstWork.await(a.Shard, a.Epoch, log)
	at := monotonicNanos()
	c.s.guard.Admit(a.Shard, a.Epoch, func() time.Time { return claimed.DeadlineOf(a.Epoch) })
	log.Info("Admitted shard", "cause", a.Cause, "monotonicNanos", at)
	c.history.admitted(a, time.Now())
}

// stopAdmitting closes a shard. The time logged is one after the last work that can have been
// admitted.
func (c *coordinator) stopAdmitting(a StopAdmitting) {
	c.s.guard.StopAdmitting(a.Shard)
	c.s.firstWork.forget(a.Shard)
	at := monotonicNanos()
	c.log.Info("Stopped admitting shard", "shard", a.Shard, "epoch", a.Epoch, "identity", c.identity, "cause", a.Cause, "monotonicNanos", at)
	c.history.closed(a)
}

// monotonicNanos reads the clock that processes of one host share.
func monotonicNanos() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0
	}
	return now.Nano()
}

func (c *coordinator) drain(a Drain, drained func(context.Context) error) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(c.work, c.options.DrainBound)
	defer cancel()
	err := drained(ctx)
	if c.work.Err() != nil {
		return
	}
	if err != nil {
		c.log.Error(err, "Draining overran its bound; the shard is kept", "shard", a.Shard, "bound", c.options.DrainBound)
	}
	c.s.metrics.drained(time.Since(start), err != nil)
	c.queue.put(Drained{Shard: a.Shard, Seq: a.Seq, Overran: err != nil})
}

func (c *coordinator) warm(a Warm) {
	start := time.Now()
	c.scopes.Warm(c.work, a.Shard, func() {
		c.s.metrics.warmSeconds.Observe(time.Since(start).Seconds())
		c.queue.put(Warmed(a))
	})
}

// release tries until another may hold the Lease. What keeps it is the API being away; then the
// claim runs out by itself.
func (c *coordinator) release(shard Shard, claimed *claim.Claim) {
	epoch, held := claimed.Epoch()
	for c.work.Err() == nil {
		ctx, cancel := context.WithTimeout(c.work, c.requestTimeout())
		err := claimed.Release(ctx)
		cancel()
		if err == nil {
			if held {
				c.log.Info("Released shard", "shard", shard, "epoch", epoch, "identity", c.identity)
			}
			c.queue.put(ClaimChanged{Shard: shard, Type: claim.Released, Epoch: epoch})
			return
		}
		c.log.Error(err, "Releasing a shard; trying again", "shard", shard)
		pause(c.work, c.options.RetryPeriod/4)
	}
}

// writePlacement writes P by compare-and-swap. After a conflict it reads what is stored.
func (c *coordinator) writePlacement(next placement.Placement) {
	ctx, cancel := context.WithTimeout(c.work, c.requestTimeout())
	defer cancel()
	write := c.store.Update
	if next.Version == "" {
		write = c.store.Create
	}
	written, err := write(ctx, next)
	c.s.metrics.placementWritten(err)
	switch {
	case err == nil:
		c.queue.put(PlacementSeen{Placement: &written})
	case errors.Is(err, placement.ErrConflict):
		c.readPlacement()
	case errors.Is(err, placement.ErrMissing):
		c.queue.put(PlacementSeen{})
	case c.work.Err() == nil:
		c.log.Error(err, "Writing the placement; trying again")
		c.queue.put(PlacementWritten{Err: err})
		return
	}
	c.queue.put(PlacementWritten{})
}

func (c *coordinator) readPlacement() {
	ctx, cancel := context.WithTimeout(c.work, c.requestTimeout())
	defer cancel()
	read, err := c.store.Load(ctx)
	if event := placementEvent(read, err); event != nil {
		c.queue.put(event)
	} else if c.work.Err() == nil {
		c.log.Error(err, "Reading the placement")
	}
}

// placementEvent is what a read of P has shown; nil if it has shown nothing.
func placementEvent(read placement.Placement, err error) Event {
	var settings *placement.SettingsError
	var unreadable *placement.UnreadableError
	switch {
	case err == nil:
		return PlacementSeen{Placement: &read}
	case errors.Is(err, placement.ErrMissing):
		return PlacementSeen{}
	case errors.As(err, &settings):
		return PlacementUnreadable{Err: err}
	case errors.As(err, &unreadable):
		return PlacementUnreadable{Version: unreadable.Version, Err: err}
	}
	return nil
}

func (c *coordinator) verifyExpiry(a VerifyExpiry) {
	ctx, cancel := context.WithTimeout(c.work, c.requestTimeout())
	defer cancel()
	version, err := c.members.Read(ctx, a.Identity)
	if err != nil && c.work.Err() == nil {
		c.log.Error(err, "Verifying the expiry of a process", "process", a.Identity)
	}
	unchanged := err == nil && version == a.Version
	if unchanged {
		c.log.Info("A process has expired", "process", a.Identity)
	}
	c.queue.put(ExpiryVerified{Identity: a.Identity, Version: a.Version, Unchanged: unchanged})
}

// collectPresence tries until the presence Lease is gone: nobody else would delete it, since the machine
// asks for it once.
func (c *coordinator) collectPresence(identity Identity) {
	for c.work.Err() == nil {
		ctx, cancel := context.WithTimeout(c.work, c.requestTimeout())
		err := c.members.Remove(ctx, identity)
		cancel()
		if err == nil || c.work.Err() != nil {
			return
		}
		c.log.Error(err, "Deleting the presence Lease of a dead process; trying again", "process", identity)
		pause(c.work, c.options.RetryPeriod)
	}
}

// rejoin ends the old identity, under which nothing is held any more, and takes a new one.
func (c *coordinator) rejoin(a Rejoin) {
	c.log.Info("Joining again: placement does not count on this process any more",
		"identity", c.identity, "superseded", a.Superseded)
	old, claims, endClaims := c.identity, c.claims, c.endClaims
	c.claims = nil
	c.running.Go(func() {
		claims.Stop()
		endClaims()
		c.join(c.work, a.Superseded)
		c.collectPresence(old)
	})
}

// adopt begins to claim under a new identity.
func (c *coordinator) adopt(identity Identity) {
	set, err := claim.NewSet(c.claimOptions(identity))
	if err != nil {
		c.fail(err)
		return
	}
	ctx, cancel := context.WithCancel(c.work)
	c.identity, c.claims, c.endClaims = identity, set, cancel
	c.holders = map[Shard]Identity{}
	c.running.Go(func() {
		if err := set.Run(ctx); err != nil && ctx.Err() == nil {
			c.fail(err)
		}
	})
	c.log.Info("Joined", "identity", identity)
}
