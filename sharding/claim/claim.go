package claim

import (
	"context"
	"fmt"
	"sync"
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
	name  string
	wake  chan struct{} // has an element when the loop should decide anew

	mu     sync.Mutex // guards everything below
	tenure tenure
	seen   observation
	// ownedUntil is when the Lease was last owned: when another was seen to, or the own tenure ended;
	// ownedBySelf says that it was the latter.
	ownedUntil  time.Time
	ownedBySelf bool
	echo        echo
	own         *coordinationv1.Lease // as answered to the last own write
	outdated    bool                  // what was last seen has proved old: read before the next write
	refused     error                 // the *SettingsError of what was last seen, or nil
	lastErr     error                 // of the last request that failed since the last write
	unsure      bool                  // a write may have been carried out although it failed
	tried       found                 // in which state such a write found the Lease
	timer       *time.Timer           // wakes tick
	current     *contest              // nil while the claim does not contend
	elector     context.CancelFunc    // ends the elector; nil while none runs
	queue       []Event               // not delivered yet
	busy        bool                  // a goroutine delivers the queue
	flushed     sync.Cond             // busy has become false; its lock is mu
}

// contest is one period of contending, from Start to Release or Stop.
type contest struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// New returns a claim that does nothing yet.
func New(o Options, shard placement.Shard) (*Claim, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("claiming shard %d: %w", shard, err)
	}
	o = o.withDefaults()
	c := &Claim{
		o: o, shard: shard, name: LeaseName(o.Installation, shard),
		wake:   make(chan struct{}, 1),
		tenure: tenure{timings: o.Timings},
	}
	c.flushed.L = &c.mu
	return c, nil
}

// Start begins contending for the Lease, and goes on, through loss and new acquisition, until Release,
// Stop, or the end of ctx, which is the same as Stop. Does nothing if the claim already contends.
func (c *Claim) Start(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &contest{cancel: cancel, done: make(chan struct{})}
	c.current = r
	c.tenure.silent = false
	c.advance(c.tenure.announce())
	go func() {
		defer close(r.done)
		defer cancel()
		c.loop(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.current == r { // neither Release nor Stop ended it
			c.abandon()
		}
	}()
}

// halt ends contending and renewing and waits for both, leaving the Lease as it is.
func (c *Claim) halt() {
	c.mu.Lock()
	r := c.current
	c.current = nil
	c.tenure.silent = true
	c.mu.Unlock()
	if r != nil {
		r.cancel()
		<-r.done
	}
}

// Stop stops contending and renewing and waits for both to end. It writes nothing: the Lease runs
// out. A claim that was held is reported Lost(ReasonAbandoned) at once, and the exit at its deadline
// still applies.
func (c *Claim) Stop() {
	c.halt()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abandon()
}

// abandon needs mu.
func (c *Claim) abandon() {
	c.current = nil
	c.advance(c.tenure.lose(c.o.Now(), ReasonAbandoned))
}

// Shard is the shard claimed.
func (c *Claim) Shard() placement.Shard { return c.shard }

// Epoch is the tenure in which the Lease is held. False if it is not, or not any more.
func (c *Claim) Epoch() (Epoch, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.tenure.isLive(c.o.Now()) {
		return "", false
	}
	return c.tenure.epoch, true
}

// Deadline is when the claim ends unless it is renewed: LeaseDuration after the last successful write
// was sent. Zero if the Lease is not held.
func (c *Claim) Deadline() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tenure.deadline()
}

// DeadlineOf is Deadline for as long as the given epoch lasts, and the zero time afterwards.
func (c *Claim) DeadlineOf(epoch Epoch) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tenure.epoch != epoch {
		return time.Time{}
	}
	return c.tenure.deadline()
}

// Holder is the holder that the Lease named when it was last seen, empty if it was free or missing.
// False if it was not seen yet.
func (c *Claim) Holder() (placement.Identity, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return HolderOf(c.seen.lease), c.seen.known
}

// HolderExpired tells whether another process is stored as holder and has not renewed for so long that
// it does not rely on the Lease any more, by own observation.
func (c *Claim) HolderExpired() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	holder := HolderOf(c.seen.lease)
	return holder != "" && holder != c.o.Identity && !c.o.Now().Before(c.seen.ripe())
}

// Observe tells the claim of a state of its Lease, from a watch. What is older than what it knows is
// ignored. The Lease is not kept.
func (c *Claim) Observe(lease *coordinationv1.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.echo.observed(lease.ResourceVersion)
	c.see(lease, lease.ResourceVersion)
}

// ObserveAbsent tells the claim that its Lease is missing as of a resourceVersion: that of the
// deletion, or of the list that did not hold it.
func (c *Claim) ObserveAbsent(resourceVersion string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.echo.observed(resourceVersion)
	c.see(nil, resourceVersion)
}

// Break tells the claim that its observation was interrupted: what it has seen is timed anew from
// now, so that a holder that was cut off as well can take up its Lease again first.
func (c *Claim) Break() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen.restart(c.o.Now())
	c.nudge()
}

// Reconsider makes a contending claim decide anew: call it when ConfirmedDead may answer otherwise.
func (c *Claim) Reconsider() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nudge()
}

// Lag is for how long an own write has been missing on the watch; 0 if none is.
func (c *Claim) Lag() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.echo.lag(c.o.Now())
}

// see takes in a state of the Lease, nil for missing. It needs mu.
func (c *Claim) see(lease *coordinationv1.Lease, version string) {
	now := c.o.Now()
	var out []notice
	if c.take(lease, version, now) {
		if lease != nil {
			c.noteOwner(lease, now)
			out = c.judge(lease, now)
			if c.elector != nil && HolderOf(lease) == "" {
				c.elector() // the next one tries at once, if it may; this one would wait for its turn
			}
		} else {
			c.refused = nil
		}
	}
	c.advance(out)
}

// take lets the observation see a state of the Lease, and tells of another holder. It needs mu.
func (c *Claim) take(lease *coordinationv1.Lease, version string, now time.Time) bool {
	before, known := HolderOf(c.seen.lease), c.seen.known
	isNews := c.seen.see(lease, version, now, c.o.Timings.LeaseDuration)
	if holder := HolderOf(c.seen.lease); isNews && (!known || holder != before) {
		c.o.OnHolder(c.shard, holder)
	}
	return isNews
}

// noteOwner remembers when another process was last seen to own the Lease: at a renewal of its own, or
// when it was released. It needs mu.
func (c *Claim) noteOwner(lease *coordinationv1.Lease, now time.Time) {
	holder := HolderOf(lease)
	released := holder == "" && lease.Annotations[VacatedAnnotation] == string(Released)
	if holder != "" && holder != c.o.Identity || released {
		c.ownedUntil, c.ownedBySelf = now, false
	}
}

// OwnedUntil is until when the Lease was owned before the present tenure as far as this process has
// seen, on the local clock: another's last renewal, a release, or the loss of an own tenure. Zero if it
// never was. A measure, not a promise.
func (c *Claim) OwnedUntil() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ownedUntil
}

// judge compares news of the Lease with what this process believes of it. It needs mu.
func (c *Claim) judge(lease *coordinationv1.Lease, now time.Time) []notice {
	var out []notice
	holder := HolderOf(lease)
	t := &c.tenure
	// An unsettled Lease takes nothing away from a claim that is inside its deadline: it is taken back.
	// While the claim is released, its own emptying comes back on the watch.
	isOver := holder != c.o.Identity && !isUnsettled(lease)
	if t.phase != unheld && !t.silent && isOver && isNewer(lease.ResourceVersion, t.version) {
		why := ReasonTaken
		if holder == "" {
			why = ReasonEmptied
		}
		out = t.lose(now, why)
	}
	before := c.refused
	c.refused = checkSettings(lease, c.o.Settings)
	if holder == c.o.Identity && t.isLive(now) {
		c.refused = nil // edited by hand under its holder, whose next renewal puts it right
	}
	if c.refused != nil {
		c.lastErr = c.refused
		if before == nil || before.Error() != c.refused.Error() {
			out = append(out, notice{kind: Refused})
		}
	}
	return out
}

// decide says what the loop does next. It asks ConfirmedDead, and must not hold mu.
func (c *Claim) decide() (move, time.Time) {
	c.mu.Lock()
	now, seen := c.o.Now(), c.seen
	refused, live := c.refused != nil, c.tenure.isLive(now)
	c.mu.Unlock()
	if refused {
		return move{}, now
	}
	return seen.decide(now, c.o.Identity, live, c.o.ConfirmedDead), now
}

// mayElect says whether an elector has something to do: acquire, or renew. It needs mu.
func (c *Claim) mayElect() bool { return c.refused == nil && c.isAcquirable() }

// isAcquirable says whether the Lease as it was last seen may be acquired or renewed. It needs mu.
func (c *Claim) isAcquirable() bool {
	now := c.o.Now()
	never := func(placement.Identity) bool { return false }
	return c.seen.decide(now, c.o.Identity, c.tenure.isLive(now), never).intent == intentAcquire
}

// nudge makes the loop decide anew, and ends an elector that has nothing to do. It needs mu.
func (c *Claim) nudge() {
	if c.elector != nil && !c.mayElect() {
		c.elector()
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// flush waits until the events queued so far are delivered.
func (c *Claim) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.busy {
		c.flushed.Wait()
	}
}
