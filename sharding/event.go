package sharding

import (
	"slices"
	"time"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/placement"
)

// Event is something that the edge has seen or finished; Machine.Step takes one at a time. Slices
// and maps in an event must not change afterwards.
type Event interface {
	// apply notes the fact. Conclusions are drawn in one place, after it.
	apply(m *Machine, now time.Time)
}

// Tick says that time has passed.
type Tick struct{}

// Joined says that the process has a new identity, written to its termination log, and a presence
// Lease under it.
type Joined struct{ Identity Identity }

// PlacementSeen shows P as the watch, a read or an own write returned it; nil says that there is
// none.
type PlacementSeen struct{ Placement *placement.Placement }

// PlacementUnreadable says that P cannot be read as it is stored at this version. Err is what the
// store answered: a *placement.SettingsError if P was made with other settings.
type PlacementUnreadable struct {
	Version string
	Err     error
}

// PlacementWritten says that the write asked for by WritePlacement has ended. What is stored then
// is told by a PlacementSeen or PlacementUnreadable before it, where that is known.
type PlacementWritten struct{ Err error }

// ExpectedSeen shows the expected members and the resourceVersion of the StatefulSet that names
// them; no version for a fixed list.
type ExpectedSeen struct {
	Members []Member
	Version string
}

// LeasesEnsured says that the shard Leases are there, and record no other settings.
type LeasesEnsured struct{}

// DirectorySynced says that the directory knows all namespaces with root objects.
type DirectorySynced struct{}

// PresenceSeen shows another process's presence Lease or the own one.
type PresenceSeen struct {
	Identity  Identity
	Version   string // resourceVersion of the Lease; empty: it is gone
	Placement string // version of P that the process has seen
	Warmed    []Shard
	Costs     map[Shard]placement.Cost // of the shards that it holds
}

// PresenceRenewed says that an own renewal was written and answered with this version.
type PresenceRenewed struct{ Version string }

// ExpiryVerified is the answer to VerifyExpiry: whether the Lease still has the version timed.
type ExpiryVerified struct {
	Identity  Identity
	Version   string
	Unchanged bool
}

// Terminated shows the message of a terminated container in the kubelet's status of a Pod.
type Terminated struct {
	PodUID  string
	Message string
}

// ClaimChanged is an event of a claim.
type ClaimChanged struct {
	Shard  Shard
	Type   claim.EventType
	Epoch  claim.Epoch
	Reason claim.Reason // of Lost
	// Unclean says that the predecessor did not release: its last calls may still be on their way.
	Unclean bool
	// Vacated says, with Acquired, how the holder before was removed.
	Vacated claim.EmptyReason
	// Again says that nobody else had the Lease since this process lost it.
	Again bool
}

// HolderSeen shows who a shard's Lease names as its holder; empty for a free or missing Lease. Under
// each identity every shard is told of once, and again when its holder changes.
type HolderSeen struct {
	Shard  Shard
	Holder Identity
}

// ClaimsLagging says whether own renewals fail to come back on the watch of the shard Leases.
type ClaimsLagging struct{ Lagging bool }

// Warmed says that all scopes of a shard are loaded, but for those reported as stuck. It carries the
// number of the Warm that it answers.
type Warmed struct {
	Shard Shard
	Seq   int
}

// Drained says that no call of the shard is in flight any more, or, with Overran, that some still
// are after the drain's bound. It carries the number of the Drain that it answers.
type Drained struct {
	Shard   Shard
	Seq     int
	Overran bool
}

// Stopping says that the process is to stop.
type Stopping struct{}

func (Tick) apply(*Machine, time.Time) {}

func (e Joined) apply(m *Machine, _ time.Time) {
	m.self, m.registered, m.rejoining = e.Identity, false, false
	m.dirty = true
	for shard := range m.shards { // new claims, which have seen nothing yet
		m.shards[shard].holder, m.shards[shard].holderSeen = "", false
	}
}

func (e PlacementSeen) apply(m *Machine, now time.Time) { m.placementSeen(e.Placement, now) }

func (e PlacementUnreadable) apply(m *Machine, now time.Time) { m.placementUnreadable(e, now) }

// A write that has failed, or has lost against one that this process has not seen yet, is repeated
// after a pause; one that has lost against what was seen meanwhile is computed anew at once.
func (e PlacementWritten) apply(m *Machine, now time.Time) {
	m.writing = false
	m.dirty = true
	if e.Err != nil || m.placementNews == m.newsAtWrite {
		m.writeAgainAt = now.Add(m.config.RetryPeriod / 4)
	}
}

func (e ExpectedSeen) apply(m *Machine, _ time.Time) {
	if m.expectedKnown && isOlder(e.Version, m.expectedVersion) {
		return
	}
	m.expected, m.expectedVersion, m.expectedKnown = e.Members, e.Version, true
	m.dirty = true
}

func (LeasesEnsured) apply(m *Machine, _ time.Time) { m.leasesEnsured, m.dirty = true, true }

func (DirectorySynced) apply(m *Machine, _ time.Time) { m.directorySynced, m.dirty = true, true }

func (e PresenceSeen) apply(m *Machine, now time.Time) {
	if e.Identity == m.self {
		if e.Version != "" {
			m.observer.Echoed(e.Version, now)
		}
		return
	}
	m.observer.Seen(e.Identity, e.Version, now)
	if e.Version == "" {
		delete(m.presences, e.Identity)
	} else {
		m.presences[e.Identity] = e
		delete(m.collected, e.Identity) // not yet, or there again: a late renewal has created it
	}
	m.noteNewerPlacement(e.Placement, now)
}

func (e PresenceRenewed) apply(m *Machine, now time.Time) { m.observer.Acked(e.Version, now) }

func (e ExpiryVerified) apply(m *Machine, now time.Time) {
	delete(m.verifying, e.Identity)
	version, expired := m.observer.Expired(e.Identity, now)
	switch {
	case !e.Unchanged:
		m.observer.Again(e.Identity, now)
	case expired && version == e.Version:
		m.deaths[e.Identity] = e.Version
		m.dirty = true
	}
}

func (e Terminated) apply(m *Machine, _ time.Time) {
	if !slices.Contains(m.terminated[e.PodUID], e.Message) {
		m.terminated[e.PodUID] = append(m.terminated[e.PodUID], e.Message)
		m.dirty = true
	}
}

func (e HolderSeen) apply(m *Machine, _ time.Time) {
	s := &m.shards[e.Shard]
	s.holder, s.holderSeen = e.Holder, true
	if e.Holder != "" && e.Holder != m.self {
		s.handingSince = time.Time{}
	}
}

func (e ClaimsLagging) apply(m *Machine, _ time.Time) { m.claimsLagging = e.Lagging }

func (Stopping) apply(m *Machine, now time.Time) {
	if m.stopAt.IsZero() {
		m.stopAt, m.dirty = now, true
	}
}
