package sharding

import (
	"errors"
	"time"

	"example.com/redis-operator/sharding/membership"
	"example.com/redis-operator/sharding/placement"
)

// placementSeen takes over a P that is not older than the one known. A missing P changes nothing
// in what the process does: it goes on with its last copy, from which P is created again. So does one
// that cannot be read.
func (m *Machine) placementSeen(p *placement.Placement, now time.Time) {
	if p == nil {
		if m.absentSince.IsZero() || m.unreadable != "" {
			m.lost("", false, now)
		}
		return
	}
	if m.p != nil && isOlder(p.Version, m.p.Version) {
		return
	}
	m.newerSince = time.Time{}
	if m.unreadable == "" || isOlder(m.unreadable, p.Version) {
		m.absentSince, m.unreadable, m.otherFormat = time.Time{}, "", false
	}
	if m.p != nil && m.p.Version == p.Version {
		return
	}
	m.noteWeights(p, now)
	m.p, m.dirty = p, true
	m.placementNews++
	for shard := range m.acting {
		m.acting[shard], _ = p.ActingIdentity(Shard(shard))
	}
	m.collectDead()
}

// placementUnreadable notes that what is stored is not a placement. The process goes on with its last
// copy, which is written over it. Other settings end the process: it must not act under its own.
func (m *Machine) placementUnreadable(e PlacementUnreadable, now time.Time) {
	var settings *placement.SettingsError
	if errors.As(e.Err, &settings) {
		m.do(Refuse{Err: e.Err})
		return
	}
	if m.p != nil && !isOlder(m.p.Version, e.Version) || e.Version == m.unreadable || isOlder(e.Version, m.unreadable) {
		return
	}
	m.lost(e.Version, errors.Is(e.Err, placement.ErrOtherFormat), now)
}

// lost notes that P is missing (no version) or cannot be read.
func (m *Machine) lost(version string, otherFormat bool, now time.Time) {
	if m.absentSince.IsZero() {
		m.absentSince = now
	}
	m.unreadable, m.otherFormat, m.dirty = version, otherFormat, true
	m.placementNews++
}

// collectDead has the presence Leases of dead processes deleted, and forgets those that P does not
// name any more.
func (m *Machine) collectDead() {
	for _, process := range m.p.Processes {
		if process.State == placement.Dead && process.Identity != m.self && !m.collected[process.Identity] {
			m.collected[process.Identity] = true
			m.do(CollectPresence{Identity: process.Identity})
		}
	}
	for _, identity := range m.observer.Identities() {
		if process, ok := m.p.Process(identity); ok && process.State != placement.Dead {
			continue
		}
		if _, present := m.presences[identity]; !present {
			m.observer.Forget(identity)
		}
	}
	for identity := range m.deaths {
		if _, ok := m.p.Process(identity); !ok {
			delete(m.deaths, identity)
		}
	}
}

// concludePlacement writes P where it differs from what this process computes.
func (m *Machine) concludePlacement(now time.Time) {
	if m.writing || m.self == "" || !m.dirty {
		return
	}
	if now.Before(m.writeAgainAt) {
		m.wakeAt(m.writeAgainAt, now)
		return
	}
	base, ok := m.placementBase(now)
	if !ok {
		return
	}
	m.dirty = false
	next := m.computePlacement(base, now)
	if m.absentSince.IsZero() && next.Equal(base) {
		return
	}
	m.writing, m.newsAtWrite = true, m.placementNews
	m.do(WritePlacement{Placement: next})
}

// placementBase returns the P to start from: the one that is stored, the last copy where that was
// deleted or cannot be read, or a new one where none was ever read and a Lease duration has passed in
// which those who had read one could have written it again. What another release has written is left
// alone: two releases would overwrite each other's for ever.
func (m *Machine) placementBase(now time.Time) (placement.Placement, bool) {
	if m.p == nil && m.absentSince.IsZero() || !m.expectedKnown || m.otherFormat {
		return placement.Placement{}, false
	}
	if m.p == nil {
		from := m.absentSince.Add(m.config.LeaseDuration)
		if now.Before(from) || !m.observer.Timing(now) || !m.leasesEnsured {
			m.wakeAt(from, now)
			return placement.Placement{}, false
		}
		base := placement.New(m.config.Settings, m.config.Timings)
		base.Version = m.unreadable
		return base, true
	}
	base := *m.p
	if !m.absentSince.IsZero() {
		base.Version = m.unreadable
	}
	return base, true
}

// computePlacement returns what this process would have P say.
func (m *Machine) computePlacement(base placement.Placement, now time.Time) placement.Placement {
	next := base
	apply := func(changed placement.Placement, err error) {
		if err == nil {
			changed.Version = next.Version
			next = changed
		}
	}
	// A view of the StatefulSet that is older than P's changes nothing (StaleError).
	apply(next.Expect(m.expected, m.expectedVersion))
	for _, process := range base.Processes {
		if cause, dead := m.deathOf(process); dead {
			apply(next.MarkDead(process.Identity, cause))
		}
	}
	next = m.foldWeights(m.recordSelf(next), now)
	if !next.Equal(base) {
		version := next.Version
		next = next.Prune(m.namedByLeases())
		next.Version = version
	}
	return next
}

// deathOf tells whether this process knows of a death that P does not record yet.
func (m *Machine) deathOf(process placement.Process) (placement.DeathCause, bool) {
	if process.Identity == m.self {
		return "", false
	}
	for _, message := range m.terminated[process.Identity.PodUID()] {
		if process.Cause != placement.Confirmed &&
			membership.ConfirmsDeath(process.Identity.PodUID(), message, process.Identity) {
			return placement.Confirmed, true
		}
	}
	_, expired := m.deaths[process.Identity]
	return placement.Expired, expired && process.State != placement.Dead
}

// recordSelf enters the own state. A process that P has named before and does not name any more, or
// names dead, enters nothing: it joins anew first.
func (m *Machine) recordSelf(next placement.Placement) placement.Placement {
	process, known := next.Process(m.self)
	stopping := !m.stopAt.IsZero()
	if known && process.State == placement.Dead || !known && (m.registered || stopping) {
		return next
	}
	if stopping && !m.holdsAny() {
		// Nothing is held and nothing will be: the entry may go like that of any dead process.
		if dead, err := next.MarkDead(m.self, placement.Confirmed); err == nil {
			dead.Version = next.Version
			return dead
		}
	}
	return m.recordStates(next, process.State, m.ownStates(known))
}

// recordStates enters the own states that follow the one in P, as far as P takes them.
func (m *Machine) recordStates(next placement.Placement, present placement.State, states []placement.State) placement.Placement {
	for _, state := range states {
		if state == present {
			continue
		}
		recorded, err := next.Record(m.self, state)
		if _, isBackwards := errors.AsType[*placement.StateError](err); isBackwards {
			continue
		}
		if err != nil {
			return next
		}
		recorded.Version = next.Version
		next = recorded
	}
	return next
}

// ownStates are the states to go through, in order.
func (m *Machine) ownStates(known bool) []placement.State {
	if !m.stopAt.IsZero() {
		return []placement.State{placement.Leaving}
	}
	var states []placement.State
	if !known {
		states = append(states, placement.Joining)
	}
	if m.directorySynced {
		states = append(states, placement.Serving)
	}
	return states
}

// namedByLeases tells which identities the shard Leases name, and whether all of them were seen.
func (m *Machine) namedByLeases() (isNamed func(Identity) bool, complete bool) {
	holders := make(map[Identity]bool, len(m.shards))
	complete = true
	for shard := range m.shards {
		holders[m.shards[shard].holder] = true
		complete = complete && m.shards[shard].holderSeen
	}
	return func(identity Identity) bool { return holders[identity] }, complete
}
