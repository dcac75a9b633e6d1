package redistest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"example.com/redis-operator/controllers/redis"
	"example.com/redis-operator/controllers/redis/redistest"
	"example.com/redis-operator/controllers/topology"
)

// world is where the contract runs: in memory, or over real servers.
type world interface {
	// start starts a new, empty node.
	start(t *testing.T) contractNode
	// pass lets a little time pass.
	pass()
}

type contractNode interface {
	redis.Node
	address() topology.Address
	stop()
	// restart starts a stopped node at another address, with what it had on disk and no keys.
	restart(t *testing.T)
}

const contractTimeout = 2 * time.Second

// TestContract holds the in-memory cluster to what the real servers do.
func TestContract(t *testing.T) {
	t.Parallel()
	worlds := map[string]func(t *testing.T) world{
		"fake": func(*testing.T) world { return &fakeWorld{cluster: redistest.NewCluster(contractTimeout)} },
		"wire": func(t *testing.T) world {
			t.Helper()
			dialer := redis.NewDialer(redis.Options{})
			t.Cleanup(dialer.Close)
			return &wireWorld{cluster: redistest.NewCluster(contractTimeout), dialer: dialer}
		},
		"real": func(t *testing.T) world {
			t.Helper()
			dialer := redis.NewDialer(redis.Options{ReadTimeout: 5 * time.Second})
			t.Cleanup(dialer.Close)
			return &realWorld{t: t, dialer: dialer}
		},
	}
	clauses := map[string]func(t *testing.T, w world){
		"a fresh node is blank": clauseBlank, "config epoch": clauseEpoch, "slots": clauseSlots, "meeting": clauseMeet,
		"replication": clauseReplicate, "forgetting": clauseForget, "election": clauseElection, "takeover": clauseTakeover,
		"no election without quorum": clauseNoQuorum, "new address": clauseAddress, "old primary returns": clauseReturn,
		"graceful failover": clauseFailover,
	}
	for worldName, newWorld := range worlds {
		for name, clause := range clauses {
			t.Run(worldName+"/"+name, func(t *testing.T) {
				t.Parallel()
				clause(t, newWorld(t))
			})
		}
	}
}

func clauseBlank(t *testing.T, w world) {
	t.Helper()
	n := w.start(t)
	s := observe(t, n)
	if s.Role != topology.RolePrimary || !s.Slots.IsEmpty() || s.ConfigEpoch != 0 || len(s.Known) != 0 || s.ClusterOK || s.Keys != 0 {
		t.Errorf("fresh node is %+v", s)
	}
	if len(s.ID) != 40 {
		t.Errorf("ID %q, want 40 digits", s.ID)
	}
}

func clauseEpoch(t *testing.T, w world) {
	t.Helper()
	a, b := w.start(t), w.start(t)
	must(t, a.SetConfigEpoch(t.Context(), 7))
	if s := observe(t, a); s.ConfigEpoch != 7 || s.CurrentEpoch != 7 {
		t.Errorf("epochs %d and %d, want 7", s.ConfigEpoch, s.CurrentEpoch)
	}
	refused(t, a.SetConfigEpoch(t.Context(), 8), "already non-zero")
	join(t, w, a, b)
	refused(t, b.SetConfigEpoch(t.Context(), 9), "does not know any other node")
}

func clauseSlots(t *testing.T, w world) {
	t.Helper()
	n := w.start(t)
	must(t, n.AddSlots(t.Context(), slots("0-100,200")))
	refused(t, n.AddSlots(t.Context(), slots("99-150")), "already busy")
	if s := observe(t, n); s.Slots.String() != "0-100,200" || s.ClusterOK {
		t.Errorf("slots %s, ok %v", s.Slots, s.ClusterOK)
	}
	must(t, n.AddSlots(t.Context(), slots("101-199,201-16383")))
	eventually(t, w, "cluster_state:ok", func() bool { return observe(t, n).ClusterOK })
}

func clauseMeet(t *testing.T, w world) {
	t.Helper()
	a, b, c := w.start(t), w.start(t), w.start(t)
	must(t, a.AddSlots(t.Context(), slots("0-10")))
	must(t, a.Meet(t.Context(), b.address()))
	if p, _ := observeNode(t, a).Peer(id(t, b)); p.ID != "" {
		t.Error("MEET has met at once")
	}
	must(t, a.Meet(t.Context(), c.address()))
	nodes := []contractNode{a, b, c}
	eventually(t, w, "all know each other", func() bool { return knowEachOther(t, nodes) })
	eventually(t, w, "slots are heard of", func() bool {
		p, _ := observeNode(t, c).Peer(id(t, a))
		return p.Slots.String() == "0-10" && p.Address.Same(a.address()) && p.LinkUp
	})
	must(t, a.Meet(t.Context(), b.address()))
	eventually(t, w, "meeting again changes nothing", func() bool { return knowEachOther(t, nodes) })
}

func clauseReplicate(t *testing.T, w world) {
	t.Helper()
	a, b := w.start(t), w.start(t)
	must(t, a.AddSlots(t.Context(), slots("0-16383")))
	refused(t, b.Replicate(t.Context(), id(t, a)), "Unknown node")
	join(t, w, a, b)
	refused(t, a.Replicate(t.Context(), id(t, b)), "must be empty and without assigned slots")
	must(t, b.Replicate(t.Context(), id(t, a)))
	eventually(t, w, "the link is up", func() bool {
		s := observe(t, b)
		return s.Role == topology.RoleReplica && s.PrimaryID == id(t, a) && s.LinkUp && s.LinkDownFor == 0 &&
			s.PrimaryAddress.IP == a.address().IP && s.PrimaryAddress.Port == a.address().Port
	})
	eventually(t, w, "the primary has heard", func() bool {
		p, _ := observeNode(t, a).Peer(id(t, b))
		return p.Role == topology.RoleReplica && p.PrimaryID == id(t, a)
	})
	must(t, b.Replicate(t.Context(), id(t, a)))
	eventually(t, w, "the link is up again", func() bool { return observe(t, b).LinkUp })
}

func clauseForget(t *testing.T, w world) {
	t.Helper()
	a, b, c := w.start(t), w.start(t), w.start(t)
	must(t, a.AddSlots(t.Context(), slots("0-16383")))
	join(t, w, a, b, c)
	must(t, b.Replicate(t.Context(), id(t, a)))
	refused(t, b.Forget(t.Context(), id(t, a)), "Can't forget my master")
	refused(t, a.Forget(t.Context(), id(t, a)), "forget myself")
	must(t, a.Forget(t.Context(), strings.Repeat("0", 40)))
	gone := id(t, c)
	c.stop()
	must(t, a.Forget(t.Context(), gone))
	must(t, b.Forget(t.Context(), gone))
	for range 10 {
		w.pass()
	}
	for _, n := range []contractNode{a, b} {
		if _, ok := observeNode(t, n).Peer(gone); ok {
			t.Error("what was forgotten everywhere came back")
		}
	}
	c.restart(t)
	eventually(t, w, "what was forgotten can be met", func() bool {
		must(t, a.Meet(t.Context(), c.address()))
		_, ok := observeNode(t, a).Peer(gone)
		return ok
	})
}

func clauseElection(t *testing.T, w world) {
	t.Helper()
	primaries, replica := formed(t, w)
	primaries[0].stop()
	eventually(t, w, "elected", func() bool { return observe(t, replica).Role == topology.RolePrimary })
	s := observe(t, replica)
	if !s.Slots.Equal(topology.EvenShare(0, 3)) || s.ConfigEpoch <= 3 {
		t.Errorf("elected with slots %s and epoch %d", s.Slots, s.ConfigEpoch)
	}
	eventually(t, w, "the others have heard", func() bool {
		p, _ := observeNode(t, primaries[1]).Peer(s.ID)
		return p.Slots.Equal(s.Slots)
	})
}

func clauseTakeover(t *testing.T, w world) {
	t.Helper()
	primaries, replica := formed(t, w)
	refused(t, primaries[0].Takeover(t.Context()), "to a replica")
	primaries[0].stop()
	primaries[1].stop()
	eventually(t, w, "the link is down", func() bool { return !observe(t, replica).LinkUp })
	must(t, replica.Takeover(t.Context()))
	s := observe(t, replica)
	if s.Role != topology.RolePrimary || !s.Slots.Equal(topology.EvenShare(0, 3)) || s.ConfigEpoch <= 3 {
		t.Errorf("after a takeover: %s, slots %s, epoch %d", s.Role, s.Slots, s.ConfigEpoch)
	}
}

func clauseFailover(t *testing.T, w world) {
	t.Helper()
	primaries, replica := formed(t, w)
	old := primaries[0]
	refused(t, old.Failover(t.Context()), "to a replica")
	must(t, replica.Failover(t.Context()))
	eventually(t, w, "promoted", func() bool { return observe(t, replica).Role == topology.RolePrimary })
	if s := observe(t, replica); !s.Slots.Equal(topology.EvenShare(0, 3)) || s.ConfigEpoch <= 3 {
		t.Errorf("after a failover: slots %s, epoch %d", s.Slots, s.ConfigEpoch)
	}
	eventually(t, w, "the old primary is a linked replica", func() bool {
		s := observe(t, old)
		return s.Role == topology.RoleReplica && s.PrimaryID == id(t, replica) && s.LinkUp
	})
}

func clauseNoQuorum(t *testing.T, w world) {
	t.Helper()
	primaries, replica := formed(t, w)
	primaries[0].stop()
	primaries[1].stop()
	for range 40 {
		w.pass()
	}
	if s := observe(t, replica); s.Role != topology.RoleReplica || s.LinkUp || s.LinkDownFor <= 0 {
		t.Errorf("without a majority: %s, link %v, down for %s", s.Role, s.LinkUp, s.LinkDownFor)
	}
}

func clauseAddress(t *testing.T, w world) {
	t.Helper()
	primaries, replica := formed(t, w)
	old := id(t, replica)
	replica.stop()
	replica.restart(t)
	eventually(t, w, "up", func() bool { return redis.Observe(t.Context(), replica).Reachable })
	if got := id(t, replica); got != old {
		t.Fatalf("ID %s after a restart, want %s", got, old)
	}
	eventually(t, w, "the new address is known", func() bool {
		for _, p := range primaries {
			must(t, replica.Meet(t.Context(), p.address()))
			must(t, p.Meet(t.Context(), replica.address()))
			if peer, _ := observeNode(t, p).Peer(old); !peer.Address.Same(replica.address()) || peer.Fail {
				return false
			}
		}
		return observe(t, replica).LinkUp
	})
}

func clauseReturn(t *testing.T, w world) {
	t.Helper()
	primaries, replica := formed(t, w)
	primaries[0].stop()
	eventually(t, w, "elected", func() bool { return observe(t, replica).Role == topology.RolePrimary })
	primaries[0].restart(t)
	eventually(t, w, "up", func() bool { return redis.Observe(t.Context(), primaries[0]).Reachable })
	eventually(t, w, "the old primary replicates the new", func() bool {
		must(t, primaries[0].Meet(t.Context(), replica.address()))
		s := observe(t, primaries[0])
		return s.Role == topology.RoleReplica && s.PrimaryID == id(t, replica) && s.LinkUp
	})
}

// formed is three primaries with all slots, and a replica of the first, all in touch.
func formed(t *testing.T, w world) (primaries []contractNode, replica contractNode) {
	t.Helper()
	for i := range 3 {
		n := w.start(t)
		must(t, n.SetConfigEpoch(t.Context(), uint64(i)+1))
		must(t, n.AddSlots(t.Context(), topology.EvenShare(i, 3)))
		primaries = append(primaries, n)
	}
	replica = w.start(t)
	join(t, w, append([]contractNode{replica}, primaries...)...)
	must(t, replica.Replicate(t.Context(), id(t, primaries[0])))
	eventually(t, w, "formed", func() bool {
		isOK := observe(t, replica).LinkUp
		for _, n := range primaries {
			p, _ := observeNode(t, n).Peer(id(t, replica))
			isOK = isOK && observe(t, n).ClusterOK && p.Role == topology.RoleReplica
		}
		return isOK
	})
	return primaries, replica
}

// join makes all nodes meet.
func join(t *testing.T, w world, nodes ...contractNode) {
	t.Helper()
	eventually(t, w, "all know each other", func() bool {
		if knowEachOther(t, nodes) {
			return true
		}
		for i, a := range nodes {
			for _, b := range nodes[i+1:] {
				must(t, a.Meet(t.Context(), b.address())) // again and again: a handshake may time out
			}
		}
		return false
	})
}

func knowEachOther(t *testing.T, nodes []contractNode) bool {
	t.Helper()
	for _, a := range nodes {
		s := observeNode(t, a)
		if len(s.Known) != len(nodes)-1 {
			return false
		}
		for _, b := range nodes {
			if p, ok := s.Peer(id(t, b)); a != b && (!ok || p.Handshake) {
				return false
			}
		}
	}
	return true
}

func eventually(t *testing.T, w world, what string, isDone func() bool) {
	t.Helper()
	t.Helper()
	for range 150 {
		if isDone() {
			return
		}
		w.pass()
	}
	t.Fatalf("never: %s", what)
}

func observe(t *testing.T, n redis.Node) topology.State {
	t.Helper()
	var s topology.State
	for range 3 { // A machine may be busy for a moment.
		if s = redis.Observe(t.Context(), n); s.Reachable {
			return s
		}
	}
	t.Fatalf("node does not answer: %s", s.Err)
	return s
}

func observeNode(t *testing.T, n redis.Node) topology.Node {
	t.Helper()
	return topology.Node{State: observe(t, n)}
}

func id(t *testing.T, n redis.Node) string { t.Helper(); return observe(t, n).ID }

func slots(text string) topology.SlotSet {
	s, err := topology.ParseSlots(text)
	if err != nil {
		return topology.SlotSet{}
	}
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refused wants an answer of the server itself that says so.
func refused(t *testing.T, err error, want string) {
	t.Helper()
	message, ok := redis.ServerMessage(err)
	if !ok || !strings.Contains(message, want) {
		t.Errorf("answered %v, want a refusal with %q", err, want)
	}
}

type fakeWorld struct {
	cluster *redistest.Cluster
	used    int // addresses
}

func (w *fakeWorld) pass() { w.cluster.Advance(200 * time.Millisecond) }

func (w *fakeWorld) start(*testing.T) contractNode {
	n := &fakeNode{world: w, at: w.next()}
	n.Fake = w.cluster.Start(n.at)
	return n
}

func (w *fakeWorld) next() topology.Address {
	w.used++
	return topology.Address{IP: fmt.Sprintf("10.0.0.%d", w.used), Port: 6379}
}

type fakeNode struct {
	*redistest.Fake
	world *fakeWorld
	at    topology.Address
}

func (n *fakeNode) address() topology.Address { return n.at }
func (n *fakeNode) stop()                     { n.Stop() }

func (n *fakeNode) restart(*testing.T) {
	n.at = n.world.next()
	n.Restart(n.at, 0)
}

type realWorld struct {
	t      *testing.T
	dialer *redis.Dialer
	count  int
}

func (w *realWorld) pass() {
	select {
	case <-time.After(200 * time.Millisecond):
	case <-w.t.Context().Done():
	}
}

func (w *realWorld) start(t *testing.T) contractNode {
	t.Helper()
	n := &realNode{world: w, dir: t.TempDir()}
	n.restart(t)
	eventually(t, w, "the server answers", func() bool { return redis.Observe(t.Context(), n).Reachable })
	return n
}

type realNode struct {
	redis.Node
	world  *realWorld
	dir    string
	server *redistest.Server
}

func (n *realNode) address() topology.Address { return n.server.Address }
func (n *realNode) stop()                     { n.server.Kill() }

func (n *realNode) restart(t *testing.T) {
	t.Helper()
	n.server = redistest.StartServer(t, redistest.ServerOptions{Dir: n.dir, NodeTimeout: contractTimeout})
	n.world.count++
	n.Node = n.world.dialer.Node(redis.Target{PodUID: fmt.Sprint(n.world.count), Address: n.server.Address})
}
