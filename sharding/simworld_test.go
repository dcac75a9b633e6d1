package sharding

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"example.com/redis-operator/sharding/placement"
)

// simWorld is a deterministic installation: an API in memory, watches that lag, and processes that
// each run a Machine. Nothing in it runs at the same time as anything else; time passes between
// events alone.
type simWorld struct {
	seed     uint64
	off      simRule // the rule that nobody keeps
	rng      *rand.Rand
	at       time.Duration // the true time
	queue    simQueue
	seq      int
	settings Settings
	timings  placement.Timings

	version    int // resourceVersion of the last write
	down       bool
	p          *placement.Placement
	lastP      placement.Placement // last that was stored, for I4
	lostAt     time.Duration       // when P was deleted or garbled
	garbled    string              // version at which something else is stored in place of p
	leases     []simLease
	stored     func(simLease) // is told of each Lease that is stored; nil for nobody
	owners     []simOwner
	acting     []*simProcess // by shard, as found by check
	presences  map[Identity]PresenceSeen
	silences   map[Identity]*simSilence
	replicas   int
	replicasAt string
	members    []Member // as there are replicas
	terminated []Terminated
	pods       map[Member]string // UID of the Pod that there is now
	nextPod    int

	costs     map[Shard]placement.Cost // what the shards cost now
	weightsAt time.Duration            // when P's weights changed last; 0 for never
	folds     int                      // changes of P's weights
	foldMoves int                      // homes that moved with them

	neverOverruns bool          // drains end in time
	alwaysOverrun bool          // no drain ends
	warming       time.Duration // what it takes to load a shard; 0 for a moment
	absent        Member        // whose Pod does not start
	processes     []*simProcess
	someGone      bool // of processes
	violation     *simViolation
	tracing       bool
	trace         []string
}

// simLease is a shard's Lease as stored.
type simLease struct {
	holder    Identity
	version   string
	missing   bool
	unsettled bool // created without a holder, and not held since
	unclean   bool // emptied by another than its holder
	settings  int  // number of shards of who wrote it
}

// simOwner is who held a shard's Lease last, and the how manieth owner that is.
type simOwner struct {
	identity Identity
	count    int
}

// simSilence is for how long a presence Lease did not change.
type simSilence struct {
	since, longest time.Duration
}

func newSimWorld(seed uint64, shards, replicas int) *simWorld {
	w := &simWorld{
		seed: seed, rng: rand.New(rand.NewPCG(seed, 0)),
		settings: Settings{Shards: shards, Hash: placement.HashFNV1aMix},
		timings: placement.Timings{
			LeaseDuration: DefaultLeaseDuration, RenewDeadline: DefaultRenewDeadline, RetryPeriod: DefaultRetryPeriod,
		},
		leases:    make([]simLease, shards),
		owners:    make([]simOwner, shards),
		acting:    make([]*simProcess, shards),
		presences: map[Identity]PresenceSeen{},
		silences:  map[Identity]*simSilence{},
		costs:     map[Shard]placement.Cost{},
		pods:      map[Member]string{},
		replicas:  replicas, replicasAt: "1", version: 1,
	}
	for shard := range w.leases {
		w.leases[shard] = simLease{version: "1", missing: true, settings: shards}
	}
	w.members = membersOf(replicas)
	return w
}

func membersOf(replicas int) []Member {
	var members []Member
	for i := range replicas {
		members = append(members, Member("redis-operator-"+strconv.Itoa(i)))
	}
	return members
}

func (w *simWorld) after(d time.Duration, work func()) {
	w.seq++
	w.queue.push(simEvent{at: w.at + max(d, 0), seq: w.seq, work: work})
}

// after has the process do something later, if it is still there.
func (p *simProcess) after(d time.Duration, work func()) {
	p.w.seq++
	p.w.queue.push(simEvent{at: p.w.at + max(d, 0), seq: p.w.seq, in: p, work: work})
}

// run lets events happen for a time, and checks the invariants after each. It ends at the first
// violation.
func (w *simWorld) run(d time.Duration) {
	end := w.at + d
	for len(w.queue) > 0 && w.queue[0].at <= end && w.violation == nil {
		event := w.queue.pop()
		w.at = event.at
		if event.in == nil {
			event.work()
		} else {
			event.in.run(event.work)
		}
		if w.someGone {
			w.someGone = false
			w.processes = slices.DeleteFunc(w.processes, (*simProcess).gone)
		}
		w.check()
	}
	w.at = end
}

// runUntil lets events happen until something holds, at most for a time.
func (w *simWorld) runUntil(holds func() bool, atMost time.Duration) {
	for end := w.at + atMost; w.at < end && w.violation == nil && !holds(); {
		w.run(500 * time.Millisecond)
	}
}

func (w *simWorld) nextVersion() string {
	w.version++
	return strconv.Itoa(w.version)
}

func (w *simWorld) logf(format string, args ...any) {
	if w.tracing {
		w.trace = append(w.trace, fmt.Sprintf("%8.3f ", w.at.Seconds())+fmt.Sprintf(format, args...))
	}
}

// storeP stores a new P, made from a version of it (empty: from nothing), and asserts I3 and I4 of it.
func (w *simWorld) storeP(next placement.Placement, copied string) {
	next.Version = w.nextVersion()
	w.checkPlacement(next, copied)
	w.p, w.lastP, w.garbled = &next, next, ""
	w.logf("P %s expected=%d processes=%v deputies=%d weights=%v", next.Version, len(next.Expected), next.Processes, len(next.Deputies), next.Weights)
	w.broadcastP()
}

func (w *simWorld) broadcastP() {
	for _, p := range w.processes {
		p.deliver(&p.placementAt, w.storedP(p))
	}
}

// storedP is what a read of P answers to a process.
func (w *simWorld) storedP(p *simProcess) Event {
	switch {
	case w.garbled != "":
		return PlacementUnreadable{Version: w.garbled, Err: errors.New("edited by hand")}
	case w.p == nil:
		return PlacementSeen{}
	case w.p.Settings != p.settings:
		return PlacementUnreadable{Err: &placement.SettingsError{Ours: p.settings, Theirs: w.p.Settings}}
	}
	clone := w.p.Clone()
	return PlacementSeen{Placement: &clone}
}

func (w *simWorld) versionOfP() string {
	if w.p != nil {
		return w.p.Version
	}
	return w.garbled
}

// garbleP stores something that is not a placement.
func (w *simWorld) garbleP() {
	w.lose(w.nextVersion())
	w.logf("P is garbled")
}

func (w *simWorld) deleteP() {
	w.nextVersion()
	w.lose("")
	w.logf("P deleted")
}

func (w *simWorld) lose(garbled string) {
	if w.p != nil {
		w.lostAt = w.at
	}
	w.p, w.garbled = nil, garbled
	w.broadcastP()
}

func (w *simWorld) scale(replicas int) {
	w.replicas, w.replicasAt, w.members = replicas, w.nextVersion(), membersOf(replicas)
	w.logf("scale to %d", replicas)
	for _, p := range w.processes {
		p.deliver(&p.expectedAt, w.expected())
	}
}

func (w *simWorld) expected() ExpectedSeen {
	return ExpectedSeen{Version: w.replicasAt, Members: w.members}
}

// confirm has the kubelet report the end of a process.
func (w *simWorld) confirm(identity Identity) {
	event := Terminated{PodUID: identity.PodUID(), Message: string(identity) + "\n"}
	w.terminated = append(w.terminated, event)
	for _, p := range w.processes {
		p.deliver(&p.podAt, event)
	}
}

func (w *simWorld) changeLease(shard Shard, lease simLease) {
	w.checkTaken(shard, lease)
	lease.version = w.nextVersion()
	w.leases[shard] = lease
	if w.stored != nil {
		w.stored(lease)
	}
	if owner := &w.owners[shard]; lease.holder != "" && lease.holder != owner.identity {
		owner.identity = lease.holder
		owner.count++
	}
	for _, p := range w.processes {
		if int(shard) < p.settings.Shards {
			p.later(&p.leaseAt, func() { p.claims[shard].watched(lease) })
		}
	}
}

func (w *simWorld) changePresence(seen PresenceSeen) {
	version := w.nextVersion()
	if seen.Version == "" {
		delete(w.presences, seen.Identity)
	} else {
		seen.Version = version
		w.presences[seen.Identity] = seen
		if silence := w.silences[seen.Identity]; silence != nil {
			silence.longest = max(silence.longest, w.at-silence.since)
			silence.since = w.at
		} else {
			w.silences[seen.Identity] = &simSilence{since: w.at}
		}
	}
	event := Event(seen)
	for _, p := range w.processes {
		p.deliver(&p.presenceAt, event)
	}
}
