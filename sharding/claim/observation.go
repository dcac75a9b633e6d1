package claim

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"example.com/redis-operator/sharding/placement"
)

// observation is the pure part of looking at a Lease: what was last seen of it, and for how long it
// has been so. Not safe for concurrent use.
type observation struct {
	known bool
	// lease is what was seen; nil if it was missing. It is never changed.
	lease *coordinationv1.Lease
	// version is the resourceVersion of what was seen.
	version string
	// since is when this process first saw it so.
	since time.Time
	// duration is the longest that a holder may rely on what was seen: our own LeaseDuration or the one
	// that the Lease states, whichever is longer. Of a missing or unsettled Lease it is at least what it
	// last was.
	duration time.Duration
}

// see takes in a state of the Lease, nil for missing as of version. It answers whether that was news:
// what is not newer than what is known is ignored, since a watch may lag behind own reads.
func (o *observation) see(lease *coordinationv1.Lease, version string, now time.Time, atLeast time.Duration) bool {
	if o.known {
		if lease == nil && o.lease == nil {
			return false // still missing, since when it was first seen missing
		}
		if !isNewer(version, o.version) {
			return false
		}
	}
	if lease != nil {
		lease = lease.DeepCopy()
		if !isUnsettled(lease) {
			o.duration = atLeast
		}
		if s := lease.Spec.LeaseDurationSeconds; s != nil {
			o.duration = max(o.duration, time.Duration(*s)*time.Second)
		}
	}
	o.duration = max(o.duration, atLeast)
	o.known, o.lease, o.version, o.since = true, lease, version, now
	return true
}

// isNewer compares resourceVersions. What cannot be compared counts as newer unless it is equal.
func isNewer(version, than string) bool {
	c, err := resourceversion.CompareResourceVersion(version, than)
	if err != nil {
		return version != than
	}
	return c > 0
}

// restart times what is known anew.
func (o *observation) restart(now time.Time) {
	if o.known {
		o.since = now
	}
}

// ripe is from when on what was seen has lasted so long that nobody relies on it any more.
func (o *observation) ripe() time.Time { return o.since.Add(o.duration) }

// intent is what a contending claim should do next.
type intent int

const (
	intentWait    intent = iota // until the observation changes, or move.until
	intentRead                  // nothing is known of the Lease
	intentCreate                // it is missing: create it without a holder
	intentAcquire               // let the elector have it
	intentEmpty                 // remove the holder, for move.why
)

// move is an intent with what it needs. Until is zero for "until something changes".
type move struct {
	intent intent
	until  time.Time
	why    EmptyReason
	lease  *coordinationv1.Lease // what was judged, for intentEmpty
}

// decide says what a contending claim of self does at now. Live is whether it holds the Lease and its
// deadline has not passed.
func (o *observation) decide(
	now time.Time, self placement.Identity, live bool, isDead func(placement.Identity) bool,
) move {
	holder := HolderOf(o.lease)
	switch {
	case !o.known:
		return move{intent: intentRead}
	case o.lease == nil:
		return move{intent: intentCreate}
	case isUnsettled(o.lease) && !live && now.Before(o.ripe()):
		return move{until: o.ripe()}
	case holder == "" || holder == self:
		return move{intent: intentAcquire}
	case isOwnPod(self, holder):
		return move{intent: intentEmpty, why: EmptyOwnPod, lease: o.lease}
	case isDead(holder):
		return move{intent: intentEmpty, why: EmptyConfirmed, lease: o.lease}
	case !now.Before(o.ripe()):
		return move{intent: intentEmpty, why: EmptyExpired, lease: o.lease}
	default:
		return move{until: o.ripe()}
	}
}
