package sharding

import (
	"errors"
	"slices"
	"time"

	"example.com/redis-operator/sharding/placement"
)

func (p *simProcess) do(action Action) {
	switch a := action.(type) {
	case Admit:
		p.admit(a)
	case StopAdmitting:
		p.stopAdmitting(a)
	case Drain:
		p.drain(a)
	case CancelCalls:
		p.cancel(a.Shard)
	case Revoke:
		p.cancel(a.Shard)
	case Warm:
		takes := p.w.warming
		if takes == 0 {
			takes = time.Duration(p.w.rng.IntN(300)) * time.Millisecond
		}
		p.after(takes, func() {
			p.shards[a.Shard].warm, p.shards[a.Shard].wasWarm = true, true
			p.step(Warmed(a))
		})
	case Drop:
		p.shards[a.Shard].warm = false
		if p.shards[a.Shard].admitted {
			p.w.fail("I5", "%s drops shard %d while it admits it", p.identity, a.Shard)
		}
	case Contend:
		p.claims[a.Shard].start()
	case Release:
		if p.shards[a.Shard].inFlight != "" {
			p.w.fail("I1", "%s releases shard %d with calls in flight", p.identity, a.Shard)
		}
		p.claims[a.Shard].release()
	case Replay:
		if !p.shards[a.Shard].admitted {
			p.w.fail("I5", "%s replays shard %d before it admits it", p.identity, a.Shard)
		}
		p.shards[a.Shard].replayDue = p.w.off == ruleReplay
	default:
		p.doMembership(action)
	}
}

func (p *simProcess) doMembership(action Action) {
	w := p.w
	switch a := action.(type) {
	case WritePlacement:
		p.writePlacement(a.Placement.Clone())
	case Publish:
		p.publish = a
		if a.Urgent {
			p.renew()
		}
	case VerifyExpiry:
		p.verifyExpiry(a)
	case ReadPlacement:
		p.request(func() func() { return p.readPlacement() }, func() {})
	case Rejoin:
		p.rejoin()
	case CollectPresence:
		p.removePresence(a.Identity)
	case Wake:
		p.wakeAt = w.at + a.At.Sub(p.now())
		p.wakeLater()
	case Finish:
		w.logf("%s finished", p.identity)
		p.finished, w.someGone = true, true
		p.removePresence(p.identity)
	case Refuse:
		if p.settings == w.settings && (w.p == nil || w.p.Settings == w.settings) {
			w.fail("I2", "%s refuses: %v", p.identity, a.Err)
		}
		p.exit(a.Err.Error())
	case Relist:
	}
}

// wakeLater has one event on its way at the most: the machine asks for another time at every step.
func (p *simProcess) wakeLater() {
	if p.wakeAt == 0 || p.nextWake != 0 && p.nextWake <= p.wakeAt {
		return
	}
	p.nextWake = p.wakeAt
	due := p.wakeAt
	p.after(due-p.w.at, func() {
		if p.nextWake != due {
			return
		}
		p.nextWake = 0
		if p.wakeAt != due {
			p.wakeLater()
			return
		}
		p.wakeAt = 0
		p.step(Tick{})
	})
}

func (p *simProcess) admit(a Admit) {
	s := &p.shards[a.Shard]
	if !s.warm {
		p.w.fail("I5", "%s admits shard %d without its scopes", p.identity, a.Shard)
	}
	if p.claims[a.Shard].epoch != a.Epoch {
		p.w.logf("%s admits %d under an old epoch", p.identity, a.Shard)
	}
	s.admitted, s.replayDue, s.draining = true, true, false
	s.inFlight = "" // those that are left are like those to come
	p.awaiting++
	p.w.logf("%s admits %d epoch %s (%s)", p.identity, a.Shard, a.Epoch, a.Cause)
}

// stopAdmitting leaves calls in flight behind: only a drain, or the end of the claim, ends them.
func (p *simProcess) stopAdmitting(a StopAdmitting) {
	s := &p.shards[a.Shard]
	s.admitted, s.inFlight = false, a.Epoch
	p.w.logf("%s stops admitting %d (%s)", p.identity, a.Shard, a.Cause)
	if a.Cause != CauseHandover {
		return
	}
	successor := p.machine.acting[a.Shard]
	for _, other := range p.w.processes {
		if other.identity == successor && !other.gone() && !other.shards[a.Shard].wasWarm {
			p.w.fail("I2", "%s gives up shard %d before %s is warm", p.identity, a.Shard, successor)
		}
	}
}

func (p *simProcess) cancel(shard Shard) {
	s := &p.shards[shard]
	s.admitted, s.inFlight, s.draining = false, "", false
	s.grants++
}

// drain ends when the calls in flight do: most are short, some overrun.
func (p *simProcess) drain(a Drain) {
	s := &p.shards[a.Shard]
	if s.admitted {
		p.w.fail("I1", "%s drains shard %d while it admits it", p.identity, a.Shard)
	}
	s.draining = true
	if p.w.off == ruleDrain {
		p.after(0, func() { p.step(Drained{Shard: a.Shard, Seq: a.Seq}) })
		return
	}
	overruns := p.w.rng.IntN(20) == 0 && !p.w.neverOverruns || p.w.alwaysOverrun
	wait := time.Duration(p.w.rng.IntN(100)) * time.Millisecond
	if overruns {
		wait = DefaultDrainBound
	}
	epoch := s.inFlight
	p.after(wait, func() {
		if !overruns && s.inFlight == epoch {
			s.inFlight = ""
		}
		p.step(Drained{Shard: a.Shard, Seq: a.Seq, Overran: overruns})
	})
}

func (p *simProcess) rejoin() {
	for _, c := range p.claims {
		if c.started || c.epoch != "" {
			p.w.fail("I1", "%s rejoins while it claims shard %d", p.identity, c.shard)
		}
	}
	p.after(10*time.Millisecond, func() {
		if p.w.pods[p.member] != p.podUID {
			p.exit("its Pod is gone")
			return
		}
		old := p.identity
		p.join()
		if p.identity != old {
			p.removePresence(old)
		}
	})
}

func (p *simProcess) removePresence(identity Identity) {
	p.request(func() func() {
		p.w.changePresence(PresenceSeen{Identity: identity})
		return nil
	}, func() {
		p.after(p.w.timings.RetryPeriod, func() { p.removePresence(identity) })
	})
}

func (p *simProcess) verifyExpiry(a VerifyExpiry) {
	p.request(func() func() {
		unchanged := p.w.presences[a.Identity].Version == a.Version || p.w.off == ruleVerify
		return func() {
			p.step(ExpiryVerified{Identity: a.Identity, Version: a.Version, Unchanged: unchanged})
		}
	}, func() { p.step(ExpiryVerified{Identity: a.Identity, Version: a.Version}) })
}

func (p *simProcess) writePlacement(next placement.Placement) {
	copied := ""
	if p.machine.p != nil {
		copied = p.machine.p.Version
	}
	p.request(func() func() {
		if p.w.versionOfP() == next.Version || p.w.off == ruleSwapP {
			p.w.checkFold(p.identity, next)
			p.w.storeP(next, copied)
		}
		return p.readPlacement(PlacementWritten{})
	}, func() { p.step(PlacementWritten{Err: errors.New("no answer")}) })
}

// readPlacement reads P now, and returns what the process does with the answer.
func (p *simProcess) readPlacement(after ...Event) func() {
	events := slices.Concat([]Event{p.w.storedP(p)}, after)
	return func() {
		for _, event := range events {
			p.step(event)
		}
	}
}
