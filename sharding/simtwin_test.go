package sharding

import (
	"time"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/placement"
)

// twinRig runs a scenario of the claims' contract in the simulation.
type twinRig struct {
	w      *simWorld
	result claimOutcome
}

func newTwinRig(seed uint64, off simRule) *twinRig {
	r := &twinRig{w: newSimWorld(seed, 1, 0), result: claimOutcome{events: map[Identity][]claimEvent{}}}
	r.w.off, r.w.timings = off, claimTimings()
	r.w.stored = r.note
	r.w.changeLease(0, simLease{settings: 1})
	return r
}

func (r *twinRig) note(lease simLease) {
	if lease.missing {
		r.result.held("missing")
		return
	}
	r.result.held(nameOf(lease.holder))
}

// process is the one of that identity, with a claim and without anything that decides about it.
func (r *twinRig) process(who Identity) *simProcess {
	for _, p := range r.w.processes {
		if p.identity == who {
			return p
		}
	}
	p := &simProcess{
		w: r.w, identity: who, member: who.Member(), podUID: who.PodUID(), settings: r.w.settings,
		clock: r.w.newClock(), shards: make([]simShard, 1),
	}
	p.machine = &Machine{p: &placement.Placement{}}
	c := &simClaim{p: p}
	c.told = func(e ClaimChanged) { r.result.told(who, wordOf(e.Type, e.Unclean, e.Again), r.w.at) }
	p.claims = []*simClaim{c}
	c.observe(r.w.leases[0])
	r.w.processes = append(r.w.processes, p)
	return p
}

// start tells of a process that ends because of other settings as the product's claim does.
func (r *twinRig) start(who Identity) {
	p := r.process(who)
	p.run(p.claims[0].start)
	if p.gone() {
		r.result.told(who, string(claim.Refused), r.w.at)
	}
}

func (r *twinRig) release(who Identity) {
	p := r.process(who)
	p.run(p.claims[0].release)
}

func (r *twinRig) kill(who Identity) { r.process(who).exit("killed") }

func (r *twinRig) cut(who Identity, d time.Duration) { r.process(who).net.cutUntil = r.w.at + d }

func (r *twinRig) loseAnswer(who Identity) { r.process(who).net.loseNext = true }

func (r *twinRig) away(d time.Duration) { r.w.outage(d) }

func (r *twinRig) confirm(who Identity) {
	dead := []placement.Process{{Identity: who, Member: who.Member(), State: placement.Dead, Cause: placement.Confirmed}}
	for _, p := range r.w.processes {
		p.machine.p = &placement.Placement{Processes: dead}
	}
}

func (r *twinRig) store(lease simLease) {
	lease.settings = max(lease.settings, 1)
	r.w.changeLease(0, lease)
}

func (r *twinRig) touch() { r.w.changeLease(0, r.w.leases[0]) }

func (r *twinRig) pass(d time.Duration) { r.w.run(d) }

func (r *twinRig) outcome() *claimOutcome { return &r.result }
