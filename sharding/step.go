package sharding

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"example.com/redis-operator/sharding/membership"
	"example.com/redis-operator/sharding/placement"
)

// MachineConfig is what a machine is made for. All fields are required.
type MachineConfig struct {
	Member   Member
	Settings Settings
	placement.Timings
	// HandoverBound is how long a stopping process waits for winners to be warm, DrainBound how
	// long the edge lets one drain take.
	HandoverBound, DrainBound time.Duration
	// FoldEvery is the shortest time between two changes of the weights in P.
	FoldEvery time.Duration
}

// Machine decides for one process what it does about placement, membership and its shards. It is
// pure: it reads no clock and has no effect but the actions that Step returns, in an order that
// depends on its events alone, so that the product and a simulation run the same decisions. It is
// not safe for concurrent use.
type Machine struct {
	config MachineConfig
	// self is the identity under which the process acts; empty before it has joined.
	self       Identity
	registered bool // P has named self
	rejoining  bool // a Rejoin is on its way
	startedAt  time.Time
	stopAt     time.Time // when Stopping came; zero before
	handOverBy time.Time // since self is not wanted by P any more; zero while it is
	departed   bool      // P says that self has ended
	finished   bool
	ready      bool

	p           *placement.Placement // the last P that was read; nil if none ever was
	absentSince time.Time            // since when P is missing or unreadable; zero while it is there
	unreadable  string               // the version at which P cannot be read; empty if it can, or is missing
	otherFormat bool                 // what cannot be read is another release's
	// placementNews counts what was learnt about the stored P; newsAtWrite is that number when the
	// present write began.
	placementNews, newsAtWrite int
	acting                     []Identity // by shard, from p
	dirty                      bool       // something that P is computed from has changed
	writing                    bool
	writeAgainAt               time.Time

	costs        map[Shard]placement.Cost // of the shards that are held, as published
	weightsSince time.Time                // since when P's weights are what they are
	folding      bool                     // P's weights are to be computed anew
	foldTriedAt  time.Time

	expected        []Member
	expectedVersion string
	expectedKnown   bool
	directorySynced bool
	leasesEnsured   bool

	observer   *membership.Observer
	presences  map[Identity]PresenceSeen
	verifying  map[Identity]time.Time
	deaths     map[Identity]string // observed and verified, with the version of the presence that was timed
	terminated map[string][]string // termination messages by Pod UID
	collected  map[Identity]bool

	newerSince    time.Time // since when others have seen a newer P; zero if they have not
	relistedAt    time.Time
	published     Publish
	announceBy    time.Time // until when shards that are warm wait for others; zero while none waits
	claimsLagging bool

	shards  []shardState
	actions []Action
	wake    time.Time
}

// NewMachine returns the machine of a process that has just started.
func NewMachine(config MachineConfig, now time.Time) *Machine {
	breakAfter := membership.BreakAfter(config.LeaseDuration, config.RetryPeriod)
	return &Machine{
		config:     config,
		startedAt:  now,
		acting:     make([]Identity, config.Settings.Shards),
		observer:   membership.NewObserver(config.LeaseDuration, breakAfter),
		presences:  map[Identity]PresenceSeen{},
		verifying:  map[Identity]time.Time{},
		deaths:     map[Identity]string{},
		terminated: map[string][]string{},
		collected:  map[Identity]bool{},
		shards:     make([]shardState, config.Settings.Shards),
	}
}

// Step takes one event and returns what is to be done about it. now must not go back.
func (m *Machine) Step(event Event, now time.Time) []Action {
	m.actions, m.wake = nil, time.Time{}
	if m.finished {
		return nil
	}
	event.apply(m, now)
	m.watchOthers(now)
	m.considerFolding(now)
	m.concludePlacement(now)
	m.concludeLife(now)
	for shard := range m.shards {
		m.advance(Shard(shard), now)
	}
	m.concludePresence(now)
	m.concludeStop(now)
	m.noteReady(now)
	if !m.wake.IsZero() {
		m.do(Wake{At: m.wake})
	}
	return m.actions
}

func (m *Machine) do(actions ...Action) { m.actions = append(m.actions, actions...) }

// wakeAt asks for a tick at the earliest of the times it is called with; a time that has passed
// asks for nothing, since its conclusions are drawn already.
func (m *Machine) wakeAt(at, now time.Time) {
	if at.After(now) && (m.wake.IsZero() || at.Before(m.wake)) {
		m.wake = at
	}
}

// watchOthers times the presence of all recorded processes, and the own watches.
func (m *Machine) watchOthers(now time.Time) {
	m.wakeAt(now.Add(m.config.RetryPeriod/2), now)
	if m.observer.Stalled(now) && now.Sub(m.relistedAt) > m.config.RetryPeriod {
		m.relistedAt = now
		m.do(Relist{})
	}
	if !m.newerSince.IsZero() && now.Sub(m.newerSince) > m.config.RetryPeriod/2 {
		m.newerSince = now
		m.do(ReadPlacement{})
	}
	if m.p == nil {
		return
	}
	for _, process := range m.p.Processes {
		if process.Identity == m.self || process.State == placement.Dead {
			continue
		}
		m.watchOne(process.Identity, now)
	}
	m.collectOrphans(now)
}

// collectOrphans has those presence Leases deleted that have run out without their process ever
// having got into P, or that were there again after their process was recorded as dead.
func (m *Machine) collectOrphans(now time.Time) {
	for _, identity := range m.observer.Identities() {
		_, present := m.presences[identity]
		process, known := m.p.Process(identity)
		if !present || known && process.State != placement.Dead || m.collected[identity] {
			continue
		}
		if _, expired := m.observer.Expired(identity, now); expired {
			m.collected[identity] = true
			m.do(CollectPresence{Identity: identity})
		}
	}
}

func (m *Machine) watchOne(identity Identity, now time.Time) {
	version, expired := m.observer.Expired(identity, now)
	if at, ok := m.observer.ExpiresAt(identity); ok {
		m.wakeAt(at, now)
	}
	timed, dead := m.deaths[identity]
	if dead && (!expired || version != timed) {
		// Seen again, or not timed without a break: what was proved holds no longer.
		delete(m.deaths, identity)
		dead = false
	}
	asked, verifying := m.verifying[identity]
	if !expired || dead || verifying && now.Sub(asked) < m.config.LeaseDuration {
		return
	}
	m.verifying[identity] = now
	m.do(VerifyExpiry{Identity: identity, Version: version})
}

// noteNewerPlacement notes that another process has seen a P which this one has not: if that lasts,
// the own watch has missed it.
func (m *Machine) noteNewerPlacement(version string, now time.Time) {
	if m.newerSince.IsZero() && m.p != nil && isOlder(m.p.Version, version) {
		m.newerSince = now
	}
}

// concludeLife follows what P says of the own identity: recorded dead, or superseded by a newer
// process of the same member, the process hands over what it holds and joins anew.
func (m *Machine) concludeLife(now time.Time) {
	if m.self == "" || m.p == nil {
		return
	}
	process, known := m.p.Process(m.self)
	m.registered = m.registered || known
	if !m.stopAt.IsZero() {
		m.departed = m.registered && (!known || process.State == placement.Dead)
		return
	}
	superseded := m.isSuperseded()
	if !m.registered || known && process.State != placement.Dead && !superseded {
		m.handOverBy = time.Time{}
		return
	}
	if m.handOverBy.IsZero() {
		m.handOverBy = now.Add(m.config.HandoverBound)
	}
	m.wakeAt(m.handOverBy, now)
	if !m.rejoining && !m.holdsAny() {
		m.rejoining = true
		m.do(Rejoin{Superseded: superseded})
	}
}

// isSuperseded tells whether a newer process serves under the own member.
func (m *Machine) isSuperseded() bool {
	live, ok := m.p.Live(m.config.Member)
	if !ok || live == m.self {
		return false
	}
	mine, mineKnown := m.p.Process(m.self)
	other, _ := m.p.Process(live)
	return mineKnown && other.Joined > mine.Joined
}

// isForced tells whether shards are given up although nobody is warm for them.
func (m *Machine) isForced(now time.Time) bool {
	if !m.stopAt.IsZero() {
		return !m.othersLive() || !now.Before(m.stopAt.Add(m.config.HandoverBound))
	}
	return !m.handOverBy.IsZero() && !now.Before(m.handOverBy)
}

// othersLive tells whether anybody else is recorded as serving.
func (m *Machine) othersLive() bool {
	return m.p != nil && slices.ContainsFunc(m.p.Processes, func(process placement.Process) bool {
		return process.State == placement.Serving && process.Identity != m.self
	})
}

func (m *Machine) holdsAny() bool {
	return slices.ContainsFunc(m.shards, func(s shardState) bool { return s.claim != claimNone })
}

// concludeStop ends a stop once every shard is given back and P says that the process has ended,
// or when no more time is left for either.
func (m *Machine) concludeStop(now time.Time) {
	if m.stopAt.IsZero() {
		return
	}
	bound := m.stopAt.Add(m.config.HandoverBound)
	last := bound.Add(m.config.DrainBound)
	m.wakeAt(bound, now)
	m.wakeAt(last, now)
	recorded := m.departed || !m.registered && !m.writing
	if !m.holdsAny() && recorded || !now.Before(last) {
		m.finished = true
		m.do(Finish{})
	}
}

// concludePresence publishes the version of P that was seen, the shards for which this process is
// warm and waits, and what those cost that it holds. Only what a loser may wait for is urgent.
func (m *Machine) concludePresence(now time.Time) {
	if m.self == "" || m.p == nil {
		return
	}
	m.announce(now)
	next := Publish{Placement: m.p.Version, Costs: m.costs}
	for shard := range m.shards {
		if m.shards[shard].announced && m.wants(Shard(shard)) && m.shards[shard].claim == claimContending {
			next.Warmed = append(next.Warmed, Shard(shard))
		}
	}
	if next.Placement == m.published.Placement && slices.Equal(next.Warmed, m.published.Warmed) &&
		maps.Equal(next.Costs, m.published.Costs) {
		return
	}
	known := m.published.Warmed
	if next.Placement != m.published.Placement {
		known = nil
	}
	m.published = next
	next.Urgent = slices.ContainsFunc(next.Warmed, func(shard Shard) bool { return !slices.Contains(known, shard) })
	m.do(next)
}

// announce decides which shards may be handed over to this process: those that are warm once no other is
// being loaded, or after announceBound. To load scopes is what costs the API server most, and requests for
// Leases take long beside it.
func (m *Machine) announce(now time.Time) {
	loading, waiting := false, false
	for shard := range m.shards {
		s := &m.shards[shard]
		s.announced = s.announced && s.scopes == scopesWarm
		if !m.wants(Shard(shard)) || s.claim != claimContending {
			continue
		}
		loading = loading || s.scopes == scopesWarming
		waiting = waiting || s.scopes == scopesWarm && !s.announced
	}
	switch {
	case !waiting:
		m.announceBy = time.Time{}
		return
	case m.announceBy.IsZero():
		m.announceBy = now.Add(announceBound)
	}
	if loading && now.Before(m.announceBy) {
		m.wakeAt(m.announceBy, now)
		return
	}
	m.announceBy = time.Time{}
	for shard := range m.shards {
		m.shards[shard].announced = m.shards[shard].scopes == scopesWarm
	}
}

// isWarm tells whether a process has published that it is warm for a shard, at the version of P
// that this process acts on.
func (m *Machine) isWarm(identity Identity, shard Shard) bool {
	presence, ok := m.presences[identity]
	return ok && m.p != nil && presence.Placement == m.p.Version && slices.Contains(presence.Warmed, shard)
}

// Ready tells whether the process has once admitted every shard whose home it is, or has run for
// a minute. It never goes back.
func (m *Machine) Ready() bool { return m.ready }

func (m *Machine) noteReady(now time.Time) {
	if m.ready {
		return
	}
	m.wakeAt(m.startedAt.Add(readyBound), now)
	m.ready = !now.Before(m.startedAt.Add(readyBound)) || m.servesHome()
}

func (m *Machine) servesHome() bool {
	if m.self == "" || m.p == nil {
		return false
	}
	process, ok := m.p.Process(m.self)
	if !ok || process.State != placement.Serving {
		return false
	}
	return !slices.ContainsFunc(m.p.HomesOf(m.config.Member), func(shard Shard) bool {
		return m.shards[shard].admission != admitting
	})
}

// isOlder compares resourceVersions; an empty or malformed one is not older than anything.
func isOlder(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
