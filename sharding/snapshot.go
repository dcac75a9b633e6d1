package sharding

import (
	"example.com/redis-operator/sharding/placement"
)

// The states of a shard in one replica's view; see the diagram in doc.go.
const (
	stateIdle      = "idle"
	stateWarming   = "warming"
	stateWarm      = "warm"
	stateHeld      = "held"
	stateAdmitting = "admitting"
	stateStalled   = "stalled"
	stateDraining  = "draining"
	stateReleasing = "releasing"
)

// shardStates are those that are counted: all but idle.
var shardStates = []string{
	stateWarming, stateWarm, stateHeld, stateAdmitting, stateStalled, stateDraining, stateReleasing,
}

// Snapshot is one replica's view, for status pages, logs and tests.
type Snapshot struct {
	Identity  Identity
	State     placement.State     // of this process in P; empty before it has registered
	Placement placement.Placement // as last read; Version is empty before
	Shards    []ShardSnapshot     // all shards, by number; none before the replica has started
	Stuck     int                 // namespaces that do not sync
	Ready     bool
}

// ShardSnapshot is one shard in one replica's view.
type ShardSnapshot struct {
	Shard  Shard
	Home   Member   // who it belongs to
	Acting Member   // who is to act for it; empty if nobody is live
	Holder Identity // who holds its Lease, as far as this replica has seen
	Epoch  Epoch    // of this replica's claim; empty if it has none
	State  string   // idle, warming, warm, held, admitting, stalled, draining, releasing
	Scopes int      // namespaces that this replica caches of it
	// Unowned says that its Lease is free, or names nobody who is known to act: a process that P
	// records dead or does not record, or one whose Lease has run out as seen here.
	Unowned bool
}

// Admitted returns the shards that the replica admits work of.
func (s Snapshot) Admitted() []Shard {
	var shards []Shard
	for _, shard := range s.Shards {
		if shard.State == stateAdmitting {
			shards = append(shards, shard.Shard)
		}
	}
	return shards
}

// observe takes a snapshot of the machine.
func (c *coordinator) observe() *Snapshot {
	m := c.machine
	s := &Snapshot{Identity: m.self, Ready: m.Ready(), Shards: make([]ShardSnapshot, len(m.shards))}
	if m.p != nil {
		// A placement is never changed once it is in the machine.
		s.Placement = *m.p
		if process, ok := m.p.Process(m.self); ok {
			s.State = process.State
		}
	}
	alive := m.aliveInPlacement()
	scopes, stuck := c.scopes.Counts()
	s.Stuck = stuck
	for i := range m.shards {
		shard := &m.shards[i]
		home, _ := s.Placement.Home(Shard(i))
		s.Shards[i] = ShardSnapshot{
			Shard: Shard(i), Home: home, Acting: m.acting[i].Member(), Holder: shard.holder,
			Epoch: shard.epoch, State: shard.describe(), Scopes: scopes[Shard(i)],
			Unowned: shard.holderSeen && (!alive[shard.holder] || c.hasRunOut(Shard(i))),
		}
	}
	return s
}

// hasRunOut tells whether another's claim on a shard is seen to be over. While the own watch lags, what
// it does not show says nothing.
func (c *coordinator) hasRunOut(shard Shard) bool {
	return c.claims != nil && !c.lagging && c.claims.Claim(shard).HolderExpired()
}

// aliveInPlacement are the processes that P does not record as dead. Before P was read, all holders
// count as alive.
func (m *Machine) aliveInPlacement() map[Identity]bool {
	alive := map[Identity]bool{}
	if m.p == nil {
		for i := range m.shards {
			alive[m.shards[i].holder] = m.shards[i].holder != ""
		}
		return alive
	}
	for _, process := range m.p.Processes {
		alive[process.Identity] = process.State != placement.Dead
	}
	return alive
}

func (s *shardState) describe() string {
	switch {
	case s.claim == claimReleasing && s.epoch != "":
		return stateReleasing
	case s.claim == claimHeld && s.admission == draining:
		return stateDraining
	case s.claim == claimHeld && s.admission == admitting:
		return stateAdmitting
	case s.claim == claimHeld && s.suspended:
		return stateStalled
	case s.claim == claimHeld:
		return stateHeld
	case s.scopes == scopesWarm:
		return stateWarm
	case s.scopes == scopesWarming:
		return stateWarming
	}
	return stateIdle
}
