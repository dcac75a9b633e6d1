package claim

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// loop contends until ctx ends: it waits for the Lease to be free, empties it where it may, and lets
// an elector acquire and renew it for as long as that has a chance.
func (c *Claim) loop(ctx context.Context) {
	for ctx.Err() == nil {
		m, now := c.decide()
		switch m.intent {
		case intentRead:
			if _, err := c.read(ctx); err != nil && !apierrors.IsNotFound(err) {
				c.pause(ctx, c.o.Timings.RetryPeriod)
			}
		case intentCreate:
			c.create(ctx)
		case intentAcquire:
			c.elect(ctx)
		case intentEmpty:
			c.takeOver(ctx, m)
		case intentWait:
			wait := c.o.Poll
			if !m.until.IsZero() {
				wait = min(wait, m.until.Sub(now))
			}
			if c.pause(ctx, wait) && c.o.Now().Sub(now) >= c.o.Poll {
				c.poll(ctx)
			}
		}
	}
}

// pause waits until the time is over (true) or something has happened (false).
func (c *Claim) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.wake:
	case <-ctx.Done():
	}
	return false
}

// poll looks at the Lease of another holder, in case no watch does. While it cannot be looked at,
// nothing is known to have stayed as it was, and the observation starts anew.
func (c *Claim) poll(ctx context.Context) bool {
	_, err := c.read(ctx)
	if err == nil || apierrors.IsNotFound(err) || ctx.Err() != nil {
		return true
	}
	c.Break()
	return false
}

// elect runs one elector until ctx ends, it gives up, or there is nothing for it to acquire. Its logs
// go nowhere, since every failed renewal of every shard is one: the claim's events tell what matters.
func (c *Claim) elect(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.mu.Lock()
	if !c.mayElect() {
		c.mu.Unlock()
		return
	}
	c.elector = cancel
	trust := !c.outdated
	c.outdated = false
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.elector = nil
	}()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: c.o.Namespace, Name: c.name},
			Client:     &recorder{c: c, trust: trust},
			LockConfig: resourcelock.ResourceLockConfig{Identity: string(c.o.Identity)},
		},
		LeaseDuration: c.o.Timings.LeaseDuration,
		RenewDeadline: c.o.Timings.RenewDeadline,
		RetryPeriod:   c.o.Timings.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {},
			OnStoppedLeading: func() {},
		},
		// The claim releases by itself, after the drain: see the package's comment.
		ReleaseOnCancel: false,
		Name:            c.name,
	})
	if err != nil { // only the options can be wrong, and Validate has seen them
		panic(err) //nolint:forbidigo // unreachable; running on without an elector would be worse
	}
	elector.Run(klog.NewContext(ctx, logr.Discard()))
}
