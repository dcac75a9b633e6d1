package sharding

import (
	"fmt"
	"slices"

	"example.com/redis-operator/sharding/placement"
)

// simViolation says what was broken, and when.
type simViolation struct {
	invariant string
	text      string
}

// fail notes the first violation, which ends the run.
func (w *simWorld) fail(invariant, format string, args ...any) {
	if w.violation == nil {
		w.violation = &simViolation{invariant, fmt.Sprintf("%s at %s: %s", invariant, w.at, fmt.Sprintf(format, args...))}
	}
}

// check asserts I1 and I6: at most one process can start a call for a shard, or has one in flight, and
// none of them later than its renewals allow.
func (w *simWorld) check() {
	clear(w.acting)
	isMixed := false
	for _, p := range w.processes {
		isMixed = isMixed || p.settings.Shards != w.settings.Shards
		p.checkShards()
	}
	if isMixed {
		w.checkMixed()
	}
}

// checkShards asserts I1 of a process among those before it, and I6 if it runs.
func (p *simProcess) checkShards() {
	for i, c := range p.claims {
		s, shard := &p.shards[i], Shard(i)
		if !s.admitted && s.inFlight == "" {
			continue
		}
		if !p.paused {
			p.checkTimes(shard, c, s)
		}
		if i >= len(p.w.acting) || !p.canAct(shard) {
			continue
		}
		if other := p.w.acting[i]; other != nil {
			p.w.fail("I1", "%s and %s both act on shard %d", other.identity, p.identity, shard)
		}
		p.w.acting[i] = p
	}
}

// checkTaken asserts I1 of a Lease that is about to be stored: nobody takes one from a process that acts
// on its shard. Deleting one by hand takes nothing, nor does creating it without a holder: its owner goes on.
func (w *simWorld) checkTaken(shard Shard, next simLease) {
	owner := w.owners[shard].identity
	if next.missing || next.unsettled || next.holder == owner {
		return
	}
	for _, p := range w.processes {
		if p.identity == owner && p.canAct(shard) {
			w.fail("I1", "the Lease of shard %d goes from %s, which acts on it, to %q", shard, owner, next.holder)
		}
	}
}

// checkMixed asserts I1 for namespaces while processes differ in how many shards there are. One number
// divides the other: a namespace can be in both shards if they are the same modulo the smaller.
func (w *simWorld) checkMixed() {
	for i, p := range w.processes {
		for _, other := range w.processes[:i] {
			p.checkAgainst(other)
		}
	}
}

func (p *simProcess) checkAgainst(other *simProcess) {
	smaller := min(p.settings.Shards, other.settings.Shards)
	for a := range p.settings.Shards {
		for b := a % smaller; b < other.settings.Shards; b += smaller {
			if p.canAct(Shard(a)) && other.canAct(Shard(b)) {
				p.w.fail("I1", "%s acts on shard %d of %d and %s on shard %d of %d: some namespaces are in both",
					p.identity, a, p.settings.Shards, other.identity, b, other.settings.Shards)
			}
		}
	}
}

// checkTimes asserts I6 of a shard of a process that runs: nothing is admitted past the renew deadline, nor while
// its watches lag, and no call is in flight past the moment at which it has to be cancelled. It goes by
// the true time.
func (p *simProcess) checkTimes(shard Shard, c *simClaim, s *simShard) {
	t := p.w.timings
	age := p.w.at - c.sentAt
	switch {
	case s.admitted && (c.epoch == "" || age > t.RenewDeadline):
		p.w.fail("I6", "%s admits shard %d under epoch %q, %s after its last renewal", p.identity, shard, c.epoch, age)
	case s.admitted && p.lagging:
		p.w.fail("I6", "%s admits shard %d while its watches lag", p.identity, shard)
	case s.inFlight != "" && (c.epoch == "" || age > t.LeaseDuration-simCancelLead):
		p.w.fail("I6", "%s has calls of shard %d in flight under epoch %q, %s after its last renewal", p.identity, shard, c.epoch, age)
	}
}

// checkPlacement asserts what holds of a P that is about to be stored: I3, that it is what Place gives,
// and I4, that homes move by the optimum when the expected members change, and not otherwise. With
// weights see checkFold. A P that was away for a Lease duration may be made from nothing, and one that was
// deleted from a copy that is older than what was deleted: then homes may move.
func (w *simWorld) checkPlacement(next placement.Placement, copied string) {
	before := w.lastP
	isContinued := w.p != nil || copied == before.Version || copied == "" && w.at-w.lostAt < w.timings.LeaseDuration
	isComparable := before.Settings == next.Settings && len(before.Expected) > 0 && len(before.Weights) == 0 && len(next.Weights) == 0
	if isContinued && isComparable {
		if moved, optimal := before.Moves(next), before.OptimalMoves(next.Expected); moved != optimal {
			w.fail("I4", "%d homes moved from %v to %v, optimal are %d", moved, before.Expected, next.Expected, optimal)
		}
	}
	if err := next.Validate(); err != nil {
		w.fail("I3", "P is not valid: %v", err)
	}
	if again := placement.Place(next, next.Expected); !again.Equal(next) {
		w.fail("I3", "P is not what Place gives: %d homes would move", next.Moves(again))
	}
	for _, process := range next.Processes {
		if known, ok := before.Process(process.Identity); process.State == placement.Dead && (!ok || known.Cause != process.Cause) {
			w.checkDeath(process)
		}
	}
}

// checkDeath asserts what a recorded death rests on: a confirmed one on a process that holds nothing and
// never will again (I1), any other on a presence that was silent for a Lease duration (I4: else its
// shards are moved away and back).
func (w *simWorld) checkDeath(dead placement.Process) {
	if dead.Cause == placement.Confirmed {
		for _, p := range w.processes {
			if p.identity == dead.Identity && !p.gone() && p.holdsAny() {
				w.fail("I1", "the death of %s is recorded as confirmed, and it holds shards", p.identity)
			}
		}
		return
	}
	silence := w.silences[dead.Identity]
	if _, present := w.presences[dead.Identity]; silence == nil || !present {
		return
	}
	if longest := max(silence.longest, w.at-silence.since); longest < w.timings.LeaseDuration {
		w.fail("I4", "%s is recorded dead, and was silent for %s at most", dead.Identity, longest)
	}
}

// isServed tells whether somebody admits work of a shard and may act on it.
func (w *simWorld) isServed(shard Shard) bool {
	return slices.ContainsFunc(w.processes, func(p *simProcess) bool {
		return p.settings == w.settings && p.shards[shard].admitted && p.canAct(shard)
	})
}

// assertServed asserts I2: every shard is admitted by somebody who may act.
func (w *simWorld) assertServed(when string) {
	for shard := range w.leases {
		if w.isServed(Shard(shard)) {
			continue
		}
		for _, p := range w.processes {
			c := p.claims[shard]
			w.logf("%s: paused=%v acting=%s machine=%+v claim={started=%v releasing=%v busy=%v epoch=%s seen=%+v} lease=%+v", p.identity, p.paused,
				p.machine.acting[shard], p.machine.shards[shard], c.started, c.releasing, c.busy, c.epoch, c.seen, w.leases[shard])
		}
		w.fail("I2", "%s nobody serves shard %d, held by %q", when, shard, w.leases[shard].holder)
	}
}

// assertHome asserts I4: after the trouble every shard is where it belongs.
func (w *simWorld) assertHome() {
	for shard := range w.leases {
		if !w.isHome(shard) {
			w.fail("I4", "shard %d is held by %s, its home is not", shard, w.leases[shard].holder)
		}
	}
}

func (w *simWorld) isHome(shard int) bool {
	return w.p != nil && shard < len(w.p.Homes) && w.leases[shard].holder != "" && w.leases[shard].holder.Member() == w.p.Homes[shard]
}

// isSettled tells whether every shard is served at its home.
func (w *simWorld) isSettled() bool {
	for shard := range w.leases {
		if !w.isHome(shard) || !w.isServed(Shard(shard)) {
			return false
		}
	}
	return true
}
