package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"example.com/redis-operator/sharding/placement"
	"example.com/redis-operator/test/stage"
)

// roundLimit bounds what one round of a scenario about ownership waits for.
const roundLimit = 3 * time.Minute

// ownership is a stage with the operator whose replicas' logs are followed: what they say of their shards
// is what the scenarios about ownership measure.
type ownership struct {
	*stage.Stage
	report
	log     *stage.LogCollector
	tenants []types.NamespacedName // the paused RedisClusters
}

// openOwnership installs the operator, with a RedisCluster in each of so many namespaces, at least one a
// shard. What these cost is little: they are paused.
func openOwnership(ctx context.Context, out io.Writer, scenario string, namespaces int) (*ownership, error) {
	s, err := openStage(ctx, out)
	if err != nil {
		return nil, err
	}
	o := &ownership{Stage: s, report: report{out: out, scenario: scenario}, log: s.CollectLogs()}
	o.tenants, err = o.createPaused(ctx, spread(namespaces, placement.DefaultSettings()))
	if err == nil {
		err = o.settled(ctx, stage.OperatorReplicas)
	}
	if err != nil {
		o.close(ctx, err)
		return nil, err
	}
	return o, nil
}

// close takes everything down, after an error with what there is to see.
func (o *ownership) close(ctx context.Context, err error) {
	if err != nil {
		o.Report(ctx, o.out)
	}
	o.log.Stop()
	o.Close()
}

// settled waits until that many replicas are ready and every shard was admitted by the replica that holds
// it, as far as the logs tell.
func (o *ownership) settled(ctx context.Context, replicas int32) error {
	ctx, cancel := context.WithTimeoutCause(ctx, roundLimit, fmt.Errorf("not within %s", roundLimit))
	defer cancel()
	if err := o.WaitOperator(ctx, replicas); err != nil {
		return err
	}
	if err := o.WaitSettled(ctx, int(replicas)); err != nil {
		return err
	}
	return o.Wait(ctx, "the logs to tell of every shard", func() (string, error) {
		holders, err := o.Holders(ctx)
		if err != nil {
			return "", err
		}
		now := stage.Takeovers(o.log.Transitions())
		for shard, pod := range holders {
			if now[shard].Pod != pod {
				return fmt.Sprintf("shard %d, held by %s", shard, pod), nil
			}
		}
		return "", nil
	})
}

// held is which shards a Pod's process admits, and its identity.
func (o *ownership) held(pod string) (shards []int, identity string) {
	for shard, takeover := range stage.Takeovers(o.log.Transitions()) {
		if takeover.Pod == pod {
			shards, identity = append(shards, shard), takeover.Identity
		}
	}
	return shards, identity
}

// waitGaps waits until each of the shards was taken from the process of an identity and reconciled, and
// returns these gaps.
func (o *ownership) waitGaps(ctx context.Context, shards []int, from string) ([]stage.Gap, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, roundLimit, fmt.Errorf("not within %s", roundLimit))
	defer cancel()
	var gaps []stage.Gap
	err := o.Wait(ctx, "the shards of "+from+" to be reconciled by another process", func() (string, error) {
		gaps = slices.DeleteFunc(o.log.Gaps(), func(g stage.Gap) bool { return g.From != from || !g.Moved() || g.Reconciled == 0 })
		if len(gaps) < len(shards) {
			return fmt.Sprintf("%d of %d are", len(gaps), len(shards)), nil
		}
		return "", nil
	})
	return gaps, err
}

// gapsSince returns the gaps that began after a moment, once all shards are settled. There has to be a root
// object in each shard.
func (o *ownership) gapsSince(ctx context.Context, began time.Duration) ([]stage.Gap, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, roundLimit, fmt.Errorf("not within %s", roundLimit))
	defer cancel()
	var gaps []stage.Gap
	err := o.Wait(ctx, "a reconcile of every shard that has moved", func() (string, error) {
		gaps = slices.DeleteFunc(o.log.Gaps(), func(g stage.Gap) bool { return g.Start < began })
		// Where a shard moved on before anything was reconciled, the last admission tells.
		waiting := map[int]bool{}
		for _, gap := range gaps {
			waiting[gap.Shard] = gap.Reconciled == 0
		}
		for shard, is := range waiting {
			if is {
				return fmt.Sprintf("shard %d was not reconciled", shard), nil
			}
		}
		return "", nil
	})
	return gaps, err
}

// quietTime is for how long the writes at rest are counted.
const quietTime = 20 * time.Second

// leaseWrites prints what the Leases cost while nothing happens.
func (o *ownership) leaseWrites(ctx context.Context) error {
	before, err := os.Stat(o.Local.AuditLog())
	if err != nil {
		return fmt.Errorf("reading the audit log: %w", err)
	}
	if err := pause(ctx, quietTime); err != nil {
		return err
	}
	writes, err := readWrites(o.Local.AuditLog(), before.Size())
	if err != nil {
		return err
	}
	o.figure("lease_writes_per_second", float64(writes.leases)/quietTime.Seconds(), "writes/s")
	return nil
}

// overlaps prints how often two processes admitted a shard at once, and how each came about.
func (o *ownership) overlaps() {
	overlaps := o.log.Overlaps()
	for _, overlap := range overlaps {
		o.note("overlap: %s", overlap)
	}
	o.figure("overlaps", float64(len(overlaps)), "overlaps")
}

// operatorPod reads one Pod of the operator.
func (o *ownership) operatorPod(ctx context.Context, name string) (*corev1.Pod, error) {
	pods, err := o.OperatorPods(ctx)
	if err != nil {
		return nil, err
	}
	for i := range pods {
		if pods[i].Name == name {
			return &pods[i], nil
		}
	}
	return nil, errors.New("there is no Pod " + name)
}

// percentile returns the value that the given part of all values does not exceed; 0 of none.
func percentile(values []float64, part float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, int(math.Ceil(part*float64(len(sorted))))-1)]
}
