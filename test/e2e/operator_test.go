package e2e

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"example.com/redis-operator/test/stage"
)

// The stories of this file disturb the operator's replicas and so run one after the other.

// fleetOf are small clusters spread over the shards: the operator's work during a story.
func fleetOf(prefix string, n int) []stage.Wish {
	var fleet []stage.Wish
	for i := range n {
		fleet = append(fleet, stage.Wish{Namespace: fmt.Sprintf("%s-%d", prefix, i), Name: "cache", Size: 1})
	}
	return fleet
}

func keysOf(fleet []stage.Wish) []types.NamespacedName {
	var names []types.NamespacedName
	for _, w := range fleet {
		names = append(names, w.Key())
	}
	return names
}

// works creates more clusters and sees them Ready.
func works(ctx context.Context, t *testing.T, prefix string) {
	t.Helper()
	create(ctx, t, fleetOf(prefix, 3)...)
}

func TestOperatorKilled(t *testing.T) {
	localOnly(t)
	ctx := story(t)
	fleet := fleetOf("kill", 4)
	create(ctx, t, fleet...)
	settled(ctx, t, stage.OperatorReplicas)
	victim := stage.OperatorStatefulSet + "-1"
	before := stage.Takeovers(env.log.Transitions())
	killed, err := stage.MonotonicNow()
	if err != nil {
		t.Fatal(err)
	}
	if err := env.Local.KillPod(ctx, stage.OperatorNamespace, victim); err != nil {
		t.Fatal(err)
	}
	env.log.Killed(stage.Kill{Pod: victim, At: killed})
	err = env.Wait(ctx, "every shard of "+victim+" to be admitted by another process", func() (string, error) {
		now := stage.Takeovers(env.log.Transitions())
		missing := 0
		for shard, takeover := range before {
			if takeover.Pod == victim && (now[shard].Identity == "" || now[shard].Identity == takeover.Identity) {
				missing++
			}
		}
		if missing > 0 {
			return fmt.Sprintf("%d shards are not", missing), nil
		}
		return "", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	works(ctx, t, "killed")
	waitReady(ctx, t, keysOf(fleet)...)
	settled(ctx, t, stage.OperatorReplicas)
	checkExclusion(t)
}

func TestOperatorScales(t *testing.T) {
	ctx := story(t)
	fleet := fleetOf("scale", 4)
	create(ctx, t, fleet...)
	settled(ctx, t, stage.OperatorReplicas)
	for _, replicas := range []int32{5, 2, stage.OperatorReplicas} {
		before, err := env.Placement(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := env.ScaleOperator(ctx, replicas); err != nil {
			t.Fatal(err)
		}
		settled(ctx, t, int(replicas))
		after, err := env.Placement(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if moved, optimum := stage.MovedHomes(before, after); moved != optimum {
			t.Errorf("%d -> %d replicas moved %d shards, the least possible is %d",
				len(before.Expected), replicas, moved, optimum)
		}
		works(ctx, t, fmt.Sprintf("scaled-%d", replicas))
	}
	waitReady(ctx, t, keysOf(fleet)...)
	checkExclusion(t)
}

func TestOperatorRolls(t *testing.T) {
	ctx := story(t)
	fleet := fleetOf("roll", 4)
	create(ctx, t, fleet...)
	settled(ctx, t, stage.OperatorReplicas)
	before := stage.Moves(env.log.Transitions())
	homes, err := env.Placement(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := env.Kubectl(ctx, "rollout", "restart", "-n", stage.OperatorNamespace, "statefulset/"+stage.OperatorStatefulSet); err != nil {
		t.Fatal(err)
	}
	if err := env.WaitOperator(ctx, stage.OperatorReplicas); err != nil {
		t.Fatal(err)
	}
	settled(ctx, t, stage.OperatorReplicas)
	after, err := env.Placement(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if moved, _ := stage.MovedHomes(homes, after); moved != 0 {
		t.Errorf("%d homes moved in a rolling restart, want none", moved)
	}
	for shard, count := range stage.Moves(env.log.Transitions()) {
		if moves := count - before[shard]; moves > 2 {
			t.Errorf("shard %d moved %d times in a rolling restart, want at most 2", shard, moves)
		}
	}
	works(ctx, t, "rolled")
	waitReady(ctx, t, keysOf(fleet)...)
	checkExclusion(t)
}

func settled(ctx context.Context, t *testing.T, members int) {
	t.Helper()
	if err := env.WaitSettled(ctx, members); err != nil {
		t.Fatal(err)
	}
}

// checkExclusion: whatever the replicas have logged since the start, no two admitted one shard at
// one time. Without a clock in common only their epochs can be held against each other.
func checkExclusion(t *testing.T) {
	t.Helper()
	if env.Local == nil {
		t.Log("the Nodes of this cluster do not share a clock: exclusion is checked by epochs alone")
	}
	for _, overlap := range env.log.Overlaps() {
		t.Error(overlap)
	}
}
