package sharding

import (
	"slices"
	"testing"
	"time"

	"example.com/redis-operator/sharding/placement"
)

const (
	noGap = 10 * time.Millisecond // the step of longestUnserved
	// plannedGap is I2's bound for a planned handover, and the most that a drain takes here.
	plannedGap = 250*time.Millisecond + 100*time.Millisecond
	simWarming = 300 * time.Millisecond // the most that Warm takes here
)

// simStory is one fault by itself, with three processes that have settled.
type simStory struct {
	begin func(w *simWorld, p *simProcess) // p is any of them
	lasts time.Duration
	// gap is the longest that any shard may be served by nobody; 0 where the fault decides.
	gap time.Duration
	// still says that no shard goes to another process meanwhile.
	still bool
	end   func(w *simWorld) // of the fault
	// needs is a rule without which the fault breaks something; none where no single one decides.
	needs simRule
}

// simStories are the faults of docs/reliability.md that need no API server.
var simStories = map[string]simStory{
	"a Pod is deleted by force": {
		begin: func(_ *simWorld, p *simProcess) { p.forceDelete() },
		lasts: time.Minute, gap: plannedGap,
		needs: rulePodGone,
	},
	"two Pods with one name, the old one on a lost Node": {
		begin: func(_ *simWorld, p *simProcess) { p.cut(40 * time.Second); p.forceDelete() },
		lasts: time.Minute, gap: DefaultLeaseDuration + 2*time.Second + simWarming,
		needs: rulePodGone,
	},
	"a container is restarted in its Pod": {
		begin: func(_ *simWorld, p *simProcess) { p.crash(true) }, // reported after a second
		lasts: time.Minute, gap: time.Second + 2*time.Second + simWarming,
		needs: ruleNonce,
	},
	"the shard Leases are deleted by hand": {
		begin: func(w *simWorld, _ *simProcess) { w.deleteAllLeases() },
		lasts: 30 * time.Second, gap: noGap, still: true,
	},
	"P is deleted by hand": {
		begin: func(w *simWorld, _ *simProcess) { w.deleteP() },
		lasts: 30 * time.Second, gap: noGap, still: true,
	},
	"P is overwritten by hand with something else": {
		begin: func(w *simWorld, _ *simProcess) { w.garbleP() },
		lasts: 30 * time.Second, gap: noGap, still: true,
	},
	"homes in P are edited by hand": {
		begin: func(w *simWorld, _ *simProcess) { w.editP(exchangeHomes) },
		lasts: 30 * time.Second, gap: plannedGap,
		needs: ruleWarm,
	},
	"the processes are removed from P by hand": {
		begin: func(w *simWorld, _ *simProcess) { w.editP(func(p *placement.Placement) { p.Processes = nil }) },
		lasts: time.Minute,
		needs: ruleEpoch,
	},
	"a shutdown during warm-up": {
		begin: func(w *simWorld, _ *simProcess) {
			w.warming = 5 * time.Second
			w.scale(4)
			joined := w.start(w.members[3])
			w.after(2*time.Second, joined.stop)
		},
		lasts: time.Minute, gap: plannedGap,
		needs: ruleWarm,
	},
	"a member joins and leaves ten times in a minute": {
		begin: func(w *simWorld, _ *simProcess) { w.comeAndGo(10) },
		lasts: time.Minute, gap: plannedGap,
		needs: ruleWarm,
	},
	"a warm-up takes a minute": {
		begin: func(w *simWorld, _ *simProcess) { w.warming = time.Minute; w.scale(4); w.fill() },
		lasts: 80 * time.Second, gap: plannedGap,
		needs: ruleWarm,
	},
	"a drain never ends": {
		begin: func(w *simWorld, _ *simProcess) { w.alwaysOverrun = true; w.scale(4); w.fill() },
		lasts: time.Minute, gap: DefaultDrainBound + plannedGap, still: true,
		end:   func(w *simWorld) { w.alwaysOverrun = false },
		needs: ruleDrain,
	},
	"a member is expected whose Pod never starts": {
		begin: func(w *simWorld, _ *simProcess) { w.absent = "redis-operator-3"; w.scale(4); w.fill() },
		lasts: 2 * time.Minute, gap: noGap, still: true,
		end: func(w *simWorld) { w.absent = "" },
	},
	"watches stall while writes pass": {
		begin: func(w *simWorld, p *simProcess) { p.net.lag = 30 * time.Second; w.after(20*time.Second, w.scaleAny) },
		lasts: time.Minute,
		needs: ruleEcho,
	},
	"an API outage ends for one replica first": {
		begin: func(w *simWorld, p *simProcess) {
			away := w.nearLeaseDuration()
			w.outage(away)
			for _, other := range w.processes {
				if other != p {
					other.cut(away + w.seconds(15))
				}
			}
		},
		lasts: time.Minute,
	},
	"P is deleted during a roll that brings another S": {
		begin: func(w *simWorld, p *simProcess) { w.rollTo(p, w.settings.Shards/2) },
		lasts: time.Minute, gap: plannedGap,
		needs: ruleWarm,
	},
}

// TestStories lets each fault happen by itself, and wants that no shard is served twice, nor left: what is
// admitted, and the calls, are what the invariants go by.
func TestStories(t *testing.T) {
	for name, tc := range simStories {
		t.Run(name, func(t *testing.T) {
			if found := search(1, storySeeds, func(seed uint64) *simWorld { return tc.simulate(seed, noRule, false) }); found != nil {
				for _, line := range tc.simulate(found.seed, noRule, true).trace {
					t.Log(line)
				}
				t.Fatalf("seed %d: %s", found.seed, found.violation.text)
			}
		})
	}
}

// TestStoriesFindMissingRules switches off the rule that a story needs. Else it would tell nothing.
func TestStoriesFindMissingRules(t *testing.T) {
	for name, tc := range simStories {
		if tc.needs == noRule {
			continue
		}
		t.Run(name, func(t *testing.T) {
			found := search(1, storySeeds, func(seed uint64) *simWorld { return tc.simulate(seed, tc.needs, false) })
			if found == nil {
				t.Fatalf("no violation although nobody keeps the rule: %s", simRules[tc.needs-1].name)
			}
			t.Logf("seed %d: %s", found.seed, found.violation.text)
		})
	}
}

func (s simStory) simulate(seed uint64, off simRule, tracing bool) *simWorld {
	w := newSimWorld(seed, 8, 3)
	w.off, w.tracing, w.neverOverruns = off, tracing, true
	w.begin()
	w.run(10 * time.Second)
	before := slices.Clone(w.owners)
	s.begin(w, w.processes[w.rng.IntN(3)])
	if worst := w.longestUnserved(s.lasts); s.gap > 0 && worst > s.gap {
		w.fail("I2", "a shard was not served for %s, at most %s are promised", worst, s.gap)
	}
	if s.still && !slices.Equal(before, w.owners) {
		w.fail("I4", "the shards were owned by %v and are by %v", before, w.owners)
	}
	if s.end != nil {
		s.end(w)
	}
	w.warming = 0
	w.calm()
	w.runUntil(w.isSettled, 120*time.Second)
	if w.violation == nil {
		w.assertServed("at the end")
		w.assertHome()
	}
	return w
}

// editP has somebody change what is stored.
func (w *simWorld) editP(change func(p *placement.Placement)) {
	edited := w.p.Clone()
	change(&edited)
	edited.Version = w.nextVersion()
	w.logf("P edited by hand")
	w.p, w.lastP = &edited, edited
	w.broadcastP()
}

func exchangeHomes(p *placement.Placement) {
	for shard, home := range p.Homes {
		if home != p.Homes[0] {
			p.Homes[0], p.Homes[shard] = home, p.Homes[0]
			return
		}
	}
}

// comeAndGo scales from three to four and back so many times in a minute. As of a StatefulSet, the Pod is
// told to stop, and follows only once it is gone.
func (w *simWorld) comeAndGo(times int) {
	pause := time.Minute / time.Duration(2*times)
	member := membersOf(4)[3]
	for n := range times {
		w.after(time.Duration(2*n)*pause, func() { w.scale(4); w.startLater(member) })
		w.after(time.Duration(2*n+1)*pause, func() {
			w.scale(3)
			for _, p := range w.processes {
				if p.member == member {
					p.run(func() { p.step(Stopping{}) })
				}
			}
		})
	}
}

// startLater starts a member in a new Pod once its old one is gone.
func (w *simWorld) startLater(member Member) {
	isThere := slices.ContainsFunc(w.processes, func(p *simProcess) bool { return p.member == member && !p.gone() })
	switch {
	case !slices.Contains(w.members, member):
	case isThere:
		w.after(100*time.Millisecond, func() { w.startLater(member) })
	default:
		w.pods[member] = ""
		w.start(member)
	}
}

// rollTo has a rolling update put a process with another S in the place of one, and P deleted as it starts.
// The update is taken back after half a minute.
func (w *simWorld) rollTo(old *simProcess, shards int) {
	old.run(func() { old.step(Stopping{}) })
	w.after(3*time.Second, func() {
		w.pods[old.member] = ""
		w.deleteP()
		w.startWith(old.member, Settings{Shards: shards, Hash: placement.HashFNV1aMix})
	})
	w.after(30*time.Second, func() {
		for _, p := range w.processes {
			if p.settings != w.settings {
				w.fail("I3", "%s goes on with %d shards, there are %d", p.identity, p.settings.Shards, w.settings.Shards)
			}
		}
		w.pods[old.member] = ""
		w.fill()
	})
}
