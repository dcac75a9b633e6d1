package sharding

import (
	"time"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/placement"
)

// Action is something that the edge has to do; Machine.Step returns them in the order in which they
// are to be begun. Those marked "at once" have taken effect before the next action is begun; the
// others end with the event that their comment names.
type Action interface{ action() }

// Cause says why a shard is admitted or no longer admitted.
type Cause string

// Why a shard is admitted.
const (
	CauseHandover  Cause = "handover"  // the predecessor released it
	CauseFailover  Cause = "failover"  // the predecessor did not
	CauseRecovered Cause = "recovered" // renewals or watches work again
	CauseDrainOver Cause = "overran"   // a drain overran, or is no longer needed
)

// Why a shard is no longer admitted, beside CauseHandover.
const (
	CauseStalled Cause = "stalled" // no renewal in time
	CauseLagging Cause = "lagging" // writes pass, watches do not
	CauseLost    Cause = "lost"    // the claim is over
	CauseStop    Cause = "stop"    // the process ends, and nobody took the shard
)

// WritePlacement writes P: over its Version by compare-and-swap, or creates it if that is empty.
// Ends with PlacementSeen or PlacementUnreadable, and PlacementWritten.
type WritePlacement struct{ Placement placement.Placement }

// ReadPlacement reads P past the watch, which seems to have missed a version. Ends with
// PlacementSeen.
type ReadPlacement struct{}

// Publish sets what the presence Lease says; Urgent says to write it at once instead of with the
// next renewal.
type Publish struct {
	Placement string
	Warmed    []Shard
	Costs     map[Shard]placement.Cost // must not be changed
	Urgent    bool
}

// VerifyExpiry reads the presence Lease of a process that seems to have expired. Ends with
// ExpiryVerified.
type VerifyExpiry struct {
	Identity Identity
	Version  string
}

// Relist restarts the watch on the presence Leases.
type Relist struct{}

// Rejoin takes a new identity, after a look at the own Pod: the process exits if that is gone or
// has another UID. Ends with Joined.
type Rejoin struct {
	// Superseded says that another live process has registered under the own member: without a
	// Pod to look at, the process exits.
	Superseded bool
}

// CollectPresence deletes the presence Lease of a process that P records as dead.
type CollectPresence struct{ Identity Identity }

// Warm loads all scopes of a shard, and keeps them in step with the directory. Ends with Warmed.
type Warm struct {
	Shard Shard
	Seq   int
}

// Drop drops all scopes of a shard and what hangs on them. At once.
type Drop struct{ Shard Shard }

// Contend starts contending for a shard's Lease. Ends with ClaimChanged.
type Contend struct{ Shard Shard }

// Release gives a claim back, or ends contending; the edge tries until another may hold the Lease.
// Ends with ClaimChanged (Released).
type Release struct{ Shard Shard }

// Admit admits work of a shard under an epoch. At once.
type Admit struct {
	Shard Shard
	Epoch claim.Epoch
	Cause Cause
}

// Replay delivers all objects of a shard to the controllers once more (I5).
type Replay struct{ Shard Shard }

// StopAdmitting refuses new work and new calls of a shard; what is in flight goes on. At once.
type StopAdmitting struct {
	Shard Shard
	Epoch claim.Epoch
	Cause Cause
}

// Drain refuses new calls of a shard at once, and waits for those that are in flight, up to the
// drain's bound. Ends with Drained.
type Drain struct {
	Shard Shard
	Seq   int
}

// CancelCalls cancels the contexts of all calls of a shard that are in flight. At once.
type CancelCalls struct{ Shard Shard }

// Revoke cancels what is in flight and forgets that the shard is held: its keys are dropped. At once.
type Revoke struct{ Shard Shard }

// Wake asks for a Tick at this time, and makes earlier requests void.
type Wake struct{ At time.Time }

// Refuse ends the process with an error: its settings are not the installation's.
type Refuse struct{ Err error }

// Finish says that a stop is complete.
type Finish struct{}

func (WritePlacement) action()  {}
func (ReadPlacement) action()   {}
func (Publish) action()         {}
func (VerifyExpiry) action()    {}
func (Relist) action()          {}
func (Rejoin) action()          {}
func (CollectPresence) action() {}
func (Warm) action()            {}
func (Drop) action()            {}
func (Contend) action()         {}
func (Release) action()         {}
func (Admit) action()           {}
func (Replay) action()          {}
func (StopAdmitting) action()   {}
func (Drain) action()           {}
func (CancelCalls) action()     {}
func (Revoke) action()          {}
func (Wake) action()            {}
func (Refuse) action()          {}
func (Finish) action()          {}
