package plan_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"example.com/redis-operator/controllers/rediscluster/plan"
	"example.com/redis-operator/controllers/topology"
)

// TestCrashAnywhere forms a cluster with an operator that dies after k steps of each pass, for every k up to all.
func TestCrashAnywhere(t *testing.T) {
	t.Parallel()
	for k := 1; k <= 20; k++ {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			t.Parallel()
			l := newFakeLab(t, 3, 2)
			l.stopAfter = k
			l.settle()
			l.mustBeWhole()
		})
	}
}

// mustBeWhole wants the even shares in their groups, and everybody in place.
func (l *fakeLab) mustBeWhole() {
	l.t.Helper()
	v := l.view()
	for g := range l.desired.Size {
		var owned topology.SlotSet
		for _, n := range v.InGroup(g) {
			owned = owned.Union(n.Slots)
		}
		if want := topology.EvenShare(g, l.desired.Size); !owned.Equal(want) {
			l.t.Errorf("node group %d owns %s, want %s", g, owned, want)
		}
	}
	for _, n := range v.Nodes {
		if len(n.Known) != len(v.Nodes)-1 {
			l.t.Errorf("%s knows %d others, want %d", n.PodName, len(n.Known), len(v.Nodes)-1)
		}
	}
}

// TestRandomFaults injects faults, always leaving a copy of each group's data, and wants the cluster whole in the end,
// with every key, whatever was done and when the operator died.
func TestRandomFaults(t *testing.T) {
	t.Parallel()
	shapes := [][2]int{{1, 1}, {1, 2}, {2, 1}, {3, 1}, {3, 2}, {4, 1}}
	for seed := range uint64(60) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 7))
			shape := shapes[r.IntN(len(shapes))]
			l := newFakeLab(t, shape[0], shape[1])
			l.settle()
			for g := range l.desired.Size {
				l.pod(fmt.Sprintf("c-%d-0", g)).node.Write(100)
			}
			l.cluster.Advance(time.Second)
			for range 5 {
				l.stopAfter = r.IntN(4) // 0 is never
				l.faultAnywhere(r)
				l.run(time.Duration(r.IntN(3000)) * time.Millisecond)
				l.mendAll(r)
				l.until("whole", plan.Plan.Settled)
			}
			l.mustBeWhole()
			for g := range l.desired.Size {
				l.mustHaveKeys(g, 100)
			}
		})
	}
}

// faultAnywhere hurts one node of some groups: kills it with a random part of its keys, deletes its Pod, or hangs it.
func (l *fakeLab) faultAnywhere(r *rand.Rand) {
	for g := range l.desired.Size {
		name := fmt.Sprintf("c-%d-%d", g, r.IntN(1+l.desired.ReplicasPerPrimary))
		switch r.IntN(5) {
		case 0:
			l.kill(name, int64(r.IntN(50)))
		case 1:
			l.lose(name)
		case 2:
			l.say("-- %s hangs", name)
			l.pod(name).node.Pause()
		case 3:
			l.kill(name, int64(r.IntN(50)))
			l.restart(name)
		}
	}
}

// mendAll lets Kubernetes do its part about the faults, in random order.
func (l *fakeLab) mendAll(r *rand.Rand) {
	for g := range l.desired.Size {
		for i := range 1 + l.desired.ReplicasPerPrimary {
			name := fmt.Sprintf("c-%d-%d", g, i)
			isThere := slices.ContainsFunc(l.pods, func(p *fakePod) bool { return p.PodName == name })
			switch {
			case !isThere:
				l.create(g, i)
			case !l.pod(name).ContainerRunning:
				l.restart(name)
			default:
				l.pod(name).node.Resume()
			}
			l.run(time.Duration(r.IntN(500)) * time.Millisecond)
		}
	}
}

// TestNextIsPure plans twice for one view, and for views of which parts are missing.
func TestNextIsPure(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 3))
		l := newFakeLab(t, 3, 1)
		l.run(time.Duration(r.IntN(3000)) * time.Millisecond)
		v := l.view()
		for i := range v.Nodes {
			if r.IntN(3) == 0 {
				v.Nodes[i].State = topology.State{Refused: r.IntN(2) == 0}
			}
		}
		a, b := plan.Next(l.desired, v, l.now()), plan.Next(l.desired, v, l.now())
		if fmt.Sprint(a) != fmt.Sprint(b) {
			t.Fatalf("seed %d: two plans for one view:\n%v\n%v", seed, a, b)
		}
		takeovers := 0
		for _, s := range a.Steps {
			i := slices.IndexFunc(v.Nodes, func(n topology.Node) bool { return n.PodUID == s.PodUID })
			if !v.Nodes[i].Reachable && s.Kind != plan.OpenGate {
				t.Errorf("seed %d: a step for a node that does not answer: %s", seed, s)
			}
			if s.Kind == plan.Takeover {
				takeovers++
			}
		}
		if takeovers > 1 {
			t.Errorf("seed %d: %d takeovers in one pass", seed, takeovers)
		}
	}
}
