package guard

import (
	"context"
	"slices"
	"time"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/placement"
)

// mode is what a held shard lets through.
type mode int

const (
	open     mode = iota // requests and calls
	closed               // calls of what is admitted
	draining             // nothing new that changes something
)

// shard is what the guard knows of one shard. All of it is guarded by Guard.mu.
type shard struct {
	current *tenure   // nil while the shard is not held
	all     []*tenure // current, and earlier ones with something in flight
	changed chan struct{}
}

// tenure is one epoch of a shard, and what was admitted under it.
type tenure struct {
	shard    placement.Shard
	epoch    claim.Epoch
	deadline func() time.Time
	mode     mode
	grant    *grant
	// requests and mutating are in flight.
	requests, mutating int
}

// grant is what was admitted between two cancellations of a tenure. Its context only announces the
// cancellation; the flag, read under the lock, is what calls are refused by.
type grant struct {
	tenure    *tenure
	ctx       context.Context //nolint:containedctx // it is the cancellation itself, not a caller's context
	end       context.CancelCauseFunc
	cancelled bool
}

func newGrant(t *tenure) *grant {
	ctx, end := context.WithCancelCause(context.Background())
	return &grant{tenure: t, ctx: ctx, end: end}
}

// shard finds or makes the record of a shard. It needs mu.
func (g *Guard) shard(number placement.Shard) *shard {
	s := g.shards[number]
	if s == nil {
		s = &shard{}
		g.shards[number] = s
	}
	return s
}

// isInTime compares the clock with the deadline of the claim: the one test that a pause of the whole
// process cannot outrun.
func (g *Guard) isInTime(t *tenure) bool {
	return g.o.Now().Before(t.deadline().Add(-g.lead))
}

func (t *tenure) cancel() {
	t.grant.cancelled = true
	t.grant.end(ErrExpired)
}

func (s *shard) revoke() {
	if s.current == nil {
		return
	}
	s.current.cancel()
	s.current = nil
	s.prune()
}

// prune forgets earlier tenures with nothing in flight, and wakes those who wait for a change.
func (s *shard) prune() {
	s.all = slices.DeleteFunc(s.all, func(t *tenure) bool {
		return t != s.current && t.requests == 0 && t.mutating == 0
	})
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// waitForChange gives a channel that is closed at the next change of what is in flight.
func (s *shard) waitForChange() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

func mutatingOf(tenures []*tenure) int {
	n := 0
	for _, t := range tenures {
		n += t.mutating
	}
	return n
}
