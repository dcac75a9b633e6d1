package sharding

import (
	"maps"
	"slices"
	"time"

	"example.com/redis-operator/sharding/placement"
)

const (
	simFoldEvery    = 10 * time.Second
	simMeasureEvery = 3 * time.Second
)

// measure has a process measure its shards again and again.
func (p *simProcess) measure() {
	if p.gone() {
		return
	}
	p.run(func() { p.step(CostsMeasured{Costs: maps.Clone(p.w.costs)}) })
	p.w.after(simMeasureEvery, p.measure)
}

// load gives every shard a cost.
func (w *simWorld) load() {
	for shard := range w.leases {
		w.costs[Shard(shard)] = placement.Cost{Objects: 10 + w.rng.IntN(40)}
	}
}

// shift makes one shard cheap or dear.
func (w *simWorld) shift() {
	shard := Shard(w.rng.IntN(len(w.leases)))
	w.costs[shard] = placement.Cost{Objects: 10 + w.rng.IntN(90), Milliseconds: w.rng.IntN(4000)}
	w.logf("shard %d costs %v", shard, w.costs[shard])
}

// checkFold asserts what holds of a P that is to be stored over another, where weights are at stake:
// they change at most every so often, by the process that is to act for shard 0 alone, and while
// they stay as they are, homes move only with the expected members (I4).
func (w *simWorld) checkFold(writer Identity, next placement.Placement) {
	if w.p == nil { // made again from a copy, whose weights may be older
		if !maps.Equal(w.lastP.Weights, next.Weights) {
			w.weightsAt = 0
		}
		return
	}
	sameMembers := slices.Equal(w.p.Expected, next.Expected)
	if maps.Equal(w.p.Weights, next.Weights) {
		if moved := w.p.Moves(next); sameMembers && moved > 0 && len(w.p.Expected) > 0 {
			w.fail("I4", "%d homes moved though neither members nor weights have changed", moved)
		}
		return
	}
	if folder, ok := w.p.ActingIdentity(0); !ok || folder != writer {
		w.fail("I3", "%s changes the weights, %q is to act for shard 0", writer, folder)
	}
	if since := w.at - w.weightsAt; w.weightsAt > 0 && since < simFoldEvery {
		w.fail("I4", "the weights change %s after they did", since)
	}
	if sameMembers {
		if most := placement.Place(withWeights(*w.p, next.Weights), next.Expected); w.p.Moves(next) != w.p.Moves(most) {
			w.fail("I4", "%d homes moved for the weights, Place moves %d", w.p.Moves(next), w.p.Moves(most))
		}
		w.foldMoves += w.p.Moves(next)
	}
	w.weightsAt = w.at
	w.folds++
}

func withWeights(p placement.Placement, weights map[Shard]int64) placement.Placement {
	p = p.Clone()
	p.Weights = weights
	return p
}
