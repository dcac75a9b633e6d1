package sharding

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestSimulation runs a few hundred installations through random joins, leaves, crashes, pauses,
// lagging views and outages, checks I1, I3, I4, I5 and I6 after every event, and I2 at the end of
// each.
func TestSimulation(t *testing.T) {
	seeds := int64(300)
	if testing.Short() {
		seeds = 50
	}
	folds, foldMoves := 0, 0
	for seed := int64(1); seed <= seeds; seed++ {
		w := simulate(t, seed)
		folds, foldMoves = folds+w.folds, foldMoves+w.foldMoves
	}
	if folds < int(seeds) || foldMoves < int(seeds) {
		t.Errorf("weights were folded %d times, moving %d homes: that tests little", folds, foldMoves)
	}
	t.Logf("weights were folded %d times, moving %d homes", folds, foldMoves)
}

func simulate(t *testing.T, seed int64) *simWorld {
	w := newSimWorld(t, seed, 8, 3)
	if seed%3 > 0 { // else weights stay out of it
		w.load()
	}
	for i := range 3 {
		w.start(Member(fmt.Sprintf("redis-operator-%d", i)))
	}
	w.run(40 * time.Second)
	w.assertServed("after the start")
	for range 12 {
		w.disturb()
		w.run(time.Duration(w.rng.Intn(8000)) * time.Millisecond)
	}
	w.calm()
	w.run(60 * time.Second)
	w.assertServed("at the end")
	w.assertHome()
	return w
}

// TestFailoverTimes checks what I2 promises, with the default timings and in the time of the
// simulation: how long nobody serves a shard after its owner is gone and nobody takes its place.
func TestFailoverTimes(t *testing.T) {
	const warming = 300 * time.Millisecond // the most that Warm takes here
	cases := map[string]struct {
		end   func(*simWorld, *simProcess) // at time zero
		bound time.Duration
	}{
		"stopped": {
			func(_ *simWorld, p *simProcess) { p.run(func() { p.step(Stopping{}) }) },
			// Drains last up to 100 ms here.
			100*time.Millisecond + 250*time.Millisecond,
		},
		"death confirmed": {
			func(w *simWorld, p *simProcess) { p.dead = true; w.confirm(p.identity) },
			2*time.Second + warming,
		},
		"death unconfirmed": {
			func(_ *simWorld, p *simProcess) { p.dead = true },
			DefaultLeaseDuration + 2*time.Second + warming,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for seed := int64(1); seed <= 20; seed++ {
				w := newSimWorld(t, seed, 8, 3)
				w.neverOverruns = true
				for i := range 3 {
					w.start(Member(fmt.Sprintf("redis-operator-%d", i)))
				}
				w.run(40 * time.Second)
				w.assertServed("after the start")
				tc.end(w, w.processes[w.rng.Intn(3)])
				if worst := w.longestUnserved(40 * time.Second); worst > tc.bound {
					w.fatalf("I2: a shard was not served for %s, at most %s are promised", worst, tc.bound)
				}
				w.assertServed("at the end")
			}
		})
	}
}

// longestUnserved lets time pass and returns for how long at a stretch some shard was not served.
func (w *simWorld) longestUnserved(d time.Duration) time.Duration {
	const step = 5 * time.Millisecond
	unserved, worst := make([]time.Duration, len(w.leases)), time.Duration(0)
	for passed := time.Duration(0); passed < d; passed += step {
		w.run(step)
		for shard := range w.leases {
			unserved[shard] += step
			if w.isServed(Shard(shard)) {
				unserved[shard] = 0
			}
			worst = max(worst, unserved[shard])
		}
	}
	return worst
}

// disturb lets one random thing happen.
func (w *simWorld) disturb() {
	p := w.processes[w.rng.Intn(len(w.processes))]
	if len(w.costs) > 0 {
		w.shift()
	}
	switch w.rng.Intn(11) {
	case 0:
		w.scale(1 + w.rng.Intn(5))
		w.fill()
	case 1:
		p.crash(true)
	case 2:
		p.crash(false)
	case 3:
		p.pause(time.Duration(w.rng.Intn(30)) * time.Second)
	case 4:
		p.lag = time.Duration(w.rng.Intn(6000)) * time.Millisecond
	case 5:
		w.outage(time.Duration(w.rng.Intn(25)) * time.Second)
	case 6:
		w.deleteP()
	case 7:
		shard := Shard(w.rng.Intn(len(w.leases)))
		if !w.leases[shard].missing {
			w.logf("Lease %d deleted", shard)
			w.changeLease(shard, simLease{missing: true})
		}
	case 8:
		p.stop()
	case 9:
		p.forceDelete()
	case 10:
		w.garbleP()
	}
}

// fill starts a process for every expected member that has none.
func (w *simWorld) fill() {
	running := map[Member]bool{}
	for _, p := range w.processes {
		if !p.gone() && p.podUID == w.pods[p.member] {
			running[p.member] = true
		}
	}
	for _, member := range w.expected().Members {
		if !running[member] {
			w.start(member)
		}
	}
}

// crash kills a process; the kubelet restarts its container and reports, or its Node is lost and a
// new Pod takes its name.
func (p *simProcess) crash(confirmed bool) {
	if p.gone() {
		return
	}
	p.w.logf("%s crashes, confirmed=%v", p.identity, confirmed)
	p.dead = true
	identity := p.identity
	if confirmed {
		p.w.after(time.Second, func() { p.w.confirm(identity) })
	} else if p.w.pods[p.member] == p.podUID {
		p.w.pods[p.member] = ""
	}
	p.w.after(p.w.restartAfter(), func() { p.w.fill() })
}

// restartAfter is mostly short; sometimes a Pod stays away for long.
func (w *simWorld) restartAfter() time.Duration {
	if w.rng.Intn(3) == 0 {
		return 40 * time.Second
	}
	return 2 * time.Second
}

func (p *simProcess) pause(d time.Duration) {
	if p.gone() || p.paused {
		return
	}
	p.w.logf("%s pauses for %s", p.identity, d)
	p.paused = true
	p.w.after(d, func() {
		p.w.logf("%s resumes", p.identity)
		p.paused = false
		held := p.held
		p.held = nil
		for _, work := range held {
			p.run(work)
		}
	})
}

// stop ends a process as a rolling restart does: a new Pod follows.
func (p *simProcess) stop() {
	if p.gone() {
		return
	}
	p.w.logf("%s is told to stop", p.identity)
	p.run(func() { p.step(Stopping{}) })
	p.w.after(30*time.Second, func() {
		p.dead = true
		if p.w.pods[p.member] == p.podUID {
			p.w.pods[p.member] = ""
		}
		p.w.fill()
	})
}

// forceDelete removes the Pod object while the process runs on; a new Pod takes its name.
func (p *simProcess) forceDelete() {
	if p.gone() || p.w.pods[p.member] != p.podUID {
		return
	}
	p.w.logf("Pod of %s is force-deleted", p.identity)
	p.w.pods[p.member] = ""
	p.w.fill()
}

func (w *simWorld) outage(d time.Duration) {
	w.logf("the API is away for %s", d)
	w.down = true
	w.after(d, func() { w.down = false; w.logf("the API is back") })
}

// calm ends all disturbances.
func (w *simWorld) calm() {
	w.logf("calm")
	w.run(30 * time.Second)
	w.down = false
	for _, p := range w.processes {
		p.lag = 0
	}
	w.fill()
}

// assertServed asserts I2: every shard is admitted by somebody who may act.
func (w *simWorld) assertServed(when string) {
	w.t.Helper()
	for shard := range w.leases {
		if !w.isServed(Shard(shard)) {
			for _, p := range w.processes {
				if !p.gone() {
					c := p.claims[shard]
					w.logf("%s: acting=%s machine=%+v claim={started=%v releasing=%v busy=%v epoch=%s seen=%+v} lease=%+v", p.identity,
						p.machine.acting[shard], p.machine.shards[shard], c.started, c.releasing, c.busy, c.epoch, c.seen, w.leases[shard])
				}
			}
			w.fatalf("I2: %s nobody serves shard %d, held by %q", when, shard, w.leases[shard].holder)
		}
	}
}

// isServed tells whether somebody admits work of a shard and may act on it.
func (w *simWorld) isServed(shard Shard) bool {
	return slices.ContainsFunc(w.processes, func(p *simProcess) bool { return p.canAct(shard) && p.admitted[shard] })
}

// assertHome asserts I4: after the trouble every shard is where it belongs.
func (w *simWorld) assertHome() {
	w.t.Helper()
	for shard := range w.leases {
		if home := w.p.Homes[shard]; w.leases[shard].holder.Member() != home {
			w.fatalf("I4: shard %d is held by %s, its home is %s", shard, w.leases[shard].holder, home)
		}
	}
}
