package sharding

import (
	"fmt"
	"time"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/placement"
)

// simProcess is one process: a machine, its claims, and the edge between them and the world.
type simProcess struct {
	w        *simWorld
	member   Member
	podUID   string
	nonce    int
	identity Identity
	machine  *Machine
	claims   []*simClaim

	dead     bool
	finished bool
	paused   bool
	held     []func()      // what waits for the end of a pause
	lag      time.Duration // of its watches

	placementAt, expectedAt, podAt, leaseAt, presenceAt time.Time // order of the watches

	admitted map[Shard]bool
	inFlight map[Shard]claim.Epoch // calls that a drain waits for
	warm     map[Shard]bool
	wasWarm  map[Shard]bool // at some time: a view that lags may rest on that
	publish  Publish
	wakeSeq  int
}

func (w *simWorld) start(member Member) *simProcess {
	if w.pods[member] == "" {
		w.nextPod++
		w.pods[member] = fmt.Sprintf("uid%d", w.nextPod)
	}
	p := &simProcess{
		w: w, member: member, podUID: w.pods[member],
		admitted: map[Shard]bool{}, inFlight: map[Shard]claim.Epoch{}, warm: map[Shard]bool{}, wasWarm: map[Shard]bool{},
	}
	p.machine = NewMachine(MachineConfig{
		Member: member, Settings: w.settings, Timings: w.timings,
		HandoverBound: DefaultHandoverBound, DrainBound: DefaultDrainBound, FoldEvery: simFoldEvery,
	}, w.now)
	w.processes = append(w.processes, p)
	p.join()
	w.logf("start %s", p.identity)
	if w.p != nil {
		clone := w.p.Clone()
		p.step(PlacementSeen{Placement: &clone})
	} else {
		p.step(PlacementSeen{})
	}
	p.step(w.expected())
	p.step(LeasesEnsured{})
	for _, presence := range w.presences {
		p.step(presence)
	}
	for _, terminated := range w.terminated {
		p.step(terminated)
	}
	w.after(20*time.Millisecond, func() { p.run(func() { p.step(DirectorySynced{}) }) })
	p.measure()
	return p
}

// join takes a new identity and renews the presence of it for as long as it lasts.
func (p *simProcess) join() {
	p.nonce++
	nonce := fmt.Sprintf("n%dx%d", p.w.nextPod*100+len(p.w.processes), p.nonce)
	p.identity = Identity(string(p.member) + "_" + p.podUID + "_" + nonce)
	p.claims = nil
	for shard := range p.w.leases {
		c := &simClaim{p: p, shard: Shard(shard)}
		c.observe(p.w.leases[shard])
		p.claims = append(p.claims, c)
	}
	p.publish = Publish{}
	p.step(Joined{Identity: p.identity})
	p.renew(p.identity, true)
}

// renew writes the presence Lease, and goes on with it.
func (p *simProcess) renew(identity Identity, again bool) {
	if p.gone() || p.identity != identity {
		return
	}
	if again {
		p.w.after(p.w.timings.RetryPeriod, func() { p.run(func() { p.renew(identity, true) }) })
	}
	content := p.publish
	p.request(func() {
		p.w.changePresence(PresenceSeen{
			Identity: identity, Version: "new", Placement: content.Placement, Warmed: content.Warmed, Costs: content.Costs,
		})
		version := p.w.presences[identity].Version
		p.answer(func() { p.step(PresenceRenewed{Version: version}) })
	}, func() {})
}

func (p *simProcess) gone() bool { return p.dead || p.finished }

// run does something in the process, at the end of the pause if there is one.
func (p *simProcess) run(work func()) {
	switch {
	case p.gone():
	case p.paused:
		p.held = append(p.held, work)
	default:
		work()
	}
}

// request reaches the API after a latency, also if the process dies or pauses meanwhile.
func (p *simProcess) request(reach, fail func()) {
	p.w.after(p.w.latency(), func() {
		if p.w.down {
			p.w.after(p.w.latency(), func() { p.run(fail) })
			return
		}
		reach()
	})
}

func (p *simProcess) answer(work func()) { p.w.after(p.w.latency(), func() { p.run(work) }) }

// later delivers what a watch shows: in order, after its lag, and not while the API is away.
func (p *simProcess) later(last *time.Time, work func()) {
	at := p.w.now.Add(p.w.latency() + p.lag)
	if at.Before(*last) {
		at = *last
	}
	*last = at
	p.w.after(at.Sub(p.w.now), func() { p.run(work) })
}

func (p *simProcess) deliver(last *time.Time, event Event) { p.later(last, func() { p.step(event) }) }

func (p *simProcess) step(event Event) {
	if p.gone() {
		return
	}
	for _, action := range p.machine.Step(event, p.w.now) {
		p.do(action)
	}
}

// canAct tells whether a call could start now that the guard lets through, or one is in flight.
func (p *simProcess) canAct(shard Shard) bool {
	if p.dead || p.paused && !p.claims[shard].live() {
		return false
	}
	c := p.claims[shard]
	if p.admitted[shard] && c.live() {
		return true
	}
	epoch, busy := p.inFlight[shard]
	return busy && c.live() && epoch == c.epoch
}

func (p *simProcess) do(action Action) {
	w := p.w
	switch a := action.(type) {
	case Admit:
		if !p.warm[a.Shard] {
			w.fatalf("I5: %s admits shard %d without its scopes", p.identity, a.Shard)
		}
		if p.claims[a.Shard].epoch != a.Epoch {
			w.logf("%s admits %d under an old epoch", p.identity, a.Shard)
		}
		p.admitted[a.Shard] = true
		delete(p.inFlight, a.Shard) // those that are left are like those to come
		w.logf("%s admits %d epoch %s (%s)", p.identity, a.Shard, a.Epoch, a.Cause)
	case StopAdmitting:
		p.stopAdmitting(a)
	case Drain:
		p.drain(a)
	case CancelCalls:
		delete(p.inFlight, a.Shard)
		delete(p.admitted, a.Shard)
	case Revoke:
		delete(p.inFlight, a.Shard)
		delete(p.admitted, a.Shard)
	case Warm:
		w.after(time.Duration(w.rng.Intn(300))*time.Millisecond, func() {
			p.run(func() { p.warm[a.Shard], p.wasWarm[a.Shard] = true, true; p.step(Warmed(a)) })
		})
	case Drop:
		delete(p.warm, a.Shard)
		if p.admitted[a.Shard] {
			w.fatalf("I5: %s drops shard %d while it admits it", p.identity, a.Shard)
		}
	case Contend:
		p.claims[a.Shard].start()
	case Release:
		if _, busy := p.inFlight[a.Shard]; busy {
			w.fatalf("I1: %s releases shard %d with calls in flight", p.identity, a.Shard)
		}
		p.claims[a.Shard].release()
	case WritePlacement:
		p.writePlacement(a.Placement.Clone())
	case Publish:
		p.publish = a
		if a.Urgent {
			p.renew(p.identity, false)
		}
	case VerifyExpiry:
		p.request(func() {
			unchanged := w.presences[a.Identity].Version == a.Version
			p.answer(func() {
				p.step(ExpiryVerified{Identity: a.Identity, Version: a.Version, Unchanged: unchanged})
			})
		}, func() { p.step(ExpiryVerified{Identity: a.Identity}) })
	case ReadPlacement:
		p.request(func() { p.readPlacement(nil) }, func() {})
	case Rejoin:
		p.rejoin()
	case CollectPresence:
		p.request(func() { w.changePresence(PresenceSeen{Identity: a.Identity}) }, func() {})
	case Wake:
		p.wakeSeq++
		seq := p.wakeSeq
		w.after(a.At.Sub(w.now), func() {
			p.run(func() {
				if seq == p.wakeSeq {
					p.step(Tick{})
				}
			})
		})
	case Finish:
		p.finish()
	case Refuse:
		w.fatalf("%s refuses: %v", p.identity, a.Err)
	case Replay, Relist:
	}
}

// stopAdmitting leaves calls in flight behind: only a drain, or the end of the claim, ends them.
func (p *simProcess) stopAdmitting(a StopAdmitting) {
	delete(p.admitted, a.Shard)
	p.inFlight[a.Shard] = a.Epoch
	p.w.logf("%s stops admitting %d (%s)", p.identity, a.Shard, a.Cause)
	if a.Cause != CauseHandover {
		return
	}
	successor := p.machine.acting[a.Shard]
	for _, other := range p.w.processes {
		if other.identity == successor && !other.gone() && !other.wasWarm[a.Shard] {
			p.w.fatalf("I2: %s gives up shard %d before %s is warm", p.identity, a.Shard, successor)
		}
	}
}

func (p *simProcess) finish() {
	p.w.logf("%s finished", p.identity)
	p.finished = true
	p.admitted, p.inFlight = map[Shard]bool{}, map[Shard]claim.Epoch{}
	identity := p.identity
	p.request(func() { p.w.changePresence(PresenceSeen{Identity: identity}) }, func() {})
}

func (p *simProcess) rejoin() {
	for _, c := range p.claims {
		if c.started || c.epoch != "" {
			p.w.fatalf("%s rejoins while it claims shard %d", p.identity, c.shard)
		}
	}
	p.w.after(10*time.Millisecond, func() {
		p.run(func() {
			if p.w.pods[p.member] != p.podUID {
				p.w.logf("%s exits: its Pod is gone", p.identity)
				p.dead = true
				return
			}
			old := p.identity
			p.join()
			p.request(func() { p.w.changePresence(PresenceSeen{Identity: old}) }, func() {})
		})
	})
}

// drain ends when the calls in flight do: most are short, some overrun.
func (p *simProcess) drain(a Drain) {
	if p.admitted[a.Shard] {
		p.w.fatalf("%s drains shard %d while it admits it", p.identity, a.Shard)
	}
	overruns := p.w.rng.Intn(20) == 0 && !p.w.neverOverruns
	wait := time.Duration(p.w.rng.Intn(100)) * time.Millisecond
	if overruns {
		wait = DefaultDrainBound
	}
	p.w.after(wait, func() {
		p.run(func() {
			if !overruns {
				delete(p.inFlight, a.Shard)
			}
			p.step(Drained{Shard: a.Shard, Seq: a.Seq, Overran: overruns})
		})
	})
}

func (p *simProcess) writePlacement(next placement.Placement) {
	p.request(func() {
		stored := ""
		if p.w.p != nil {
			stored = p.w.p.Version
		}
		if stored != next.Version {
			p.readPlacement(fmt.Errorf("conflict"))
			return
		}
		p.w.checkFold(p.identity, next)
		p.w.storeP(next)
		p.readPlacement(nil)
	}, func() { p.step(PlacementWritten{Err: fmt.Errorf("API away")}) })
}

func (p *simProcess) readPlacement(err error) {
	var seen *placement.Placement
	if p.w.p != nil {
		clone := p.w.p.Clone()
		seen = &clone
	}
	p.answer(func() {
		p.step(PlacementSeen{Placement: seen})
		p.step(PlacementWritten{Err: err})
	})
}

// confirmedDead is what claims ask before they empty another's Lease.
func (p *simProcess) confirmedDead(identity Identity) bool {
	if p.machine.p == nil {
		return false
	}
	process, ok := p.machine.p.Process(identity)
	return ok && process.Cause == placement.Confirmed
}
