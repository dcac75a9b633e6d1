package claim

import (
	"fmt"
	"time"
)

// advance queues what has happened, sets the timer for what is due next, and makes the loop decide
// anew. It needs mu.
func (c *Claim) advance(notices []notice) {
	now := c.o.Now()
	for _, n := range notices {
		e := Event{
			Shard: c.shard, Type: n.kind, Epoch: n.epoch, Reason: n.reason, At: now,
			Unclean: n.unclean, Again: n.again, Vacated: n.vacated,
		}
		if n.kind == Lost && n.reason != ReasonTaken {
			c.ownedUntil, c.ownedBySelf = now, true
		}
		switch n.kind {
		case Stalled, Expiring, Lost, Refused:
			e.Err = c.lastErr
		case Acquired, Recovered, Released:
		}
		if n.kind != Refused {
			e.Deadline = func() time.Time { return c.DeadlineOf(n.epoch) }
		}
		c.queue = append(c.queue, e)
	}
	if len(c.queue) > 0 && !c.busy {
		c.busy = true
		go c.deliver()
	}
	c.rearm(now)
	c.nudge()
}

// rearm sets the timer. It needs mu.
func (c *Claim) rearm(now time.Time) {
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	if next := c.tenure.next(); !next.IsZero() {
		c.timer = time.AfterFunc(max(0, next.Sub(now)), c.tick)
	}
}

// tick runs in the timer's own goroutine, whatever the loop, the elector and the user's callback are
// doing, and ends the process where the claim is over and calls that may change something are not.
func (c *Claim) tick() {
	c.mu.Lock()
	now := c.o.Now()
	notices := c.tenure.tick(now)
	due, epoch := c.tenure.isExitDue(now), c.tenure.exitEpoch
	c.advance(notices)
	c.mu.Unlock()
	if !due {
		return
	}
	if n := c.o.InFlight(c.shard, epoch); n > 0 {
		c.o.Exit(fmt.Sprintf("shard %d: %d mutating calls of epoch %s are in flight at the end of its claim",
			c.shard, n, epoch))
	}
}

// deliver tells the user what is queued, in order, and ends when nothing is.
func (c *Claim) deliver() {
	for {
		c.mu.Lock()
		if len(c.queue) == 0 {
			c.busy = false
			c.flushed.Broadcast()
			c.mu.Unlock()
			return
		}
		e := c.queue[0]
		c.queue = c.queue[1:]
		c.mu.Unlock()
		c.o.OnEvent(e)
	}
}
