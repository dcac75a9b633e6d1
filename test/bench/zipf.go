package bench

import (
	"io"
	"slices"

	"example.com/redis-operator/sharding/placement"
)

const (
	zipfSeeds     = 20
	leastReplicas = 2
	mostReplicas  = 20
	churnMinutes  = 60
	foldMinutes   = 5 // between two foldings of the published costs
)

// zipfSettings are those of an installation that chooses none: 64 shards.
func zipfSettings() placement.Settings { return placement.DefaultSettings() }

// Zipf measures how evenly shards are spread over replicas where few namespaces have most of the
// clusters: 20 loads, the worst of all.
//
// max_over_bound is the weight of the most loaded replica over that of the mean or of the heaviest
// shard, whichever is more: with 2 to 20 replicas and back, one at a time, and at the end of every
// five minutes of an hour of churn with each of 2 to 20 replicas, when the costs that the processes
// have published were folded. Weights are the clusters that there are, not what is published of
// them. moves_per_shard_max is how often one shard moved in such an hour.
//
// Beside them: scaling_max_over_bound is the first part alone, before_fold_max_over_bound what the
// last five minutes of churn made of a placement that could not know of it, by_number_max_over_bound
// the first part without weights, and moves_per_hour and writes_per_hour the homes that moved and
// the versions of P in an hour of churn, on average.
func Zipf(out io.Writer) {
	var worst zipfFigures
	for seed := range uint64(zipfSeeds) {
		worst.scale(newZipfLoad(seed))
		for replicas := leastReplicas; replicas <= mostReplicas; replicas++ {
			worst.replay(newZipfLoad(seed), replicas)
		}
	}
	figures := report{out: out, scenario: "zipf"}
	figures.figure("max_over_bound", max(worst.scaling, worst.afterFold), "ratio")
	figures.figure("moves_per_shard_max", float64(worst.moves), "moves")
	figures.figure("scaling_max_over_bound", worst.scaling, "ratio")
	figures.figure("before_fold_max_over_bound", worst.beforeFold, "ratio")
	figures.figure("by_number_max_over_bound", worst.byNumber, "ratio")
	figures.figure("moves_per_hour", float64(worst.allMoves)/float64(worst.hours), "moves")
	figures.figure("writes_per_hour", float64(worst.writes)/float64(worst.hours), "writes")
}

type zipfFigures struct {
	scaling, afterFold, beforeFold, byNumber float64
	moves                                    int // of one shard in one hour
	allMoves, writes, hours                  int
}

// scale goes from 2 replicas to 20 and back.
func (f *zipfFigures) scale(load *zipfLoad) {
	costs := load.costs()
	byNumber := placement.Place(placement.New(zipfSettings(), placement.Timings{}), operatorMembers(leastReplicas))
	byWeight := byNumber.Fold(costs)
	for step := leastReplicas; step <= 2*mostReplicas-leastReplicas; step++ {
		members := operatorMembers(min(step, 2*mostReplicas-step))
		byNumber, byWeight = placement.Place(byNumber, members), placement.Place(byWeight, members)
		f.byNumber = max(f.byNumber, overBound(byNumber, costs))
		f.scaling = max(f.scaling, overBound(byWeight, costs))
	}
}

// replay lets an hour pass with a number of replicas. Owners look at their costs every minute, and
// publish what has changed enough.
func (f *zipfFigures) replay(load *zipfLoad, replicas int) {
	published := load.costs()
	p := placement.Place(placement.New(zipfSettings(), placement.Timings{}), operatorMembers(replicas)).Fold(published)
	moves := make([]int, p.Shards)
	for minute := 1; minute <= churnMinutes; minute++ {
		load.churn()
		costs := load.costs()
		for shard, cost := range costs {
			if !cost.IsNear(published[shard]) {
				published[shard] = cost
			}
		}
		if minute%foldMinutes != 0 {
			continue
		}
		f.beforeFold = max(f.beforeFold, overBound(p, costs))
		next := p.Fold(published)
		f.afterFold = max(f.afterFold, overBound(next, costs))
		if !next.Equal(p) {
			f.writes++
		}
		for shard := range moves {
			if next.Homes[shard] != p.Homes[shard] {
				moves[shard]++
				f.allMoves++
			}
		}
		p = next
	}
	f.hours++
	f.moves = max(f.moves, slices.Max(moves))
}

// overBound compares the most loaded replica with the mean or the heaviest shard, by the clusters
// that there are.
func overBound(p placement.Placement, costs map[placement.Shard]placement.Cost) float64 {
	loads := make(map[placement.Member]int)
	total, heaviest, most := 0, 0, 0
	for shard, home := range p.Homes {
		clusters := costs[placement.Shard(shard)].Objects
		loads[home] += clusters
		total += clusters
		heaviest = max(heaviest, clusters)
		most = max(most, loads[home])
	}
	return float64(most) / max(float64(total)/float64(len(p.Expected)), float64(heaviest))
}
