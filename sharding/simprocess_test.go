package sharding

import (
	"fmt"
	"slices"
	"time"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/membership"
	"example.com/redis-operator/sharding/placement"
)

// simCancelLead is how long before a claim's deadline its calls are cancelled.
const simCancelLead = 2 * time.Second

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
	holders  map[Shard]Identity // as the machine was told
	lagging  bool               // as the machine was told

	replayDue map[Shard]bool // admitted in this step, and not replayed
	wakeSeq   int
}

func (w *simWorld) start(member Member) *simProcess {
	if w.pods[member] == "" {
		w.nextPod++
		w.pods[member] = fmt.Sprintf("uid%d", w.nextPod)
	}
	p := &simProcess{
		w: w, member: member, podUID: w.pods[member],
		admitted: map[Shard]bool{}, inFlight: map[Shard]claim.Epoch{}, warm: map[Shard]bool{}, wasWarm: map[Shard]bool{},
		replayDue: map[Shard]bool{},
	}
	p.machine = NewMachine(MachineConfig{
		Member: member, Settings: w.settings, Timings: w.timings,
		HandoverBound: DefaultHandoverBound, DrainBound: DefaultDrainBound, FoldEvery: simFoldEvery,
	}, w.now)
	w.processes = append(w.processes, p)
	p.join()
	p.lookAtClaims()
	w.logf("start %s", p.identity)
	p.step(w.storedP())
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

// checkTimes asserts I6 of a process that runs: nothing is admitted past the renew deadline, nor while
// its watches lag, and no call is in flight past the moment at which it has to be cancelled.
func (p *simProcess) checkTimes() {
	t := p.w.timings
	for shard, c := range p.claims {
		age := p.w.now.Sub(c.sent)
		_, inFlight := p.inFlight[Shard(shard)]
		admitted := p.admitted[Shard(shard)]
		switch {
		case admitted && (c.epoch == "" || age > t.RenewDeadline):
			p.w.fatalf("I6: %s admits shard %d under epoch %q, %s after its last renewal", p.identity, shard, c.epoch, age)
		case admitted && p.lagging:
			p.w.fatalf("I6: %s admits shard %d while its watches lag", p.identity, shard)
		case inFlight && (c.epoch == "" || age > t.LeaseDuration-simCancelLead):
			p.w.fatalf("I6: %s has calls of shard %d in flight under epoch %q, %s after its last renewal", p.identity, shard, c.epoch, age)
		}
	}
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
	p.publish, p.holders = Publish{}, map[Shard]Identity{}
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
	for shard := range p.replayDue {
		p.w.fatalf("I5: %s admits shard %d without a replay", p.identity, shard)
	}
}

// lookAtClaims tells the machine what its claims have seen of the Leases, now and then, as the
// coordinator does.
func (p *simProcess) lookAtClaims() {
	p.w.after(p.w.timings.RetryPeriod/2, func() { p.run(p.lookAtClaims) })
	bound := membership.BreakAfter(p.w.timings.LeaseDuration, p.w.timings.RetryPeriod)
	isBehind := func(c *simClaim) bool { return c.lag() > bound }
	if lagging := slices.ContainsFunc(p.claims, isBehind); lagging != p.lagging {
		p.lagging = lagging
		p.step(ClaimsLagging{Lagging: lagging})
	}
	for shard, c := range p.claims {
		if before, told := p.holders[Shard(shard)]; !told || before != c.seen.holder {
			p.holders[Shard(shard)] = c.seen.holder
			p.step(HolderSeen{Shard: Shard(shard), Holder: c.seen.holder})
		}
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
		p.admitted[a.Shard], p.replayDue[a.Shard] = true, true
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
		p.request(func() { p.readPlacement() }, func() {})
	case Rejoin:
		p.rejoin()
	case CollectPresence:
		p.request(func() { w.changePresence(PresenceSeen{Identity: a.Identity}) }, func() {})
	case Wake:
		p.wakeAt(a.At)
	case Finish:
		p.finish()
	case Refuse:
		w.fatalf("%s refuses: %v", p.identity, a.Err)
	case Replay:
		if !p.admitted[a.Shard] {
			w.fatalf("I5: %s replays shard %d before it admits it", p.identity, a.Shard)
		}
		delete(p.replayDue, a.Shard)
	case Relist:
	}
}

// wakeAt makes earlier requests void.
func (p *simProcess) wakeAt(at time.Time) {
	p.wakeSeq++
	seq := p.wakeSeq
	p.w.after(at.Sub(p.w.now), func() {
		p.run(func() {
			if seq == p.wakeSeq {
				p.step(Tick{})
			}
		})
	})
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
		if p.w.garbled != "" {
			stored = p.w.garbled
		}
		if stored == next.Version {
			p.w.checkFold(p.identity, next)
			p.w.storeP(next)
		}
		p.readPlacement(PlacementWritten{})
	}, func() { p.step(PlacementWritten{Err: fmt.Errorf("API away")}) })
}

func (p *simProcess) readPlacement(after ...Event) {
	seen := p.w.storedP()
	p.answer(func() {
		p.step(seen)
		for _, event := range after {
			p.step(event)
		}
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
