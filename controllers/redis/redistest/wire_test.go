package redistest_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"example.com/redis-operator/controllers/redis"
	"example.com/redis-operator/controllers/redis/redistest"
	"example.com/redis-operator/controllers/topology"
)

// wireWorld is the in-memory cluster behind the wire protocol.
type wireWorld struct {
	cluster *redistest.Cluster
	server  redistest.WireServer
	dialer  *redis.Dialer
	count   int
}

func (w *wireWorld) pass() { w.cluster.Advance(200 * time.Millisecond) }

func (w *wireWorld) start(t *testing.T) contractNode {
	t.Helper()
	n := &wireNode{world: w, at: freeAddress(t)}
	n.fake = w.cluster.Start(n.at)
	n.listen(t)
	return n
}

type wireNode struct {
	redis.Node
	world    *wireWorld
	fake     *redistest.Fake
	at       topology.Address
	listener net.Listener
}

func freeAddress(t *testing.T) topology.Address {
	t.Helper()
	address, err := redistest.FreeAddress()
	must(t, err)
	return address
}

// listen has the node served at its address.
func (n *wireNode) listen(t *testing.T) {
	t.Helper()
	var err error
	if n.listener, err = new(net.ListenConfig).Listen(t.Context(), "tcp", n.at.String()); err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	listener, fake := n.listener, n.fake
	go func() {
		defer close(served)
		_ = n.world.server.Serve(listener, func(net.Addr) *redistest.Fake { return fake }) // ends with the listener
	}()
	t.Cleanup(func() {
		_ = listener.Close() // a stopped node has closed it already
		<-served
	})
	n.world.count++
	n.Node = n.world.dialer.Node(redis.Target{PodUID: fmt.Sprint(n.world.count), Address: n.at})
}

func (n *wireNode) address() topology.Address { return n.at }

func (n *wireNode) stop() {
	_ = n.listener.Close() // nobody listens from now on
	n.fake.Stop()
}

func (n *wireNode) restart(t *testing.T) {
	t.Helper()
	n.at = freeAddress(t)
	n.fake.Restart(n.at, 0)
	n.listen(t)
}

// TestWireClients has a connection found by its name, and closed.
func TestWireClients(t *testing.T) {
	t.Parallel()
	w := &wireWorld{cluster: redistest.NewCluster(contractTimeout)}
	dial := func(name string) *redis.Dialer {
		dialer := redis.NewDialer(redis.Options{Name: func(context.Context) string { return name }})
		t.Cleanup(dialer.Close)
		return dialer
	}
	w.dialer = dial("old")
	n := w.start(t).(*wireNode)
	must(t, n.ConfigSet(t.Context(), map[string]string{"maxmemory-policy": "allkeys-lru"}))
	newer := dial("new").Node(redis.Target{PodUID: "newer", Address: n.at})
	values, err := newer.ConfigGet(t.Context(), "maxmemory-policy", "maxmemory")
	must(t, err)
	if len(values) != 1 || values["maxmemory-policy"] != "allkeys-lru" {
		t.Errorf("directives are %v", values)
	}
	clients, err := newer.ClientList(t.Context())
	must(t, err)
	i := slices.IndexFunc(clients, func(c redis.Client) bool { return c.Name == "old" })
	if len(clients) != 2 || i < 0 {
		t.Fatalf("clients are %+v, want an old one and a new one", clients)
	}
	must(t, newer.ClientKill(t.Context(), clients[i].ID))
	clients, err = newer.ClientList(t.Context())
	must(t, err)
	if len(clients) != 1 || clients[0].Name != "new" {
		t.Errorf("after the old one was killed clients are %+v", clients)
	}
}
