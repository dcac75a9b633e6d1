package claim

import (
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"example.com/redis-operator/sharding/placement"
)

// Epoch names one tenure of a shard's Lease: the resourceVersion of the write that acquired it. Later
// tenures have later epochs, also over a deletion of the Lease.
type Epoch string

// After says whether e began later than other. False if either is not a resourceVersion.
func (e Epoch) After(other Epoch) bool {
	c, err := resourceversion.CompareResourceVersion(string(e), string(other))
	return err == nil && c > 0
}

// EventType says what happened to a claim.
type EventType string

// What can happen to a claim, and what its user has to do about it.
const (
	// Acquired: the Lease is held under Event.Epoch. Check that placement still names this process,
	// then admit work.
	Acquired EventType = "Acquired"
	// Stalled: no renewal came through for RenewDeadline. Stop admitting.
	Stalled EventType = "Stalled"
	// Expiring: the deadline is CancelLead away. Cancel contexts and close connections.
	Expiring EventType = "Expiring"
	// Recovered: a renewal came through before the deadline, under the same epoch. Admit again.
	Recovered EventType = "Recovered"
	// Lost: the claim is over; another process may hold the Lease. The claim goes on contending unless
	// Reason is ReasonAbandoned.
	Lost EventType = "Lost"
	// Released: the Lease was emptied by Release.
	Released EventType = "Released"
	// Refused: the Lease records other settings; Event.Err is a *SettingsError. The claim looks at the
	// Lease again, but takes it only once the settings agree.
	Refused EventType = "Refused"
)

// Reason says why a claim was lost.
type Reason string

// Why a claim was lost.
const (
	ReasonDeadline  Reason = "Deadline"  // no renewal in time
	ReasonTaken     Reason = "Taken"     // the stored holder is another process
	ReasonEmptied   Reason = "Emptied"   // the stored holder was removed
	ReasonAbandoned Reason = "Abandoned" // Stop, or the end of Start's context
)

// Event is one thing that happened to a claim.
type Event struct {
	Shard placement.Shard
	Type  EventType
	// Epoch is the tenure the event belongs to; empty for Refused.
	Epoch Epoch
	// Unclean is set for Acquired where the Lease was not released before: calls of an earlier holder
	// may still be on their way, so wait a moment before the first write. A Lease that this process
	// itself was still stored as holder of, and one that was never held, are clean.
	Unclean bool
	// Vacated is set for Acquired: what the Lease said of how its last holder was removed, "Released"
	// or an EmptyReason. Empty if no holder was removed.
	Vacated EmptyReason
	// Again is set for Acquired where nobody else had the Lease since this claim lost it.
	Again bool
	// Reason is set for Lost.
	Reason Reason
	// Err is what went wrong last: with Stalled, Expiring, Lost and Refused; may be nil.
	Err error
	// At is when it was noticed, on the local clock.
	At time.Time
	// Deadline gives the present deadline of Epoch, and the zero time once that epoch is over. It is
	// cheap, and what the guard compares the clock with at each call. Nil for Refused.
	Deadline func() time.Time
}
