package plan_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.com/redis-operator/controllers/redis"
	"example.com/redis-operator/controllers/redis/redistest"
	"example.com/redis-operator/controllers/rediscluster/plan"
	"example.com/redis-operator/controllers/topology"
)

// fakeLab is a cluster in memory and in virtual time, with what Kubernetes does about its Pods in a few lines. It
// writes down what happens.
type fakeLab struct {
	t       *testing.T
	desired topology.Desired
	groups  []topology.Group
	cluster *redistest.Cluster
	pods    []*fakePod
	made    int
	names   map[string]string // IDs, by the Pod that had them first
	out     strings.Builder
	said    string
	// stopAfter ends each pass after so many steps, as if the operator died; 0 means never.
	stopAfter int
	// template is what Pods are made from; gone are those whose successors are due.
	template template
	gone     []gone
}

type fakePod struct {
	topology.Pod
	node *redistest.Fake
	// kept is the number of keys with which the process will start again; gated tells that it waits.
	kept  int64
	gated bool
	// made is the number of the template that the Pod was made from.
	made int
}

// epochOfTime is when the virtual time of the labs begins.
var epochOfTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newFakeLab(t *testing.T, size, replicas int) *fakeLab {
	t.Helper()
	l := &fakeLab{
		t: t, cluster: redistest.NewCluster(2 * time.Second), names: map[string]string{},
		desired: topology.Desired{Size: size, ReplicasPerPrimary: replicas},
	}
	for g := range size {
		l.groups = append(l.groups, topology.Group{Index: g, Nodes: 1 + replicas})
		for i := range replicas + 1 {
			l.add(g, i)
		}
	}
	return l
}

func (l *fakeLab) now() time.Time { return epochOfTime.Add(l.cluster.Now()) }

func (l *fakeLab) address() topology.Address {
	l.made++
	return topology.Address{IP: fmt.Sprintf("10.0.0.%d", l.made), Port: 6379}
}

// add makes a Pod and starts a new node in it.
func (l *fakeLab) add(group, ordinal int) *fakePod {
	address := l.address()
	p := &fakePod{made: l.template.number, node: l.cluster.Start(address), Pod: topology.Pod{
		PodName: fmt.Sprintf("c-%d-%d", group, ordinal), PodUID: fmt.Sprintf("uid-%d", l.made),
		Group: group, Ordinal: ordinal, Address: address,
		ContainerRunning: true, ContainerStartedAt: l.now(),
	}}
	l.pods = append(l.pods, p)
	return p
}

func (l *fakeLab) pod(name string) *fakePod {
	i := slices.IndexFunc(l.pods, func(p *fakePod) bool { return p.PodName == name })
	if i < 0 {
		l.t.Fatalf("no Pod %s", name)
	}
	return l.pods[i]
}

// kill ends a container's process; so many keys are on its disk.
func (l *fakeLab) kill(name string, kept int64) {
	p := l.pod(name)
	l.say("-- %s is killed, with %d keys on disk", name, kept)
	p.node.Stop()
	p.kept, p.ContainerRunning, p.ContainerStartedAt = kept, false, time.Time{}
}

// restart starts the container again, in the same Pod.
func (l *fakeLab) restart(name string) {
	p := l.pod(name)
	l.say("-- %s restarts", name)
	p.RestartCount++
	l.begin(p)
}

// move replaces the Pod by one with the same storage at another address.
func (l *fakeLab) move(name string) {
	p := l.pod(name)
	p.Address = l.address()
	p.PodUID, p.Gate, p.RestartCount = fmt.Sprintf("uid-%d", l.made), "", 0
	l.say("-- %s restarts as a new Pod at another address", name)
	l.begin(p)
}

func (l *fakeLab) begin(p *fakePod) {
	p.ContainerRunning, p.ContainerStartedAt = true, l.now()
	if p.gated = !p.AOF && p.node.IsGated(); !p.gated {
		p.node.Restart(p.Address, p.kept)
	}
}

// lose deletes a Pod with everything in it.
func (l *fakeLab) lose(name string) {
	l.say("-- Pod %s is deleted", name)
	p := l.pod(name)
	p.node.Stop()
	l.pods = slices.DeleteFunc(l.pods, func(q *fakePod) bool { return p == q })
}

// create makes the successor of a lost Pod.
func (l *fakeLab) create(group, ordinal int) {
	l.say("-- Pod c-%d-%d is created", group, ordinal)
	l.add(group, ordinal)
}

// openGate is what the entry program does with the annotation.
func (p *fakePod) openGate() {
	if !p.gated {
		return
	}
	if epoch, ok := strings.CutPrefix(p.Gate, "serve:"); ok {
		epoch, _, _ = strings.Cut(epoch, ":")
		if epoch == "*" || epoch == strconv.FormatUint(p.node.Epoch(), 10) {
			p.gated = false
			p.node.Restart(p.Address, p.kept)
		}
		return
	}
	if epoch, err := strconv.ParseUint(p.Gate, 10, 64); err != nil || epoch <= p.node.Epoch() {
		return
	}
	p.gated = false
	if p.kept == 0 {
		p.node.RestartEmpty(p.Address)
	} else {
		p.node.Restart(p.Address, p.kept)
	}
}

func (l *fakeLab) view() topology.View {
	v := topology.View{Groups: l.groups}
	for _, p := range l.pods {
		p.Outdated = p.made != l.template.number
		n := topology.Node{Pod: p.Pod, State: redis.Observe(l.t.Context(), p.node)}
		n.Ready = n.Reachable
		if n.Reachable && l.names[n.ID] == "" {
			l.names[n.ID] = p.PodName
			if slices.ContainsFunc(l.pods, func(q *fakePod) bool { return q != p && q.PodName == p.PodName }) {
				l.t.Fatalf("two Pods %s", p.PodName)
			}
		}
		v.Nodes = append(v.Nodes, n)
	}
	topology.Sort(v.Nodes)
	return v
}

// pass is one pass of the operator.
func (l *fakeLab) pass() plan.Plan {
	l.t.Helper()
	l.replaceGone()
	p := plan.Next(l.desired, l.view(), l.now())
	steps := p.Steps
	if l.stopAfter > 0 && len(steps) > l.stopAfter {
		steps = steps[:l.stopAfter]
	}
	l.sayState(p)
	failed := map[string]bool{}
	for _, s := range steps {
		if failed[s.PodUID] {
			continue
		}
		l.say("%s", l.named(s.String()))
		pod := l.pod(s.Pod)
		if s.Kind == plan.OpenGate {
			pod.Gate = s.Gate
			pod.openGate()
			continue
		}
		if err := l.apply(pod, s); err != nil {
			l.say("   refused: %v", err)
			failed[s.PodUID] = true
		}
	}
	return p
}

func (l *fakeLab) apply(pod *fakePod, s plan.Step) error {
	switch s.Kind {
	case plan.Replace, plan.Restart:
		return l.deletePod(s)
	case plan.Failover:
		pod.FailoverAsked = l.now()
	}
	return apply(l.t.Context(), pod.node, s)
}

// sayState writes down phase and problems whenever they differ from those before.
func (l *fakeLab) sayState(p plan.Plan) {
	text := fmt.Sprintf("%s, %d ready", p.Phase, p.Facts.ReadyNodes)
	for _, problem := range p.Problems {
		text += fmt.Sprintf("\n         %s: %s", problem.Kind, l.named(problem.Message))
	}
	if p.Roll.Held != "" {
		text += "\n         held: " + p.Roll.Held
	}
	if text != l.said {
		l.said = text
		l.say("== %s", text)
	}
}

func (l *fakeLab) say(format string, args ...any) {
	fmt.Fprintf(&l.out, "%6.1fs  %s\n", l.cluster.Now().Seconds(), fmt.Sprintf(format, args...))
}

// named writes IDs as the Pods that had them.
func (l *fakeLab) named(text string) string {
	for id, name := range l.names {
		text = strings.ReplaceAll(text, id, "id:"+name+"/"+id[:4])
	}
	return text
}

// settle passes until the cluster is settled, for a minute at most.
func (l *fakeLab) settle() {
	l.t.Helper()
	l.until("settled", plan.Plan.Settled)
}

func (l *fakeLab) until(what string, isDone func(plan.Plan) bool) {
	l.t.Helper()
	var p plan.Plan
	for range 600 {
		if p = l.pass(); isDone(p) {
			return
		}
		l.cluster.Advance(100 * time.Millisecond)
	}
	l.t.Errorf("not %s after a minute: %q %v\n%s", what, p.Reasons, p.Problems, l.out.String())
}

// run passes for a time.
func (l *fakeLab) run(d time.Duration) plan.Plan {
	l.t.Helper()
	var p plan.Plan
	for end := l.cluster.Now() + d; l.cluster.Now() < end; {
		p = l.pass()
		l.cluster.Advance(100 * time.Millisecond)
	}
	return p
}
