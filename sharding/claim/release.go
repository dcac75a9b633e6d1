package claim

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Release stops contending and, where the stored holder is this process, empties the Lease so that
// another can take it at once. Call it only after the work has drained. It returns nil once another
// may hold the Lease, for whatever reason; on an error (ctx over, API away) it may be called again, or
// Start, which takes it up again under the same epoch if its deadline has not passed.
func (c *Claim) Release(ctx context.Context) error {
	c.halt()
	c.mu.Lock()
	lease, how := c.own, c.tenure.vacancy(c.o.Now())
	idle := c.tenure.phase == unheld && !c.unsure && HolderOf(c.seen.lease) != c.o.Identity
	if c.tenure.phase == unheld {
		lease = nil // the last own write proves nothing any more
	}
	c.mu.Unlock()
	if idle {
		return nil
	}
	for {
		err := c.releaseOnce(ctx, lease, how)
		if err == nil {
			return nil
		}
		lease = nil
		if !apierrors.IsConflict(err) && !wait(ctx, c.o.Timings.RetryPeriod/4) {
			return fmt.Errorf("releasing Lease %s: %w", c.name, errors.Join(context.Cause(ctx), err))
		}
	}
}

// releaseOnce empties the given version of the Lease, or, for nil, what it reads now if that is its own.
func (c *Claim) releaseOnce(ctx context.Context, lease *coordinationv1.Lease, how string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if lease == nil {
		read, err := c.read(ctx)
		if apierrors.IsNotFound(err) {
			c.finish(nil)
			return nil
		}
		if err != nil {
			return err
		}
		if HolderOf(read) != c.o.Identity {
			c.finish(read)
			return nil
		}
		lease = read
	}
	answer, err := vacate(ctx, c.o, lease, how)
	if err != nil {
		return err
	}
	c.finish(answer)
	return nil
}

// finish records that the Lease is not this process's any more.
func (c *Claim) finish(lease *coordinationv1.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unsure, c.own = false, nil
	out := c.tenure.released()
	if lease != nil {
		c.see(lease, lease.ResourceVersion)
	}
	c.advance(out)
}

// wait waits, and answers false if ctx ends first.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
