package plan_test

import (
	"slices"
	"testing"
	"time"

	"example.com/redis-operator/controllers/rediscluster/plan"
	"example.com/redis-operator/controllers/topology"
	goredis "github.com/redis/go-redis/v9"
)

// TestRealOldSnapshot kills a primary whose snapshot is older than what its replica has: in the same Pod, and in a Pod
// elsewhere. No key that the replica acknowledged may be lost.
func TestRealOldSnapshot(t *testing.T) {
	t.Parallel()
	for name, isMoved := range map[string]bool{"same Pod": false, "another Pod": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, labOptions{size: 1, replicas: 1, storage: true, config: []string{`save ""`}})
			l.settle()
			l.set("a")
			old := l.primary(0)
			l.do(old, "SAVE")
			l.set("b")
			if isMoved {
				l.replace(old)
			} else {
				l.kill(old)
				l.restart(old)
			}
			l.settle()
			l.mustHave("a")
			l.mustHave("b")
		})
	}
}

// do sends a command that is none of the operator's.
func (l *lab) do(p *labPod, args ...any) {
	l.t.Helper()
	client := goredis.NewClient(&goredis.Options{Addr: p.Address.String(), Protocol: 2})
	defer func() { _ = client.Close() }()
	if err := client.Do(l.t.Context(), args...).Err(); err != nil {
		l.t.Fatalf("%v: %v", args, err)
	}
}

// TestRealMajorityKilled leaves one primary of three, so that nobody can be elected. The operator dies after each step.
func TestRealMajorityKilled(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{size: 3, replicas: 1})
	l.settle()
	l.set("a")
	l.stopAfter = 1
	killed := []*labPod{l.primary(0), l.primary(1)}
	for _, p := range killed {
		l.kill(p)
	}
	for _, p := range killed {
		l.restart(p)
	}
	l.settle()
	l.mustHave("a")
}

// TestRealEverythingKilled kills all containers at once, without storage, after a snapshot: each group goes on with a
// copy that its disks have.
func TestRealEverythingKilled(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{size: 3, replicas: 1, config: []string{`save ""`}})
	l.settle()
	l.set("a")
	for g := range 3 {
		l.do(l.primary(g), "SAVE")
	}
	for _, p := range l.pods {
		l.kill(p)
	}
	for _, p := range l.pods {
		l.restart(p)
	}
	l.settle()
	l.mustHave("a")
}

// TestRealHungPrimary stops a primary's process, which the cluster replaces by itself, and lets it go on.
func TestRealHungPrimary(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{size: 3, replicas: 1})
	l.settle()
	l.set("a")
	old := l.primary(0)
	old.server.Pause()
	l.until("replaced", func(p plan.Plan) bool {
		return p.Facts.Primaries[0] != "" && p.Facts.Primaries[0] != old.PodName
	})
	old.server.Resume()
	l.settle()
	l.mustHave("a")
	if n := l.steps(plan.Takeover); n > 0 {
		l.t.Errorf("%d takeovers where the cluster can elect", n)
	}
}

// TestRealLostGroup loses a group with everything that it had.
func TestRealLostGroup(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{size: 3, replicas: 1})
	l.settle()
	for _, p := range slices.Clone(l.pods) {
		if p.Group == 1 {
			l.replace(p)
		}
	}
	l.until("reported", func(p plan.Plan) bool {
		return len(p.Steps) == 0 && len(p.Problems) == 1 && p.Problems[0].Kind == plan.SlotsLost && len(p.Reasons) > 0
	})
	if !l.last.Facts.Missing.Equal(topology.EvenShare(1, 3)) {
		t.Errorf("missing are %s", l.last.Facts.Missing)
	}
}

// TestRealParties finds what an operator left that died in the middle: parties that do not know each other.
func TestRealParties(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{size: 3, replicas: 1})
	for _, p := range l.pods {
		l.awaitPort(p)
	}
	ctx := t.Context()
	a, b := l.node(l.pods[0]), l.node(l.pods[2])
	for _, err := range []error{
		a.AddSlots(ctx, topology.EvenShare(0, 3)), a.Meet(ctx, l.pods[1].Address),
		b.SetConfigEpoch(ctx, 2), b.AddSlots(ctx, topology.EvenShare(1, 3)), b.Meet(ctx, l.pods[5].Address),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	l.wait(300 * time.Millisecond)
	l.settle()
	l.set("a")
}

// TestRealForeignNode has a node of another cluster answer where a Pod should.
func TestRealForeignNode(t *testing.T) {
	t.Parallel()
	other := newLab(t, labOptions{size: 3})
	other.settle()
	l := newLab(t, labOptions{size: 3, replicas: 1})
	stray := l.pods[5]
	l.kill(stray)
	stray.server, stray.Address, stray.ContainerRunning = other.pods[0].server, other.pods[0].Address, true
	l.until("reported", func(p plan.Plan) bool {
		return len(p.Problems) == 1 && p.Problems[0].Kind == plan.ForeignNode && len(l.silentPods()) == 0
	})
	for range 10 {
		l.pass()
		l.wait(50 * time.Millisecond)
	}
	for _, n := range other.view().Nodes {
		if len(n.Known) != 2 {
			t.Errorf("the other cluster knows %d nodes, want 2", len(n.Known))
		}
	}
}

// silentPods is the Pods that do not answer.
func (l *lab) silentPods() []topology.Node {
	return slices.DeleteFunc(l.view().Nodes, func(n topology.Node) bool { return n.Reachable })
}
