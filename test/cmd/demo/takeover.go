package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"example.com/redis-operator/test/stage"
)

// killReplica kills one operator replica with SIGKILL and shows for each of its shards the gap: from
// the kill, after which the old process admitted nothing, to the first moment at which another
// process admitted work. A Lease that changed its name proves nothing and is not looked at.
func (d *demo) killReplica(ctx context.Context) error {
	victim := stage.OperatorStatefulSet + "-1"
	before, err := d.admissions(ctx)
	if err != nil {
		return err
	}
	lost := shardsOf(before, victim)
	if len(lost) == 0 {
		return fmt.Errorf("%s admits no shard, so that killing it would show nothing", victim)
	}
	killed, err := d.kill(ctx, victim)
	if err != nil {
		return err
	}
	d.say("killed %s, which admitted %d shards", victim, len(lost))
	taken, err := d.waitTaken(ctx, before, lost)
	if err != nil {
		return err
	}
	d.showGaps(killed, taken)
	if err := d.stage.WaitOperator(ctx, stage.OperatorReplicas); err != nil {
		return err
	}
	if err := d.stage.WaitSettled(ctx, stage.OperatorReplicas); err != nil {
		return err
	}
	d.say("every shard is held by its home again")
	return nil
}

// admissions is, for each shard, the newest admission in the present logs.
func (d *demo) admissions(ctx context.Context) (map[int]stage.Takeover, error) {
	transitions, err := d.stage.AllTransitions(ctx)
	if err != nil {
		return nil, err
	}
	return stage.Takeovers(transitions), nil
}

func shardsOf(admissions map[int]stage.Takeover, pod string) []int {
	var shards []int
	for shard, takeover := range admissions {
		if takeover.Pod == pod {
			shards = append(shards, shard)
		}
	}
	slices.Sort(shards)
	return shards
}

// kill ends the replica's process without a chance to say goodbye, and returns when it did so. On a
// cluster whose Nodes are out of reach, deleting the Pod without grace is the nearest thing.
func (d *demo) kill(ctx context.Context, pod string) (time.Duration, error) {
	killed, err := stage.MonotonicNow()
	if err != nil {
		return 0, err
	}
	if d.stage.Local != nil {
		return killed, d.stage.Local.KillPod(ctx, stage.OperatorNamespace, pod)
	}
	return killed, d.stage.Kubernetes.CoreV1().Pods(stage.OperatorNamespace).
		Delete(ctx, pod, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
}

// waitTaken waits until every lost shard was admitted by an identity other than the killed one, and
// reconciled something where it has something to reconcile.
func (d *demo) waitTaken(ctx context.Context, before map[int]stage.Takeover, lost []int) (map[int]stage.Takeover, error) {
	busy, err := d.busyShards(ctx)
	if err != nil {
		return nil, err
	}
	taken := map[int]stage.Takeover{}
	err = d.stage.Wait(ctx, "the killed replica's shards to be taken", func() (string, error) {
		now, err := d.admissions(ctx)
		if err != nil {
			return "", err
		}
		for _, shard := range lost {
			takeover, ok := now[shard]
			if !ok || takeover.Identity == before[shard].Identity || (busy[shard] && takeover.FirstReconcile == 0) {
				continue
			}
			if _, known := taken[shard]; !known {
				taken[shard] = takeover
			}
		}
		if len(taken) < len(lost) {
			return fmt.Sprintf("%d of %d taken", len(taken), len(lost)), nil
		}
		return "", nil
	})
	return taken, err
}

// busyShards are the shards with a RedisCluster in them.
func (d *demo) busyShards(ctx context.Context) (map[int]bool, error) {
	p, err := d.stage.Placement(ctx)
	if err != nil {
		return nil, err
	}
	busy := map[int]bool{}
	for _, w := range d.fleet {
		busy[int(p.ShardOf(w.Namespace))] = true
	}
	return busy, nil
}

func (d *demo) showGaps(killed time.Duration, taken map[int]stage.Takeover) {
	byIdentity := map[string]int{}
	var gaps, reconciles []time.Duration
	for _, takeover := range taken {
		byIdentity[takeover.Identity]++
		gaps = append(gaps, takeover.Admitted-killed)
		if takeover.FirstReconcile > 0 {
			reconciles = append(reconciles, takeover.FirstReconcile-killed)
		}
	}
	for identity, count := range byIdentity {
		d.say("%d shards taken by %s", count, identity)
	}
	if d.stage.Local == nil {
		d.say("the gap is not shown: the Nodes of this cluster do not share a clock")
		return
	}
	d.say("gap, from the kill to the first admission: median %d ms, longest %d ms",
		stage.Median(gaps).Milliseconds(), slices.Max(gaps).Milliseconds())
	if len(reconciles) > 0 {
		d.say("from the kill to the new owner's first reconcile: median %d ms, longest %d ms (%d shards with clusters)",
			stage.Median(reconciles).Milliseconds(), slices.Max(reconciles).Milliseconds(), len(reconciles))
	}
}
