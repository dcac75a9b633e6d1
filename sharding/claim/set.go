package claim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/redis-operator/sharding/placement"
)

// Set is one process's claims on all shards, fed by one watch on the shard Leases.
type Set struct {
	o      Options
	claims []*Claim
	synced chan struct{} // closed after the first list
}

// NewSet returns the claims on shards 0 to S-1, none of them contending.
func NewSet(o Options) (*Set, error) {
	if o.Poll == 0 {
		o.Poll = o.withDefaults().Timings.LeaseDuration
	}
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("claiming shards: %w", err)
	}
	s := &Set{o: o.withDefaults(), synced: make(chan struct{})}
	for shard := range placement.Shard(o.Settings.Shards) {
		c, err := New(o, shard)
		if err != nil {
			return nil, err
		}
		s.claims = append(s.claims, c)
	}
	return s, nil
}

// Claim is the claim on a shard; nil if there is no such shard.
func (s *Set) Claim(shard placement.Shard) *Claim {
	if shard < 0 || int(shard) >= len(s.claims) {
		return nil
	}
	return s.claims[shard]
}

// Shards is S; the shards are 0 to S-1.
func (s *Set) Shards() placement.Shard { return placement.Shard(len(s.claims)) }

// Synced is closed once every shard's Lease has been looked at since Run began.
func (s *Set) Synced() <-chan struct{} { return s.synced }

// Lag is for how long the oldest own write that the watch has not shown is missing; 0 if none is. A
// process whose writes pass but whose watches stall sees it grow.
func (s *Set) Lag() time.Duration {
	var lag time.Duration
	for _, c := range s.claims {
		lag = max(lag, c.Lag())
	}
	return lag
}

// Reconsider makes every contending claim decide anew: call it when ConfirmedDead may answer otherwise.
func (s *Set) Reconsider() {
	for _, c := range s.claims {
		c.Reconsider()
	}
}

// Release releases every claim that is held or contends, at the same time, and joins the errors. Call
// it only after the work of all of them has drained.
func (s *Set) Release(ctx context.Context) error {
	errs := make(chan error, len(s.claims))
	for _, c := range s.claims {
		go func() { errs <- c.Release(ctx) }()
	}
	var all []error
	for range s.claims {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// Stop stops every claim and waits until OnEvent has been told of it. Not to be called from OnEvent.
func (s *Set) Stop() {
	for _, c := range s.claims {
		c.Stop()
	}
	for _, c := range s.claims {
		c.flush()
	}
}
