package sharding

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/directory"
	"example.com/redis-operator/sharding/membership"
	"example.com/redis-operator/sharding/placement"
)

// coordinator is the edge around a Machine: it turns what it sees and finishes into events, and
// carries out the actions that Step answers. One goroutine runs the machine and everything that
// takes effect at once; whatever waits for the API, the cache or calls in flight has goroutines of
// its own, which live on the coordinator's context and are waited for before Start returns.
//
// It is a manager.Runnable that needs no leader election, so that the manager stops it first, with
// controllers and caches still running: its Start returns only when every shard is handed over or
// the bound for that is over.
type coordinator struct {
	s       *Sharding
	options Options // with the timings that P records
	log     logr.Logger
	queue   *eventQueue
	failed  chan error // the first error that ends the process

	clients     *clients
	store       *placement.Store
	statefulSet *appsv1.StatefulSet // as read at the start; nil without one
	podUID      string
	members     *membership.Membership
	directory   *directory.Directory
	scopes      *scopes
	machine     *Machine

	work      context.Context //nolint:containedctx // of everything below; ends after the last shard
	running   sync.WaitGroup
	claims    *claim.Set
	endClaims func()
	identity  Identity
	lagging   bool
	compared  bool // the timings of the first P that was seen
	holders   map[Shard]Identity
	timer     *time.Timer
	finished  bool
	history   *history
	// unreadable is the version of P that was last reported as unreadable.
	unreadable string
}

// NeedLeaderElection makes the manager run the coordinator among those that it stops first.
func (c *coordinator) NeedLeaderElection() bool { return false }

// Start runs until ctx ends and every shard is handed over, or until the process cannot go on: its
// settings are not the installation's, or its Pod is gone.
func (c *coordinator) Start(ctx context.Context) error {
	if err := c.prepare(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("starting the coordinator: %w", err)
	}
	work, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	c.work = work
	// What is only needed to get going ends with the manager's context, and with this function
	// where that goes on: an error of Start is what ends the manager.
	starting, endStarting := context.WithCancel(ctx)
	defer endStarting()
	c.begin(starting)
	err := c.loop(ctx)
	endStarting()
	c.finish(end)
	return err
}

// begin starts everything that reports to the queue. What has to outlive ctx runs on c.work.
func (c *coordinator) begin(ctx context.Context) {
	now := time.Now()
	c.machine = NewMachine(MachineConfig{
		Member: Member(c.options.Member), Settings: c.options.settings(), Timings: c.options.timings(),
		HandoverBound: c.options.HandoverBound, DrainBound: c.options.DrainBound, FoldEvery: c.options.FoldWeights,
	}, now)
	c.timer = time.NewTimer(0)
	c.running.Go(func() { c.watchPlacement(c.work) })
	c.running.Go(func() { c.watchExpected(c.work) })
	c.running.Go(func() { c.watchPods(c.work) })
	c.running.Go(func() { c.members.Run(c.work) })
	c.running.Go(func() {
		if err := c.directory.Start(c.work); err != nil {
			c.fail(err)
		}
	})
	c.running.Go(func() {
		if c.directory.WaitForSync(ctx) {
			c.queue.put(DirectorySynced{})
		}
	})
	c.running.Go(func() { c.ensureLeases(ctx) })
	c.running.Go(func() { c.join(ctx, false) })
}

// loop runs the machine until the stop is complete or something ends the process.
func (c *coordinator) loop(ctx context.Context) error {
	stopping := ctx.Done()
	// Not at the machine's ticks: each event puts them off, and in a large installation there is
	// always one.
	look := time.NewTicker(c.options.RetryPeriod / 2)
	defer look.Stop()
	for !c.finished {
		select {
		case <-stopping:
			stopping = nil
			c.log.Info("Stopping: handing over shards", "bound", c.options.HandoverBound)
			c.step(Stopping{})
		case err := <-c.failed:
			return err
		case <-c.timer.C:
			c.step(Tick{})
		case <-look.C:
			c.look()
		case <-c.queue.filled:
			for _, event := range c.queue.take() {
				c.step(event)
			}
		}
		c.s.snapshot.Store(c.observe())
	}
	return nil
}

func (c *coordinator) step(event Event) {
	if c.finished {
		return
	}
	switch e := event.(type) {
	case PlacementSeen:
		if e.Placement != nil {
			c.compareTimings(*e.Placement)
			c.notePlacement(*e.Placement)
		}
	case PlacementUnreadable:
		c.noteUnreadable(e)
	case Joined:
		c.adopt(e.Identity)
	case ClaimChanged:
		if c.claims != nil {
			c.history.claimChanged(e, c.claims.Claim(e.Shard).OwnedUntil())
		}
	}
	for _, action := range c.machine.Step(event, time.Now()) {
		c.perform(action)
	}
}

// look looks at what nothing reports by itself.
func (c *coordinator) look() {
	c.scopes.Sweep(time.Now())
	bound := membership.BreakAfter(c.options.LeaseDuration, c.options.RetryPeriod)
	// A step may end the claims.
	if lagging := c.claims != nil && c.claims.Lag() > bound; lagging != c.lagging {
		c.lagging = lagging
		c.step(ClaimsLagging{Lagging: lagging})
	}
	for shard := range Shard(c.options.Shards) {
		if c.claims == nil {
			return
		}
		// OnHolder has told this before; once more mends what came in another order than it happened.
		holder, known := c.claims.Claim(shard).Holder()
		if before, told := c.holders[shard]; known && (!told || holder != before) {
			c.holders[shard] = holder
			c.step(HolderSeen{Shard: shard, Holder: holder})
		}
	}
	if now := time.Now(); c.s.costs.isDue(now) {
		c.step(CostsMeasured{Costs: c.s.costs.measure(now, c.options.Shards, c.rootObjects())})
	}
}

// rootObjects counts the root objects in each shard.
func (c *coordinator) rootObjects() map[Shard]int {
	objects := make(map[Shard]int)
	for namespace, count := range c.directory.All() {
		objects[c.s.ShardOf(namespace)] += count
	}
	return objects
}

// fail ends the process with the first error that it is called with.
func (c *coordinator) fail(err error) {
	select {
	case c.failed <- err:
	default:
	}
}

// finish ends everything. What is still claimed is not released: its Lease runs out, and its calls
// end with the process.
func (c *coordinator) finish(end context.CancelFunc) {
	for shard := range Shard(c.options.Shards) {
		c.s.guard.Revoke(shard)
	}
	if c.claims != nil {
		c.claims.Stop()
	}
	ctx, cancel := context.WithTimeout(c.work, c.options.claimTimings().ClientTimeout())
	if err := c.members.Leave(ctx); err != nil {
		c.log.Error(err, "Leaving the presence Lease behind")
	}
	cancel()
	end()
	c.timer.Stop()
	c.scopes.Close()
	c.running.Wait()
	c.log.Info("Stopped", "identity", c.identity)
}

// ensureLeases creates the shard Leases of a new installation, and refuses those of another.
func (c *coordinator) ensureLeases(ctx context.Context) {
	for ctx.Err() == nil {
		err := claim.EnsureLeases(ctx, c.claimOptions("none_none_none"))
		var settings *claim.SettingsError
		switch {
		case err == nil:
			c.queue.put(LeasesEnsured{})
			return
		case errors.As(err, &settings):
			c.fail(fmt.Errorf("checking the shard Leases: %w", err))
			return
		case ctx.Err() == nil:
			c.log.Error(err, "Ensuring the shard Leases; trying again")
		}
		pause(ctx, c.options.RetryPeriod)
	}
}

func (c *coordinator) claimOptions(identity Identity) claim.Options {
	return claim.Options{
		Client: c.clients, Namespace: c.options.Namespace, Installation: c.options.Installation,
		Settings: c.options.settings(), Identity: identity, Timings: c.options.claimTimings(),
		OnEvent:       c.claimChanged,
		OnHolder:      func(shard Shard, holder Identity) { c.queue.put(HolderSeen{Shard: shard, Holder: holder}) },
		ConfirmedDead: c.s.isConfirmedDead,
		InFlight:      c.s.guard.MutatingUpTo,
		Exit:          c.exit,
	}
}

// claimChanged is told by claims; Released is told when Release has returned.
func (c *coordinator) claimChanged(event claim.Event) {
	if event.Type == claim.Refused {
		c.fail(fmt.Errorf("claiming shard %d: %w", event.Shard, event.Err))
		return
	}
	if event.Type == claim.Released {
		return
	}
	c.s.metrics.claimChanged(event)
	c.queue.put(ClaimChanged{
		Shard: event.Shard, Type: event.Type, Epoch: event.Epoch, Reason: event.Reason,
		Unclean: event.Unclean, Again: event.Again, Vacated: event.Vacated,
	})
}

// exit is called by a claim's own timer: a call that could still change something is in flight at
// the deadline (I1).
func (c *coordinator) exit(reason string) {
	c.log.Error(errors.New(reason), "Ending the process at once")
	c.options.Exit(reason)
}

// notePlacement keeps what claims and the guard ask for from other goroutines.
func (c *coordinator) notePlacement(p placement.Placement) {
	confirmed := map[Identity]bool{}
	for _, process := range p.Processes {
		if process.Cause == placement.Confirmed {
			confirmed[process.Identity] = true
		}
	}
	c.s.confirmed.Store(&confirmed)
	if c.claims != nil {
		c.claims.Reconsider()
	}
	c.s.metrics.placementSeen(p)
}

// pause waits, and answers false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
