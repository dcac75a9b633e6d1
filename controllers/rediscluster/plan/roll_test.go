package plan_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/redis-operator/controllers/rediscluster/plan"
	"example.com/redis-operator/controllers/topology"
)

// template is what the Pods of a fake lab are made from.
type template struct {
	number int
	// fails tells that no container of such a Pod can start.
	fails bool
}

// change gives the cluster's StatefulSets another template.
func (l *fakeLab) change(fails bool) {
	l.template = template{number: l.template.number + 1, fails: fails}
	l.say("-- the spec changes%s", map[bool]string{true: " to an image that does not exist"}[fails])
}

// gone is a deleted Pod whose successor has yet to be made.
type gone struct {
	at   time.Duration
	pod  *fakePod
	kept int64
}

// deletePod is what the operator does to a Pod: its server must be what the step says.
func (l *fakeLab) deletePod(s plan.Step) error {
	p := l.pod(s.Pod)
	if s.NodeID != "" {
		myself, _, err := p.node.ClusterNodes(l.t.Context())
		if err != nil || myself.ID != s.NodeID || s.Kind == plan.Replace && myself.Role != topology.RoleReplica {
			return fmt.Errorf("another node: %+v, %w", myself, err)
		}
	}
	info, _ := p.node.Info(l.t.Context())
	p.node.Stop()
	l.pods = slices.DeleteFunc(l.pods, func(q *fakePod) bool { return p == q })
	l.gone = append(l.gone, gone{at: l.cluster.Now(), pod: p, kept: info.Keys})
	if len(l.gone) > 1 {
		l.t.Errorf("%d Pods are gone at the same time:\n%s", len(l.gone), l.out.String())
	}
	return nil
}

// replaceGone makes the successors of deleted Pods, a second after.
func (l *fakeLab) replaceGone() {
	var rest []gone
	for _, g := range l.gone {
		if l.cluster.Now()-g.at < time.Second {
			rest = append(rest, g)
			continue
		}
		old := g.pod
		p := l.add(old.Group, old.Ordinal)
		p.Storage, p.AOF = old.Storage, old.AOF
		if old.Storage {
			p.node.Stop()
			p.node = old.node
			p.node.Restart(p.Address, g.kept)
		}
		if l.template.fails {
			p.node.Stop()
			p.ContainerRunning, p.ContainerStartedAt, p.NeverStarted = false, time.Time{}, true
		}
		l.say("-- Pod %s is there again", p.PodName)
	}
	l.gone = rest
}

// fill writes keys into every group.
func (l *fakeLab) fill() {
	l.settle()
	for g := range l.desired.Size {
		l.primaryOf(g).node.Write(100)
	}
	l.cluster.Advance(time.Second)
}

func (l *fakeLab) primaryOf(group int) *fakePod {
	for _, n := range l.view().InGroup(group) {
		if n.OwnsSlots() {
			return l.pod(n.PodName)
		}
	}
	l.t.Fatalf("node group %d has no primary", group)
	return nil
}

// mustBeRolled wants every Pod made from the present template, and every key.
func (l *fakeLab) mustBeRolled() {
	l.t.Helper()
	l.mustBeWhole()
	for _, p := range l.pods {
		if p.made != l.template.number {
			l.t.Errorf("%s was made from template %d, want %d", p.PodName, p.made, l.template.number)
		}
	}
	for g := range l.desired.Size {
		l.mustHaveKeys(g, 100)
	}
}

func rollAll(l *fakeLab) {
	l.fill()
	l.change(false)
	l.settle()
	l.mustBeRolled()
}

func rollOneStep(l *fakeLab) {
	l.stopAfter = 1
	rollAll(l)
}

// rollInPlace restarts primaries that have no replica, and have their data in storage.
func rollInPlace(l *fakeLab) {
	for _, p := range l.pods {
		p.Storage, p.AOF = true, true
	}
	rollAll(l)
}

// rollHeld has primaries without replica and without storage: nobody may touch them.
func rollHeld(l *fakeLab) {
	l.fill()
	l.change(false)
	p := l.run(10 * time.Second)
	if len(p.Steps) > 0 || !strings.Contains(p.Roll.Held, "node group 0") || !p.Settled() {
		l.t.Errorf("steps %v, held %q, phase %s", p.Steps, p.Roll.Held, p.Phase)
	}
	l.mustHaveKeys(0, 100)
}

// rollStuck changes to an image that does not exist, and then to one that does: only one node is touched, and healed.
func rollStuck(l *fakeLab) {
	l.fill()
	l.change(true)
	p := l.run(30 * time.Second)
	if !strings.Contains(p.Roll.Awaits, "node group 0: c-0-1 does not run") || p.Facts.ReadyNodes != l.desired.Nodes()-1 {
		l.t.Errorf("%d ready, awaits %q", p.Facts.ReadyNodes, p.Roll.Awaits)
	}
	l.change(false)
	l.settle()
	l.mustBeRolled()
}

// rollTakenBack goes back to the template that all but one node have.
func rollTakenBack(l *fakeLab) {
	l.fill()
	before := l.template
	l.change(true)
	l.run(10 * time.Second)
	l.say("-- the change is taken back")
	l.template = before
	l.settle()
	l.mustBeRolled()
}

// rollUnsynced has a group whose replica hangs: its primary is not touched, nor anybody else.
func rollUnsynced(l *fakeLab) {
	l.fill()
	l.pod("c-1-1").node.Pause()
	l.change(false)
	p := l.run(20 * time.Second)
	if p.IsRolling() || !strings.Contains(p.Roll.Awaits, "node group 1") || p.Roll.Outdated != l.desired.Nodes() {
		l.t.Errorf("%d outdated, steps %v, awaits %q", p.Roll.Outdated, p.Steps, p.Roll.Awaits)
	}
	l.pod("c-1-1").node.Resume()
	l.settle()
	l.mustBeRolled()
}

// rollStoppedReplica has a replica that does not run: it is the first to be replaced.
func rollStoppedReplica(l *fakeLab) {
	l.fill()
	l.kill("c-1-1", 100)
	l.run(3 * time.Second)
	l.change(false)
	l.settle()
	l.mustBeRolled()
}

// TestRandomRolls changes the template again and again, also to one that cannot start, while the operator dies after
// every few steps. Never are two Pods gone at once, and no key is lost.
func TestRandomRolls(t *testing.T) {
	t.Parallel()
	shapes := [][2]int{{1, 1}, {1, 2}, {2, 1}, {3, 1}, {3, 2}}
	for seed := range uint64(16) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 11))
			shape := shapes[r.IntN(len(shapes))]
			l := newFakeLab(t, shape[0], shape[1])
			if r.IntN(2) == 0 {
				for _, p := range l.pods {
					p.Storage, p.AOF = true, true
				}
			}
			l.fill()
			for range 4 {
				l.stopAfter = r.IntN(3) // 0 is never
				l.change(r.IntN(3) == 0)
				l.run(time.Duration(r.IntN(12000)) * time.Millisecond)
			}
			l.change(false)
			l.settle()
			l.mustBeRolled()
		})
	}
}

// TestRollIsGraceful wants every failover asked of a replica that is up to date, and no primary with replicas replaced.
func TestRollIsGraceful(t *testing.T) {
	t.Parallel()
	l := newFakeLab(t, 3, 2)
	l.fill()
	l.change(false)
	for range 600 {
		v := l.view()
		p := plan.Next(l.desired, v, l.now())
		for _, s := range p.Steps {
			i := slices.IndexFunc(v.Nodes, func(n topology.Node) bool { return n.PodUID == s.PodUID })
			switch n := v.Nodes[i]; {
			case s.Kind == plan.Failover && (n.Outdated || !n.LinkUp || n.Role != topology.RoleReplica):
				t.Errorf("%s of %+v", s, n)
			case s.Kind == plan.Replace && n.OwnsSlots(), s.Kind == plan.Takeover, s.Kind == plan.Restart:
				t.Errorf("%s", s)
			}
		}
		if l.pass().Settled() {
			l.mustBeRolled()
			return
		}
		l.cluster.Advance(100 * time.Millisecond)
	}
	t.Errorf("not rolled after a minute:\n%s", l.out.String())
}

// TestFailoverThatFails has a failover come to nothing: it is not asked for again at once, since each stops writes.
func TestFailoverThatFails(t *testing.T) {
	t.Parallel()
	l := newFakeLab(t, 1, 1)
	l.fill()
	v := l.view()
	v.Nodes[0].Outdated = true
	asked := l.now()
	v.Nodes[1].FailoverAsked = asked
	cases := map[time.Duration]func(p plan.Plan) bool{
		time.Second:      func(p plan.Plan) bool { return len(p.Steps) == 0 && p.Roll.Awaits != "" },
		20 * time.Second: func(p plan.Plan) bool { return len(p.Steps) == 0 && strings.Contains(p.Roll.Held, "did not") },
		2 * time.Minute:  func(p plan.Plan) bool { return len(p.Steps) == 1 && p.Steps[0].Kind == plan.Failover },
	}
	for after, isRight := range cases {
		if p := plan.Next(l.desired, v, asked.Add(after)); !isRight(p) {
			t.Errorf("after %s: steps %v, %+v", after, p.Steps, p.Roll)
		}
	}
	v.Nodes[1].FailoverAsked = time.Time{}
	v.Nodes[1].Offset = v.Nodes[0].Offset - 2<<20
	if p := plan.Next(l.desired, v, asked); len(p.Steps) > 0 || !strings.Contains(p.Roll.Awaits, "catch up") {
		t.Errorf("with a lag: steps %v, %+v", p.Steps, p.Roll)
	}
}

// TestStaleStatefulSet wants nothing called done before Kubernetes has taken the change over.
func TestStaleStatefulSet(t *testing.T) {
	t.Parallel()
	l := newFakeLab(t, 3, 1)
	l.settle()
	v := l.view()
	v.Groups = slices.Clone(v.Groups)
	v.Groups[2].Stale = true
	if p := plan.Next(l.desired, v, l.now()); p.Settled() || !strings.Contains(p.Roll.Awaits, "node group 2") {
		t.Errorf("phase %s, %+v", p.Phase, p.Roll)
	}
}
