package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/placement"
)

// What Check and the others answer, always wrapped with the shard it is about.
var (
	// ErrNotAdmitted: the context has no admission, or its shard is not held any more.
	ErrNotAdmitted = errors.New("not admitted")
	// ErrDraining: the shard is being handed over; no new changing call may start.
	ErrDraining = errors.New("draining")
	// ErrExpired: the deadline of the claim has passed, or is so near that its calls were cancelled.
	ErrExpired = errors.New("claim expired")
	// ErrStaleEpoch: the shard is held under another epoch than the context was admitted under.
	ErrStaleEpoch = errors.New("stale epoch")
)

// Observer is told what the guard does, for metrics. Its methods must be fast; they are called
// without locks and from many goroutines.
type Observer interface {
	// Started: a request was admitted under the epoch and begins.
	Started(shard placement.Shard, epoch claim.Epoch)
	// Reconciled: a request that was admitted has ended, after so long.
	Reconciled(shard placement.Shard, took time.Duration)
	// Dropped: a request, or the timer that one asked for, was dropped since its shard is not held.
	Dropped(shard placement.Shard)
	// Refused: a changing call was refused; shard is -1 for a context without admission.
	Refused(shard placement.Shard, reason error)
}

// Resource is a kind of object as it appears in the API's paths: Group "" and Name "configmaps".
// Name may include a subresource, "serviceaccounts/token"; without one it stands for all of them.
type Resource struct{ Group, Name string }

// Options configure a guard.
type Options struct {
	// Settings say which shard a namespace is in. Required.
	Settings placement.Settings
	// ShardLabel is the key of the label that Labels answers. Default "cache.example.com/shard".
	ShardLabel string
	// CancelLead is how long before a claim's deadline calls are refused already, since they would be
	// cancelled then: the claim's Timings.CancelLead. Default 0: calls may start until the deadline.
	CancelLead time.Duration
	// Exempt are the resources that may be written without an admission, in addition to
	// DefaultExempt.
	Exempt []Resource
	// Observer is told what happens. Default: nobody.
	Observer Observer
	// Now is the clock, with its monotonic reading. Default time.Now.
	Now func() time.Time
}

// DefaultExempt are what every process may write: Leases, Events and the reviews that change nothing.
func DefaultExempt() []Resource {
	return []Resource{
		{Group: "coordination.k8s.io", Name: "leases"},
		{Group: "", Name: "events"},
		{Group: "events.k8s.io", Name: "events"},
		{Group: "authentication.k8s.io", Name: "tokenreviews"},
		{Group: "authorization.k8s.io", Name: "subjectaccessreviews"},
		{Group: "authorization.k8s.io", Name: "selfsubjectaccessreviews"},
	}
}

// DefaultShardLabel is the key of the label that carries an object's shard.
const DefaultShardLabel = "cache.example.com/shard"

// Guard admits, counts and refuses. See the package's comment.
type Guard struct {
	o      Options
	exempt map[Resource]bool

	mu      sync.Mutex // guards all below, and what the tenures and grants hold
	lead    time.Duration
	shards  map[placement.Shard]*shard
	dropped []func(namespace string)
}

// New returns a guard that admits nothing yet.
func New(o Options) (*Guard, error) {
	if err := o.Settings.Validate(); err != nil {
		return nil, fmt.Errorf("guarding shards: %w", err)
	}
	if o.CancelLead < 0 {
		return nil, fmt.Errorf("guarding shards: CancelLead %s is negative", o.CancelLead)
	}
	if o.ShardLabel == "" {
		o.ShardLabel = DefaultShardLabel
	}
	if o.Observer == nil {
		o.Observer = nobody{}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	g := &Guard{o: o, lead: o.CancelLead, exempt: map[Resource]bool{}, shards: map[placement.Shard]*shard{}}
	for _, r := range append(DefaultExempt(), o.Exempt...) {
		g.exempt[r] = true
	}
	return g, nil
}

// SetCancelLead changes Options.CancelLead: the timings of the claims were learnt after New.
func (g *Guard) SetCancelLead(lead time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lead = lead
}

// Admit opens a shard under an epoch. With the present epoch it opens the shard again after
// StopAdmitting, Drain or Cancel; what Cancel has ended stays ended. Deadline is asked at each call
// and must be fast; use Event.Deadline of package claim, which is zero, long past, once the epoch is
// over.
func (g *Guard) Admit(number placement.Shard, epoch claim.Epoch, deadline func() time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.shard(number)
	if s.current == nil || s.current.epoch != epoch {
		s.revoke()
		s.current = &tenure{shard: number, epoch: epoch}
		s.all = append(s.all, s.current)
	}
	t := s.current
	t.deadline = deadline
	t.mode = open
	if t.grant == nil || t.grant.cancelled {
		t.grant = newGrant(t)
	}
}

// StopAdmitting closes a shard to new requests, which are put off. What was admitted goes on. A shard
// that is draining goes on draining.
func (g *Guard) StopAdmitting(number placement.Shard) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.shard(number).current; t != nil && t.mode == open {
		t.mode = closed
	}
}

// Drain is StartDrain, and waits.
func (g *Guard) Drain(ctx context.Context, number placement.Shard) error {
	return g.StartDrain(number)(ctx)
}

// StartDrain closes a shard to new requests and has Check answer ErrDraining, until Admit or Revoke.
// What it returns waits until no mutating call of the present or an earlier epoch is in flight, and
// closes nothing: it may run late. Requests in flight are not waited for, since they can only read
// from then on. When ctx ends first it returns an error with the count, and the shard goes on draining.
func (g *Guard) StartDrain(number placement.Shard) (wait func(ctx context.Context) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.shard(number)
	if s.current != nil {
		s.current.mode = draining
	}
	before := slices.Clone(s.all) // not those that begin meanwhile
	return func(ctx context.Context) error { return g.waitFor(ctx, number, before) }
}

// waitFor waits for the mutating calls of some tenures of a shard.
func (g *Guard) waitFor(ctx context.Context, number placement.Shard, before []*tenure) error {
	g.mu.Lock()
	for {
		n := mutatingOf(before)
		if n == 0 {
			g.mu.Unlock()
			return nil
		}
		changed := g.shard(number).waitForChange()
		g.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("draining shard %d, %d mutating calls in flight: %w", number, n, ctx.Err())
		}
		g.mu.Lock()
	}
}

// Cancel closes a shard and cancels the contexts of everything admitted until now; their Check answers
// ErrExpired.
func (g *Guard) Cancel(number placement.Shard) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.shard(number).current; t != nil {
		if t.mode == open {
			t.mode = closed
		}
		t.cancel()
	}
}

// Revoke cancels, and forgets that the shard is held: requests and timers are dropped from then on.
// What is still in flight goes on being counted. The functions given to Dropped are not called; see
// NotifyDropped.
func (g *Guard) Revoke(number placement.Shard) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shard(number).revoke()
}

// Admits says whether a new request of the shard would be admitted now.
func (g *Guard) Admits(number placement.Shard) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.shard(number).current
	return t != nil && t.mode == open && g.isInTime(t)
}

// InFlight counts the admitted requests (Wrap, Enter) of a shard and its mutating calls (Begin, the
// RoundTripper) that have not ended, over all epochs.
func (g *Guard) InFlight(number placement.Shard) (all, mutating int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.shard(number)
	for _, t := range s.all {
		all += t.requests
	}
	return all, mutatingOf(s.all)
}

// MutatingUpTo counts the mutating calls in flight of a shard that were admitted under the epoch or an
// earlier one: what package claim asks before it ends the process.
func (g *Guard) MutatingUpTo(number placement.Shard, epoch claim.Epoch) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, t := range g.shard(number).all {
		if !t.epoch.After(epoch) {
			n += t.mutating
		}
	}
	return n
}

// ShardOf is the shard of a namespace.
func (g *Guard) ShardOf(namespace string) placement.Shard { return g.o.Settings.ShardOf(namespace) }

// Labels is the label that an object in the namespace has to carry: its shard.
func (g *Guard) Labels(namespace string) map[string]string {
	return map[string]string{g.o.ShardLabel: strconv.Itoa(int(g.ShardOf(namespace)))}
}

// Dropped registers a function that is called with each namespace that this process no longer owns,
// so that pollers, connections and series of it go. It must be fast.
func (g *Guard) Dropped(f func(namespace string)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dropped = append(g.dropped, f)
}

// NotifyDropped calls the functions given to Dropped, in the caller's goroutine.
func (g *Guard) NotifyDropped(namespace string) {
	g.mu.Lock()
	dropped := slices.Clone(g.dropped)
	g.mu.Unlock()
	for _, f := range dropped {
		f(namespace)
	}
}

// nobody observes nothing.
type nobody struct{}

func (nobody) Started(placement.Shard, claim.Epoch)      {}
func (nobody) Reconciled(placement.Shard, time.Duration) {}
func (nobody) Dropped(placement.Shard)                   {}
func (nobody) Refused(placement.Shard, error)            {}
