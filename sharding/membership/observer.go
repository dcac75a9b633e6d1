package membership

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"example.com/redis-operator/sharding/placement"
)

// Observer times the presence Leases of other processes against the monotonic clock, from when each
// was seen to change. It is pure: every method takes the present time.
type Observer struct {
	leaseDuration time.Duration
	breakAfter    time.Duration
	seen          map[placement.Identity]observation
	order         []placement.Identity // the keys of seen, sorted; replaced when they change
	echo          echo
}

// observation is what was last seen of one presence, and since when it has not changed.
type observation struct {
	version string // empty: the Lease is absent
	since   time.Time
}

// echo follows the observer's own renewals from the answer to a write to their return on the watch.
type echo struct {
	at      time.Time // when one came back last; zero before the first
	acked   string    // version of the last write that succeeded
	shown   string    // version that the watch showed last
	missing time.Time // since when acked writes are missing on the watch; zero if none is
}

// NewObserver returns an observer that has seen nothing. breakAfter is the pause between two own
// renewals on the watch from which on its observations count as interrupted; it must lie between
// the retry period and the Lease duration.
func NewObserver(leaseDuration, breakAfter time.Duration) *Observer {
	return &Observer{
		leaseDuration: leaseDuration,
		breakAfter:    breakAfter,
		seen:          map[placement.Identity]observation{},
	}
}

// BreakAfter returns the bound for own renewals that fits these Lease timings.
func BreakAfter(leaseDuration, retryPeriod time.Duration) time.Duration {
	return max(2*retryPeriod, (leaseDuration-retryPeriod)/2)
}

// Seen notes that the watch showed this version of a process's presence Lease; an empty version
// says that it is absent. A version that is known already changes nothing.
func (o *Observer) Seen(identity placement.Identity, version string, now time.Time) {
	if known, ok := o.seen[identity]; ok && known.version == version {
		return
	}
	// A Lease that is deleted counts as unchanged from when it was first seen absent.
	o.seen[identity] = observation{version: version, since: now}
	if i, known := slices.BinarySearch(o.order, identity); !known {
		o.order = slices.Insert(slices.Clone(o.order), i, identity)
	}
}

// Acked notes that an own renewal was written and answered with this version.
func (o *Observer) Acked(version string, now time.Time) {
	o.echo.acked = version
	if !isNewer(version, o.echo.shown) {
		o.echo.missing = time.Time{}
	} else if o.echo.missing.IsZero() {
		o.echo.missing = now
	}
}

// Echoed notes that the watch showed an own renewal. After a break every observation starts anew.
func (o *Observer) Echoed(version string, now time.Time) {
	if version == o.echo.shown {
		return
	}
	if o.echo.at.IsZero() || now.Sub(o.echo.at) > o.breakAfter {
		o.Restart(now)
	}
	o.echo.at, o.echo.shown = now, version
	o.echo.missing = time.Time{}
	if isNewer(o.echo.acked, version) {
		o.echo.missing = now
	}
}

// isNewer compares resourceVersions; a version is newer than none, and none is newer than nothing.
func isNewer(version, than string) bool {
	if version == "" || than == "" {
		return version != ""
	}
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}

// Again starts the observation of one process anew: a read has shown that it is not what was timed,
// or that nothing can be read.
func (o *Observer) Again(identity placement.Identity, now time.Time) {
	if observed, ok := o.seen[identity]; ok {
		observed.since = now
		o.seen[identity] = observed
	}
}

// Restart starts every observation anew.
func (o *Observer) Restart(now time.Time) {
	for identity, observed := range o.seen {
		observed.since = now
		o.seen[identity] = observed
	}
}

// Timing tells whether own renewals come back, so that the silence of others means something.
func (o *Observer) Timing(now time.Time) bool {
	return !o.echo.at.IsZero() && now.Sub(o.echo.at) <= o.breakAfter
}

// Stalled tells whether writes pass while the watch does not show them.
func (o *Observer) Stalled(now time.Time) bool {
	return !o.echo.missing.IsZero() && now.Sub(o.echo.missing) > o.breakAfter
}

// Expired tells whether the process's presence has not changed for a Lease duration, and the
// version that was timed. An identity that was never seen begins to be timed as absent.
func (o *Observer) Expired(identity placement.Identity, now time.Time) (string, bool) {
	observed, ok := o.seen[identity]
	if !ok {
		o.Seen(identity, "", now)
		return "", false
	}
	return observed.version, o.Timing(now) && now.Sub(observed.since) >= o.leaseDuration
}

// ExpiresAt returns when the process would be expired if nothing more were seen of it.
func (o *Observer) ExpiresAt(identity placement.Identity) (time.Time, bool) {
	observed, ok := o.seen[identity]
	return observed.since.Add(o.leaseDuration), ok
}

// Forget drops what is known of a process.
func (o *Observer) Forget(identity placement.Identity) {
	delete(o.seen, identity)
	if i, known := slices.BinarySearch(o.order, identity); known {
		o.order = slices.Delete(slices.Clone(o.order), i, i+1)
	}
}

// Rejoined forgets the own renewals: those of a new identity begin.
func (o *Observer) Rejoined() { o.echo = echo{at: o.echo.at} }

// Identities returns all observed processes in order. The slice is not to be changed.
func (o *Observer) Identities() []placement.Identity { return o.order }
