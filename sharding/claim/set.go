package claim

import (
	"context"
	"time"

	"example.com/redis-operator/sharding/placement"
)

// Set is one process's claims on all shards, fed by one watch on the shard Leases.
type Set struct {
	o      Options
	claims []*Claim
}

// NewSet returns the claims on shards 0 to S-1, none of them contending.
func NewSet(o Options) (*Set, error) { return &Set{o: o}, nil }

// Claim is the claim on a shard; nil if there is no such shard.
func (s *Set) Claim(shard placement.Shard) *Claim {
	if int(shard) < 0 || int(shard) >= len(s.claims) {
		return nil
	}
	return s.claims[shard]
}

// Run watches the shard Leases and feeds the claims until ctx ends. It lists again after each break,
// and when the process's own renewals do not come back on the watch for RenewDeadline.
func (s *Set) Run(ctx context.Context) error { return nil }

// Synced says whether every shard's Lease has been looked at since Run began.
func (s *Set) Synced() bool { return false }

// Lag is for how long the oldest own write that the watch has not shown is missing; 0 if none is. A
// process whose writes pass but whose watches stall sees it grow.
func (s *Set) Lag() time.Duration { return 0 }

// Stop stops every claim, and waits.
func (s *Set) Stop() {}

// EnsureLeases creates the missing Leases of all shards, empty. Where one is missing it first waits
// LeaseDuration from when it saw that (all missing ones together): whoever held a Lease that was
// deleted by hand must have stopped by then. With all of them there it costs one list.
//
// It refuses Leases with other settings: *SettingsError.
func EnsureLeases(ctx context.Context, o Options) error { return nil }
