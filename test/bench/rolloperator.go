package bench

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"example.com/redis-operator/sharding/placement"
	"example.com/redis-operator/test/stage"
)

// Roll restarts the operator's StatefulSet as `kubectl rollout restart` does, rounds times with 3 replicas
// and as often with 5, with nothing else going on:
//
//   - unowned_ms_per_shard_p99: for how long nobody worked on a shard in one such restart, all its gaps
//     to the first reconcile together, over all shards and restarts
//   - moves_per_shard_max: how often the most moved shard came to another process in one restart
func Roll(ctx context.Context, out io.Writer, rounds int) (err error) {
	o, err := openOwnership(ctx, out, "roll", placement.DefaultShards)
	if err != nil {
		return err
	}
	defer func() { o.close(ctx, err) }()
	var unowned []float64
	most := 0
	for _, replicas := range []int32{3, 5} {
		if err := o.ScaleOperator(ctx, replicas); err != nil {
			return err
		}
		for round := range rounds {
			if err := o.settled(ctx, replicas); err != nil {
				return err
			}
			result, err := o.roll(ctx, replicas)
			if err != nil {
				return fmt.Errorf("round %d with %d replicas: %w", round, replicas, err)
			}
			o.note("%d replicas, round %d: unowned for %.0f ms at most, moved %d times at most",
				replicas, round, slices.Max(result.unowned), result.moves)
			unowned = append(unowned, result.unowned...)
			most = max(most, result.moves)
		}
	}
	o.figure("unowned_ms_per_shard_p99", percentile(unowned, 0.99), "ms")
	o.figure("unowned_ms_per_shard_p50", median(unowned), "ms")
	o.figure("moves_per_shard_max", float64(most), "moves")
	o.overlaps()
	return nil
}

type rolled struct {
	unowned []float64 // milliseconds, one a shard
	moves   int
}

// roll restarts all replicas once.
func (o *ownership) roll(ctx context.Context, replicas int32) (rolled, error) {
	began, err := stage.MonotonicNow()
	if err != nil {
		return rolled{}, err
	}
	owners := stage.Takeovers(o.log.Transitions())
	if err := o.restart(ctx); err != nil {
		return rolled{}, err
	}
	if err := o.settled(ctx, replicas); err != nil {
		return rolled{}, err
	}
	sums, moves := map[int]time.Duration{}, map[int]int{}
	for shard := range owners {
		sums[shard] = 0
	}
	gaps, err := o.gapsSince(ctx, began)
	if err != nil {
		return rolled{}, err
	}
	for _, gap := range gaps {
		sums[gap.Shard] += gap.Length()
		if gap.Moved() {
			moves[gap.Shard]++
		}
	}
	var result rolled
	for shard, sum := range sums {
		result.unowned = append(result.unowned, millis(sum))
		result.moves = max(result.moves, moves[shard])
	}
	return result, nil
}

// restart begins a rolling restart of the operator.
func (o *ownership) restart(ctx context.Context) error {
	_, err := o.Kubectl(ctx, "rollout", "restart", "-n", stage.OperatorNamespace, "statefulset/"+stage.OperatorStatefulSet)
	return err
}
