package sharding

import (
	"container/heap"
	"errors"
	"fmt"
	"math/rand"
	"strconv"
	"testing"
	"time"

	"example.com/redis-operator/sharding/placement"
)

// simWorld is a deterministic installation: an API in memory, watches that lag, and processes that
// each run a Machine. Nothing in it runs at the same time as anything else; time passes between
// events alone.
type simWorld struct {
	t        *testing.T
	seed     int64
	rng      *rand.Rand
	now      time.Time
	queue    simQueue
	seq      int
	settings Settings
	timings  placement.Timings

	version    int // resourceVersion of the last write
	down       bool
	p          *placement.Placement
	lastP      placement.Placement // last that was stored, for I4
	garbled    string              // version at which something else is stored in place of p
	leases     []simLease
	presences  map[Identity]PresenceSeen
	replicas   int
	replicasAt string
	terminated []Terminated
	pods       map[Member]string // UID of the Pod that there is now
	nextPod    int

	costs     map[Shard]placement.Cost // what the shards cost now
	weightsAt time.Time                // when P's weights changed last
	folds     int                      // changes of P's weights
	foldMoves int                      // homes that moved with them

	neverOverruns bool // drains end in time
	processes     []*simProcess
	trace         []string
}

// simLease is a shard's Lease as stored.
type simLease struct {
	holder  Identity
	version string
	missing bool
	unclean bool // emptied by another than its holder
}

type simEvent struct {
	at   time.Time
	seq  int
	work func()
}

type simQueue []simEvent

func (q simQueue) Len() int { return len(q) }
func (q simQueue) Less(i, j int) bool {
	return q[i].at.Before(q[j].at) || q[i].at.Equal(q[j].at) && q[i].seq < q[j].seq
}
func (q simQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *simQueue) Push(x any)   { *q = append(*q, x.(simEvent)) }
func (q *simQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func newSimWorld(t *testing.T, seed int64, shards, replicas int) *simWorld {
	return &simWorld{
		t: t, seed: seed, rng: rand.New(rand.NewSource(seed)), now: time.Unix(1_000_000, 0),
		settings: Settings{Shards: shards, Hash: placement.HashFNV1aMix},
		timings: placement.Timings{
			LeaseDuration: DefaultLeaseDuration, RenewDeadline: DefaultRenewDeadline, RetryPeriod: DefaultRetryPeriod,
		},
		leases:    make([]simLease, shards),
		presences: map[Identity]PresenceSeen{},
		costs:     map[Shard]placement.Cost{},
		pods:      map[Member]string{},
		replicas:  replicas, replicasAt: "1", version: 1,
	}
}

func (w *simWorld) after(d time.Duration, work func()) {
	w.seq++
	heap.Push(&w.queue, simEvent{at: w.now.Add(d), seq: w.seq, work: work})
}

// run lets events happen for a time, and checks the invariants after each.
func (w *simWorld) run(d time.Duration) {
	end := w.now.Add(d)
	for len(w.queue) > 0 && !w.queue[0].at.After(end) {
		event := heap.Pop(&w.queue).(simEvent)
		w.now = event.at
		event.work()
		w.check()
	}
	w.now = end
}

func (w *simWorld) nextVersion() string {
	w.version++
	return strconv.Itoa(w.version)
}

func (w *simWorld) logf(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%8.3f ", w.now.Sub(time.Unix(1_000_000, 0)).Seconds())+fmt.Sprintf(format, args...))
	if len(w.trace) > 4000 {
		w.trace = w.trace[2000:]
	}
}

func (w *simWorld) fatalf(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.trace[max(0, len(w.trace)-150):] {
		w.t.Log(line)
	}
	w.t.Fatalf("seed %d at %s: %s", w.seed, w.now.Sub(time.Unix(1_000_000, 0)), fmt.Sprintf(format, args...))
}

// latency is what one request takes.
func (w *simWorld) latency() time.Duration {
	return time.Millisecond + time.Duration(w.rng.Intn(8))*time.Millisecond
}

// check asserts I1 and I6: at most one process can start a call for a shard, or has one in flight, and
// none of them later than its renewals allow.
func (w *simWorld) check() {
	w.t.Helper()
	for _, p := range w.processes {
		if !p.gone() && !p.paused {
			p.checkTimes()
		}
	}
	for shard := range w.leases {
		var acting *simProcess
		for _, p := range w.processes {
			if !p.canAct(Shard(shard)) {
				continue
			}
			if acting != nil {
				w.fatalf("I1: %s and %s both act on shard %d", acting.identity, p.identity, shard)
			}
			acting = p
		}
	}
}

// storeP stores a new P and asserts I4: homes move by the optimum when the expected members
// change, and not otherwise. With weights see checkFold.
func (w *simWorld) storeP(next placement.Placement) {
	w.t.Helper()
	before := w.lastP
	next.Version = w.nextVersion()
	if len(before.Homes) > 0 && len(before.Expected) > 0 && len(before.Weights) == 0 && len(next.Weights) == 0 {
		if moved, optimal := before.Moves(next), before.OptimalMoves(next.Expected); moved != optimal {
			w.fatalf("I4: %d homes moved from %v to %v, optimal are %d", moved, before.Expected, next.Expected, optimal)
		}
	}
	if err := next.Validate(); err != nil {
		w.fatalf("I3: P is not valid: %v", err)
	}
	if again := placement.Place(next, next.Expected); !again.Equal(next) {
		w.fatalf("I3: P is not what Place gives: %d homes would move", next.Moves(again))
	}
	w.p, w.lastP, w.garbled = &next, next, ""
	w.logf("P %s expected=%d processes=%v deputies=%d weights=%v", next.Version, len(next.Expected), next.Processes, len(next.Deputies), next.Weights)
	w.broadcastP()
}

func (w *simWorld) broadcastP() {
	for _, p := range w.processes {
		p.deliver(&p.placementAt, w.storedP())
	}
}

// storedP is what a read of P answers.
func (w *simWorld) storedP() Event {
	switch {
	case w.garbled != "":
		return PlacementUnreadable{Version: w.garbled, Err: errors.New("edited by hand")}
	case w.p != nil:
		clone := w.p.Clone()
		return PlacementSeen{Placement: &clone}
	}
	return PlacementSeen{}
}

// garbleP stores something that is not a placement.
func (w *simWorld) garbleP() {
	w.p, w.garbled = nil, w.nextVersion()
	w.logf("P is garbled")
	w.broadcastP()
}

func (w *simWorld) scale(replicas int) {
	w.replicas, w.replicasAt = replicas, w.nextVersion()
	w.logf("scale to %d", replicas)
	for _, p := range w.processes {
		p.deliver(&p.expectedAt, w.expected())
	}
}

func (w *simWorld) expected() ExpectedSeen {
	seen := ExpectedSeen{Version: w.replicasAt}
	for i := range w.replicas {
		seen.Members = append(seen.Members, Member(fmt.Sprintf("redis-operator-%d", i)))
	}
	return seen
}

// confirm has the kubelet report the end of a process.
func (w *simWorld) confirm(identity Identity) {
	event := Terminated{PodUID: identity.PodUID(), Message: string(identity) + "\n"}
	w.terminated = append(w.terminated, event)
	for _, p := range w.processes {
		p.deliver(&p.podAt, event)
	}
}

func (w *simWorld) deleteP() {
	w.p, w.garbled = nil, ""
	w.nextVersion()
	w.logf("P deleted")
	w.broadcastP()
}

func (w *simWorld) changeLease(shard Shard, lease simLease) {
	lease.version = w.nextVersion()
	w.leases[shard] = lease
	for _, p := range w.processes {
		p.later(&p.leaseAt, func() { p.claims[shard].watched(lease) })
	}
}

func (w *simWorld) changePresence(seen PresenceSeen) {
	version := w.nextVersion()
	if seen.Version == "" {
		delete(w.presences, seen.Identity)
	} else {
		seen.Version = version
		w.presences[seen.Identity] = seen
	}
	for _, p := range w.processes {
		p.deliver(&p.presenceAt, seen)
	}
}
