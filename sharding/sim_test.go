package sharding

import (
	"flag"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"
)

var (
	simSeed = flag.Uint64("sim.seed", 0, "run this seed of the simulation alone, and print what happens")
	simFrom = flag.Uint64("sim.from", 1, "the first seed of the simulation to run")
	simRuns = flag.Uint64("sim.seeds", simSeeds, "how many seeds of the simulation to run")
)

// TestSimulation runs thousands of installations through random joins, leaves, crashes, pauses, lagging
// views, lost messages, clocks that jump and outages, checks I1, I3, I4, I5 and I6 after every event, and
// I2 at the end of each. docs/reliability.md says more.
func TestSimulation(t *testing.T) {
	seeds := *simRuns
	if testing.Short() {
		seeds = min(seeds, 100)
	}
	if *simSeed > 0 {
		replay(t, *simSeed)
		return
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // there is little to keep
	var folds, foldMoves atomic.Int64
	began := time.Now()
	found := search(*simFrom, *simFrom+seeds-1, func(seed uint64) *simWorld {
		w := simulate(seed, noRule, false)
		folds.Add(int64(w.folds))
		foldMoves.Add(int64(w.foldMoves))
		return w
	})
	if found != nil {
		replay(t, found.seed)
		t.Fatalf("seed %d was violated, and was not when it was run again: %s", found.seed, found.violation.text)
	}
	t.Logf("%d seeds, %.0f a second", seeds, float64(seeds)/time.Since(began).Seconds())
	t.Logf("weights were folded %d times, moving %d homes", folds.Load(), foldMoves.Load())
	if least := int64(seeds); folds.Load() < least || foldMoves.Load() < least { //nolint:gosec // G115: not that many
		t.Error("that tests little")
	}
}

// replay runs one seed and prints what led to a violation.
func replay(t *testing.T, seed uint64) {
	t.Helper()
	w := simulate(seed, noRule, true)
	if w.violation == nil && *simSeed == 0 {
		return
	}
	for _, line := range w.trace[max(0, len(w.trace)-150):] {
		t.Log(line)
	}
	if w.violation != nil {
		t.Fatalf("seed %d (go test ./sharding -run TestSimulation -sim.seed %d): %s", w.seed, w.seed, w.violation.text)
	}
}

func simulate(seed uint64, off simRule, tracing bool) *simWorld {
	w := newSimWorld(seed, 8, 3)
	w.off, w.tracing = off, tracing
	if seed%3 > 0 { // else weights stay out of it
		w.load()
	}
	w.begin()
	for range 12 {
		if w.violation != nil {
			return w
		}
		w.disturb()
		w.run(time.Duration(w.rng.IntN(8000)) * time.Millisecond)
	}
	w.calm()
	w.run(time.Second) // what was settled may be about to move
	w.runUntil(w.isSettled, 120*time.Second)
	if w.violation == nil {
		w.assertServed("at the end")
		w.assertHome()
	}
	return w
}

// begin starts three processes, which have the time that a new installation needs.
func (w *simWorld) begin() {
	for _, member := range w.members {
		w.start(member)
	}
	w.runUntil(w.isSettled, 40*time.Second)
	if w.violation == nil {
		w.assertServed("after the start")
	}
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
			func(w *simWorld, p *simProcess) { p.exit("killed"); w.confirm(p.identity) },
			2*time.Second + warming,
		},
		"death unconfirmed": {
			func(_ *simWorld, p *simProcess) { p.exit("lost") },
			DefaultLeaseDuration + 2*time.Second + warming,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			found := search(1, 20, func(seed uint64) *simWorld {
				w := newSimWorld(seed, 8, 3)
				w.neverOverruns = true
				w.begin()
				w.run(10 * time.Second)
				tc.end(w, w.processes[w.rng.IntN(3)])
				if worst := w.longestUnserved(20 * time.Second); worst > tc.bound {
					w.fail("I2", "a shard was not served for %s, at most %s are promised", worst, tc.bound)
				}
				if w.violation == nil {
					w.assertServed("at the end")
				}
				return w
			})
			if found != nil {
				t.Fatalf("seed %d: %s", found.seed, found.violation.text)
			}
		})
	}
}

// longestUnserved lets time pass and returns for how long at a stretch some shard was not served.
func (w *simWorld) longestUnserved(d time.Duration) time.Duration {
	const step = 10 * time.Millisecond
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
