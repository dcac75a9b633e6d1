package plan_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/redis-operator/controllers/redis"
	"example.com/redis-operator/controllers/redis/redistest"
	"example.com/redis-operator/controllers/rediscluster/plan"
	"example.com/redis-operator/controllers/topology"
)

// lab is a cluster of real redis-server processes, each started by the operator's entry program as if in a Pod of its
// own, with what Kubernetes does about them in a few lines.
type lab struct {
	t       testing.TB
	desired topology.Desired
	storage bool
	config  []string
	dialer  *redis.Dialer
	pods    []*labPod
	uids    int
	trace   []string
	// stopAfter ends each pass after so many steps, as if the operator died; 0 means never.
	stopAfter int
	last      plan.Plan
}

type labPod struct {
	topology.Pod
	dir    string
	server *redistest.Server
}

type labOptions struct {
	size, replicas int
	storage        bool
	config         []string
	// groups leaves out the groups from this on; 0 means that all Pods exist.
	groups int
}

func newLab(tb testing.TB, o labOptions) *lab {
	tb.Helper()
	l := &lab{
		t: tb, storage: o.storage, config: o.config,
		desired: topology.Desired{Size: o.size, ReplicasPerPrimary: o.replicas, NodeTimeout: 2 * time.Second},
		dialer:  redis.NewDialer(redis.Options{}),
	}
	tb.Cleanup(l.dialer.Close)
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("trace:\n%s\nreasons: %q\nproblems: %v", strings.Join(l.trace, "\n"), l.last.Reasons, l.last.Problems)
			l.logNodes()
		}
	})
	if o.groups == 0 {
		o.groups = o.size
	}
	for g := range o.groups {
		for i := range o.replicas + 1 {
			l.addPod(g, i, "")
		}
	}
	return l
}

// addPod makes a Pod with a new UID and address, and starts it. It gets the directory of a claim, or one of its own.
func (l *lab) addPod(group, ordinal int, dir string) *labPod {
	l.t.Helper()
	address, err := redistest.FreeAddress()
	if err != nil {
		l.t.Fatal(err)
	}
	if dir == "" {
		dir = l.t.TempDir()
	}
	l.uids++
	p := &labPod{dir: dir, Pod: topology.Pod{
		PodName: fmt.Sprintf("c-%d-%d", group, ordinal), PodUID: fmt.Sprintf("uid-%d", l.uids),
		Group: group, Ordinal: ordinal, Address: address, Storage: l.storage,
		AOF: strings.Contains(strings.Join(l.config, "\n"), "appendonly yes"),
	}}
	l.pods = append(l.pods, p)
	l.start(p)
	return p
}

func (l *lab) start(p *labPod) {
	l.t.Helper()
	p.server = redistest.StartServer(l.t, redistest.ServerOptions{
		Dir: p.dir, Address: p.Address, NodeTimeout: l.desired.NodeTimeout, Config: l.config,
		Entrypoint: filepath.Join("..", "resources", "entrypoint.sh"),
	})
	p.ContainerRunning, p.ContainerStartedAt = true, time.Now()
}

// kill ends the container's process; restart starts the container again in the same Pod.
func (l *lab) kill(p *labPod) {
	p.server.Kill()
	p.ContainerRunning, p.ContainerStartedAt = false, time.Time{}
}

func (l *lab) restart(p *labPod) {
	p.RestartCount++
	l.start(p)
}

// replace deletes a Pod and makes its successor, with the data if there is storage.
func (l *lab) replace(p *labPod) *labPod {
	l.t.Helper()
	l.kill(p)
	for i := range l.pods {
		if l.pods[i] == p {
			l.pods = append(l.pods[:i], l.pods[i+1:]...)
			break
		}
	}
	dir := ""
	if l.storage {
		dir = p.dir
		_ = os.RemoveAll(filepath.Join(dir, "run"))
		_ = os.Remove(filepath.Join(dir, "start-gate"))
	}
	return l.addPod(p.Group, p.Ordinal, dir)
}

func (l *lab) node(p *labPod) redis.Node {
	return l.dialer.Node(redis.Target{Namespace: "n", Cluster: "c", PodUID: p.PodUID, Address: p.Address})
}

// view observes all Pods at the same time.
func (l *lab) view() topology.View {
	ctx, cancel := context.WithTimeout(l.t.Context(), 2*time.Second)
	defer cancel()
	nodes := make([]topology.Node, len(l.pods))
	var wg sync.WaitGroup
	for i, p := range l.pods {
		wg.Go(func() {
			nodes[i] = topology.Node{Pod: p.Pod, State: redis.Observe(ctx, l.node(p))}
			nodes[i].Ready = nodes[i].Alive
		})
	}
	wg.Wait()
	topology.Sort(nodes)
	view := topology.View{Nodes: nodes}
	for g := range l.desired.Size {
		view.Groups = append(view.Groups, topology.Group{Index: g, Nodes: 1 + l.desired.ReplicasPerPrimary})
	}
	return view
}

// pass is one pass of the operator.
func (l *lab) pass() plan.Plan {
	l.t.Helper()
	l.last = plan.Next(l.desired, l.view(), time.Now())
	steps := l.last.Steps
	if l.stopAfter > 0 && len(steps) > l.stopAfter {
		steps = steps[:l.stopAfter]
	}
	byPod := map[string][]plan.Step{}
	for _, s := range steps {
		l.trace = append(l.trace, time.Now().Format("05.000 ")+s.String())
		byPod[s.PodUID] = append(byPod[s.PodUID], s)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex // guards trace
	for _, own := range byPod {
		wg.Go(func() {
			for _, s := range own {
				if err := l.apply(s); err != nil {
					mu.Lock()
					l.trace = append(l.trace, "  failed: "+err.Error())
					mu.Unlock()
					return
				}
			}
		})
	}
	wg.Wait()
	return l.last
}

func (l *lab) apply(s plan.Step) error {
	for _, p := range l.pods {
		if p.PodUID != s.PodUID {
			continue
		}
		if s.Kind == plan.OpenGate {
			p.Gate = s.Gate
			return os.WriteFile(filepath.Join(p.dir, "start-gate"), []byte(s.Gate), 0o600)
		}
		switch s.Kind {
		case plan.Replace, plan.Restart:
			return l.deletePod(p, s)
		case plan.Failover:
			return l.failOver(p)
		}
		return apply(l.t.Context(), l.node(p), s)
	}
	return fmt.Errorf("no Pod %s", s.Pod)
}

// apply sends a step's command.
func apply(ctx context.Context, n redis.Node, s plan.Step) error {
	switch s.Kind {
	case plan.SetConfigEpoch:
		return n.SetConfigEpoch(ctx, s.Epoch)
	case plan.AddSlots:
		return n.AddSlots(ctx, s.Slots)
	case plan.Meet:
		return n.Meet(ctx, s.Peer)
	case plan.Replicate:
		return n.Replicate(ctx, s.PeerID)
	case plan.Forget:
		return n.Forget(ctx, s.PeerID)
	case plan.Takeover:
		return n.Takeover(ctx)
	case plan.Failover:
		return n.Failover(ctx)
	}
	return fmt.Errorf("unknown kind of step %q", s.Kind)
}

// settle passes until the cluster is settled.
func (l *lab) settle() {
	l.t.Helper()
	l.until("settled", plan.Plan.Settled)
}

// until passes until the condition holds of a plan.
func (l *lab) until(what string, isDone func(plan.Plan) bool) {
	l.t.Helper()
	deadline := time.Now().Add(40 * time.Second)
	for {
		p := l.pass()
		if isDone(p) {
			return
		}
		if time.Now().After(deadline) {
			l.logViews()
			l.t.Fatalf("not %s after 40 s", what)
		}
		l.wait(max(p.Wait, 20*time.Millisecond))
	}
}

func (l *lab) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.t.Context().Done():
	}
}

// primary is the Pod that is the primary of a group.
func (l *lab) primary(group int) *labPod {
	l.t.Helper()
	name := plan.Next(l.desired, l.view(), time.Now()).Facts.Primaries[group]
	for _, p := range l.pods {
		if p.PodName == name {
			return p
		}
	}
	l.t.Fatalf("node group %d has no primary", group)
	return nil
}

// awaitPort waits until the Pod's server listens, or for a bound that the start gate outlasts.
func (l *lab) awaitPort(p *labPod) {
	for range 100 {
		conn, err := new(net.Dialer).DialContext(l.t.Context(), "tcp", p.Address.String())
		if err == nil {
			conn.Close()
			return
		}
		l.wait(20 * time.Millisecond)
	}
}

// logViews tells what every node says of the cluster.
func (l *lab) logViews() {
	for _, n := range l.view().Nodes {
		l.t.Logf("%s %s %s role=%s epoch=%d slots=%s up=%t link=%t of %s", n.PodName, n.ID, n.Address, n.Role,
			n.ConfigEpoch, n.Slots, n.ClusterOK, n.LinkUp, n.PrimaryID)
		for _, p := range n.Known {
			l.t.Logf("    %+v", p)
		}
	}
}

func (l *lab) logNodes() {
	for _, p := range l.pods {
		log, _ := os.ReadFile(filepath.Join(p.dir, "data", "nodes.conf"))
		l.t.Logf("%s %s running=%v gate=%q\n%s", p.PodName, p.Address, p.server.IsRunning(), p.Gate, log)
	}
}
