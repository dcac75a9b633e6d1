package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/types"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/test/stage"
)

const (
	// handoverNamespaces hold a RedisCluster each. Of handoverServers of them a node runs, and the first
	// of these hangs.
	handoverNamespaces, handoverServers = 300, 20
	// handoverChanges is how many RedisClusters are changed each second.
	handoverChanges = 65
)

// Handover moves shards while the operator works, by nothing but scaling and rolling its StatefulSet, until
// that many have moved. 300 namespaces in 64 shards have a RedisCluster each, 20 of them with a node that
// runs, of which one hangs; 65 a second are changed, each of which the operator answers with a write at
// least.
//
//   - gap_ms_p50, gap_ms_p99: from when the old owner stopped admitting to the new one's first reconcile
//   - admitted_ms_p99: to when the new one admits
//   - overlaps: shards that two processes admitted at the same time
//   - writing_reconciles_per_second: reconciles that wrote a status, over the whole time
func Handover(ctx context.Context, out io.Writer, moves int) (err error) {
	o, err := openOwnership(ctx, out, "handover", handoverNamespaces-handoverServers)
	if err != nil {
		return err
	}
	defer func() { o.close(ctx, err) }()
	clusters, err := o.createServers(ctx)
	if err != nil {
		return err
	}
	load := o.startLoad(ctx, append(clusters, o.tenants...), handoverChanges)
	defer load.stop()
	before, err := os.Stat(o.Local.AuditLog())
	if err != nil {
		return fmt.Errorf("reading the audit log: %w", err)
	}
	started := time.Now()
	h := &handover{ownership: o}
	if err := h.move(ctx, moves); err != nil {
		return err
	}
	lasted := time.Since(started)
	load.stop()
	writes, err := readWrites(o.Local.AuditLog(), before.Size())
	if err != nil {
		return err
	}
	h.note("%d changes made in %.0f s, %d could not be", load.made.Load(), lasted.Seconds(), load.failed.Load())
	h.figure("moves", float64(len(h.gaps)), "moves")
	h.figure("gap_ms_p50", median(h.gaps), "ms")
	h.figure("gap_ms_p99", percentile(h.gaps, 0.99), "ms")
	h.figure("gap_ms_max", percentile(h.gaps, 1), "ms")
	h.figure("admitted_ms_p99", percentile(h.admitted, 0.99), "ms")
	h.figure("writing_reconciles_per_second", float64(writes.statuses)/lasted.Seconds(), "reconciles/s")
	o.overlaps()
	return nil
}

type handover struct {
	*ownership
	gaps, admitted []float64 // milliseconds, one a move
}

// move scales between three and four replicas and rolls in between until enough shards have moved.
func (h *handover) move(ctx context.Context, moves int) error {
	replicas := int32(stage.OperatorReplicas)
	for step := 0; len(h.gaps) < moves; step++ {
		began, err := stage.MonotonicNow()
		if err != nil {
			return err
		}
		what := "rolling restart"
		if step%2 == 0 {
			replicas = 2*stage.OperatorReplicas + 1 - replicas
			what = fmt.Sprintf("scaled to %d", replicas)
			err = h.ScaleOperator(ctx, replicas)
		} else {
			err = h.restart(ctx)
		}
		if err != nil {
			return err
		}
		if err := h.settled(ctx, replicas); err != nil {
			return err
		}
		gaps, err := h.gapsSince(ctx, began)
		if err != nil {
			return err
		}
		h.take(what, gaps)
	}
	return nil
}

// take keeps the gaps of one step.
func (h *handover) take(what string, gaps []stage.Gap) {
	var lengths []float64
	for _, gap := range gaps {
		if !gap.Moved() {
			h.note("shard %d stopped for %.0f ms and went on where it was", gap.Shard, millis(gap.Length()))
			continue
		}
		lengths = append(lengths, millis(gap.Length()))
		h.admitted = append(h.admitted, millis(gap.Admitted-gap.Start))
	}
	h.gaps = append(h.gaps, lengths...)
	h.note("%s: %d shards moved, gaps of %.0f ms in the middle, %.0f ms at most", what, len(lengths),
		median(lengths), percentile(lengths, 1))
}

// createServers creates the RedisClusters with nodes, and has the node of the first hang.
func (o *ownership) createServers(ctx context.Context) ([]types.NamespacedName, error) {
	var keys []types.NamespacedName
	for number := range handoverServers {
		w := stage.Wish{
			Namespace: fmt.Sprintf("served-%02d", number), Name: "cache", Size: 1,
			Config: map[string]redisv1.ConfigValue{"maxmemory": "64mb"},
		}
		if err := o.Create(ctx, w); err != nil {
			return nil, err
		}
		keys = append(keys, w.Key())
	}
	if err := o.WaitReady(ctx, keys, nil); err != nil {
		return nil, err
	}
	pods, err := o.RedisPods(ctx, keys[0])
	if err != nil {
		return nil, err
	}
	for i := range pods {
		if err := o.Local.PausePod(ctx, pods[i].Namespace, pods[i].Name); err != nil {
			return nil, err
		}
	}
	o.note("%d RedisClusters, %d with a node, one of which hangs", handoverNamespaces, len(keys))
	return keys, nil
}
