package redistest

import (
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"example.com/redis-operator/controllers/topology"
)

// Timing of the in-memory cluster, as of the real one.
const (
	tick          = 100 * time.Millisecond
	writableDelay = 2 * time.Second
	maxRejoin     = 5 * time.Second
	minRejoin     = 500 * time.Millisecond
	forgetBan     = time.Minute
	validity      = 10 // node timeouts a replica's link may have been down
	failoverBound = 5 * time.Second
)

// Cluster is any number of nodes in memory. Nothing happens by itself: time passes in Advance alone, and the same calls
// give the same outcome every time. Safe for concurrent use.
type Cluster struct {
	timeout time.Duration

	mu    sync.Mutex // guards everything below, and the state of all nodes
	now   time.Duration
	nodes []*Fake
	seed  int
	// changed is when a node was last told to change something.
	changed time.Duration
}

// NewCluster has no node yet. The node timeout is that of all its nodes.
func NewCluster(nodeTimeout time.Duration) *Cluster { return &Cluster{timeout: nodeTimeout} }

// Fake is one node in memory; it is a redis.Node.
type Fake struct {
	cluster *Cluster
	address topology.Address

	running, paused bool
	started         time.Duration
	stateOK         bool
	minority        time.Duration // when it last saw no majority; 0 means never in this life

	// myself and peers are what nodes.conf would hold.
	myself topology.Peer
	epoch  uint64 // currentEpoch
	peers  map[string]*peer
	banned map[string]time.Duration
	shakes []handshake

	keys, offset int64
	repl         replication
	config       map[string]string
}

type peer struct {
	topology.Peer
	heard time.Duration // when it last answered
}

type handshake struct {
	id    string
	to    topology.Address
	since time.Duration
}

type replication struct {
	address       topology.Address
	up, hadLink   bool
	downSince     time.Duration
	electionSince time.Duration
	// asked is set by a graceful failover until it is done or its time is over.
	asked time.Duration
}

// Start adds a new, empty node at an address and starts it.
func (c *Cluster) Start(address topology.Address) *Fake {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := &Fake{cluster: c, address: address, config: map[string]string{}}
	c.nodes = append(c.nodes, f)
	f.reset()
	f.start()
	return f
}

// reset gives the node a new ID and nothing else.
func (f *Fake) reset() {
	f.cluster.seed++
	sum := sha1.Sum(fmt.Append(nil, "node", f.cluster.seed))
	f.myself = topology.Peer{ID: hex.EncodeToString(sum[:]), Role: topology.RolePrimary, LinkUp: true}
	f.epoch, f.peers, f.banned = 0, map[string]*peer{}, map[string]time.Duration{}
	f.keys, f.offset = 0, 0
}

// start begins a process's life with what is on disk.
func (f *Fake) start() {
	f.running, f.paused, f.started, f.stateOK, f.minority = true, false, f.cluster.now, false, 0
	f.shakes, f.repl = nil, replication{}
	f.myself.Address = f.address
	f.banned = map[string]time.Duration{}
	for _, p := range f.peers {
		p.LinkUp, p.heard, p.MaybeFail = false, f.cluster.now, false
	}
	if f.myself.Role == topology.RoleReplica {
		f.followPrimary()
	}
}

// Stop ends the process. What is on disk stays.
func (f *Fake) Stop() {
	f.cluster.mu.Lock()
	defer f.cluster.mu.Unlock()
	f.running = false
}

// Restart starts a stopped node again, with its nodes.conf and so many of its keys, at the address given.
func (f *Fake) Restart(address topology.Address, keys int64) {
	f.cluster.mu.Lock()
	defer f.cluster.mu.Unlock()
	f.address, f.keys = address, keys
	f.start()
}

// RestartEmpty starts a stopped node again as a new one: nothing of it was kept.
func (f *Fake) RestartEmpty(address topology.Address) {
	f.cluster.mu.Lock()
	defer f.cluster.mu.Unlock()
	f.address = address
	f.reset()
	f.start()
}

// Pause makes the process hang until Resume.
func (f *Fake) Pause() { f.setPaused(true) }

// Resume lets a paused process go on.
func (f *Fake) Resume() { f.setPaused(false) }

func (f *Fake) setPaused(paused bool) {
	f.cluster.mu.Lock()
	defer f.cluster.mu.Unlock()
	f.paused = paused
}

// Write adds keys to a primary.
func (f *Fake) Write(keys int64) {
	f.cluster.mu.Lock()
	defer f.cluster.mu.Unlock()
	f.keys += keys
	f.offset += 100 * keys
}

// Epoch is the node's config epoch as its nodes.conf has it, whether it runs or not.
func (f *Fake) Epoch() uint64 {
	f.cluster.mu.Lock()
	defer f.cluster.mu.Unlock()
	return f.myself.ConfigEpoch
}

// IsGated reports whether the start gate would hold the node: it owns slots and its nodes.conf names a replica of it.
func (f *Fake) IsGated() bool {
	f.cluster.mu.Lock()
	defer f.cluster.mu.Unlock()
	isOwner := f.myself.Role == topology.RolePrimary && !f.myself.Slots.IsEmpty()
	return isOwner && slices.ContainsFunc(f.sorted(), func(p *peer) bool { return p.PrimaryID == f.myself.ID })
}

// Advance lets time pass, in ticks of 100 ms.
func (c *Cluster) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for end := c.now + d; c.now+tick <= end; {
		c.now += tick
		for _, f := range c.nodes {
			if f.isUp() {
				f.cron()
			}
		}
	}
}

// Now is how much time has passed since the start.
func (c *Cluster) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Quiet is for how long no node was told to change anything of the cluster. Directives do not count.
func (c *Cluster) Quiet() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now - c.changed
}

func (f *Fake) isUp() bool { return f.running && !f.paused }

// at is the node that is up at an address.
func (c *Cluster) at(a topology.Address) *Fake {
	for _, f := range c.nodes {
		if f.isUp() && f.address.Same(a) {
			return f
		}
	}
	return nil
}

// sorted is the peers by ID.
func (f *Fake) sorted() []*peer {
	peers := slices.Collect(maps.Values(f.peers))
	slices.SortFunc(peers, func(a, b *peer) int { return cmp.Compare(a.ID, b.ID) })
	return peers
}

// reach answers as the way to the process does: nil when it is up.
func (f *Fake) reach() error {
	switch {
	case !f.running:
		return fmt.Errorf("dialling %s: %w", f.address, syscall.ECONNREFUSED)
	case f.paused:
		return fmt.Errorf("dialling %s: %w", f.address, context.DeadlineExceeded)
	}
	return nil
}
