// Package placement decides which member every shard belongs to, and keeps that decision in one
// published object, P.
//
// Place is pure: it computes the homes and the deputies of all shards from P itself, the expected
// members and the states that processes have recorded in P. It never looks at a clock, a cache, a
// Lease or the network, so that every replica that reads one version of P computes the same
// placement (I3), and so that a change of members moves no more shards than it must (I4). Failures
// and restarts move no home: they only name a deputy until the home is live again.
//
// The methods of Placement that change something return a new Placement and leave the receiver
// alone. Store reads and writes P as a ConfigMap, by compare-and-swap.
//
// The package does not watch P, does not decide when a process is dead, and knows nothing of
// claims. Values are safe for concurrent reading; a Store is safe for concurrent use.
package placement

import (
	"maps"
	"slices"
	"time"
)

// Shard is a fixed slice of the namespaces, from 0 to Settings.Shards-1.
type Shard int

// NoShard is what ShardOf answers for settings that it cannot compute with.
const NoShard Shard = -1

// Member is the name of a Pod of the operator's StatefulSet that is expected to work. A member is
// live while a process under its name is recorded as serving.
type Member string

// Timings are the Lease timings that all processes of an installation use. The zero value means
// that none are recorded.
type Timings struct {
	LeaseDuration time.Duration // how long a Lease holds without a renewal
	RenewDeadline time.Duration // how long a holder tries to renew before it stops admitting work
	RetryPeriod   time.Duration // pause between two tries
}

// Placement is P: the settings of the installation, what is known of its processes, and for every
// shard its home and, while that is not live, its deputy. The zero value is not a valid placement;
// New makes an empty one.
type Placement struct {
	Settings

	// Timings are the Lease timings that the installation was created with.
	Timings Timings
	// Version is the resourceVersion under which P was read or written. It is not serialised, and
	// Equal ignores it.
	Version string
	// StatefulSetVersion is the resourceVersion of the StatefulSet from which Expected was taken.
	StatefulSetVersion string
	// Expected are the members that should work, sorted by ordinal.
	Expected []Member
	// Processes are the identities that registered, sorted by member, then oldest first.
	Processes []Process
	// Homes gives each shard the member it belongs to, by shard number. It holds Settings.Shards
	// entries, all of them expected members, or all empty while no member is expected.
	Homes []Member
	// Deputies names, for a shard whose home is not live, the member that acts for it. An entry
	// whose member is not live either only remembers who acted last.
	Deputies map[Shard]Member
	// Weights is what the shards cost, folded from what processes publish; see Fold. A shard without
	// an entry weighs 1; without any entry shards are spread by their number.
	Weights map[Shard]int64
}

// New returns a placement without members or processes.
func New(settings Settings, timings Timings) Placement {
	return Placement{Settings: settings, Timings: timings, Homes: make([]Member, max(settings.Shards, 0))}
}

// Home returns the member that the shard belongs to; false if it has none.
func (p Placement) Home(shard Shard) (Member, bool) {
	if shard < 0 || int(shard) >= len(p.Homes) || p.Homes[shard] == "" {
		return "", false
	}
	return p.Homes[shard], true
}

// Acting returns the member that P names to act for the shard: its home if that is live, else its
// deputy if that is live; false if neither is.
func (p Placement) Acting(shard Shard) (Member, bool) {
	if home, ok := p.Home(shard); ok && p.isLive(home) {
		return home, true
	}
	if deputy, ok := p.Deputies[shard]; ok && p.isLive(deputy) {
		return deputy, true
	}
	return "", false
}

// ActingIdentity returns the process that is to act for the shard: the live identity of the acting
// member; false if there is none.
func (p Placement) ActingIdentity(shard Shard) (Identity, bool) {
	member, ok := p.Acting(shard)
	if !ok {
		return "", false
	}
	return p.Live(member)
}

// Live returns the newest serving identity of the member; false if the member is not live.
func (p Placement) Live(member Member) (Identity, bool) {
	var newest Process
	for _, process := range p.Processes {
		if process.Member == member && process.State == Serving && process.Joined > newest.Joined {
			newest = process
		}
	}
	return newest.Identity, newest.Joined > 0
}

func (p Placement) isLive(member Member) bool {
	_, ok := p.Live(member)
	return ok
}

// Process returns the recorded entry of an identity; false if there is none.
func (p Placement) Process(identity Identity) (Process, bool) {
	i := p.indexOf(identity)
	if i < 0 {
		return Process{}, false
	}
	return p.Processes[i], true
}

func (p Placement) indexOf(identity Identity) int {
	return slices.IndexFunc(p.Processes, func(e Process) bool { return e.Identity == identity })
}

// HomesOf returns the shards that belong to the member, in order.
func (p Placement) HomesOf(member Member) []Shard {
	var shards []Shard
	for shard, home := range p.Homes {
		if home == member && member != "" {
			shards = append(shards, Shard(shard))
		}
	}
	return shards
}

// ActingFor returns the shards for which the process with this identity is to act, in order.
func (p Placement) ActingFor(identity Identity) []Shard {
	member := identity.Member()
	if live, ok := p.Live(member); !ok || live != identity {
		return nil
	}
	var shards []Shard
	for shard := range Shard(p.Shards) {
		if acting, ok := p.Acting(shard); ok && acting == member {
			shards = append(shards, shard)
		}
	}
	return shards
}

// IsExpected tells whether the member is among the expected ones.
func (p Placement) IsExpected(member Member) bool { return slices.Contains(p.Expected, member) }

// Clone returns a copy that shares no memory with p.
func (p Placement) Clone() Placement {
	p.Expected = slices.Clone(p.Expected)
	p.Processes = slices.Clone(p.Processes)
	p.Homes = slices.Clone(p.Homes)
	p.Deputies = maps.Clone(p.Deputies)
	p.Weights = maps.Clone(p.Weights)
	return p
}

// Equal tells whether both say the same, whatever version each was read at.
func (p Placement) Equal(q Placement) bool {
	return p.Settings == q.Settings && p.Timings == q.Timings &&
		p.StatefulSetVersion == q.StatefulSetVersion &&
		slices.Equal(p.Expected, q.Expected) &&
		slices.Equal(p.Processes, q.Processes) &&
		slices.Equal(p.Homes, q.Homes) &&
		maps.Equal(p.Deputies, q.Deputies) &&
		maps.Equal(p.Weights, q.Weights)
}

// Moves counts the shards that have another home in q than in p; a shard that had none has not
// moved.
func (p Placement) Moves(q Placement) int {
	moved := 0
	for shard, home := range p.Homes {
		if home != "" && (shard >= len(q.Homes) || q.Homes[shard] != home) {
			moved++
		}
	}
	return moved
}
