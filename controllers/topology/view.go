// Package topology holds the plain values in which the operator speaks of a Redis Cluster: slots,
// nodes, node groups, what was seen (View) and what is wanted (Desired). It decides nothing and does
// no I/O. All values are immutable once built: who shares one must not change it, so that everything
// here is safe for concurrent use.
package topology

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"time"
)

// Role is what a node says that it is.
type Role string

// The roles of a node. RoleUnknown is that of a node that did not answer.
const (
	RoleUnknown Role = ""
	RolePrimary Role = "primary"
	RoleReplica Role = "replica"
)

// Address is where a node listens. IP is bare (no brackets); BusPort zero means Port+10000.
type Address struct {
	IP      string
	Port    int
	BusPort int
}

// Bus is the port of the cluster bus.
func (a Address) Bus() int {
	if a.BusPort != 0 {
		return a.BusPort
	}
	return a.Port + 10000
}

// Same reports whether both addresses name the same two ports of the same IP.
func (a Address) Same(b Address) bool {
	return a.IP == b.IP && a.Port == b.Port && a.Bus() == b.Bus()
}

// String is the address for dialling, with brackets around an IPv6 address.
func (a Address) String() string { return net.JoinHostPort(a.IP, strconv.Itoa(a.Port)) }

// Peer is one line of a node's CLUSTER NODES: what that node believes of another, or of itself.
type Peer struct {
	ID        string
	Address   Address
	Role      Role
	PrimaryID string // of a replica; empty for a primary
	// Fail and MaybeFail are the flags fail (agreed by the majority) and fail? (this node's own view).
	Fail, MaybeFail bool
	// Handshake marks an entry whose ID is provisional; NoAddress one whose address is not known.
	Handshake, NoAddress bool
	// LinkUp is the bus link from the node that was asked to this peer. Always true of itself.
	LinkUp      bool
	ConfigEpoch uint64
	Slots       SlotSet
	// OpenSlots is true of a line that names slots being migrated or imported.
	OpenSlots bool
}

// Pod is what Kubernetes says of a node.
type Pod struct {
	PodName string
	PodUID  string
	// Group is the number of the node group, from 0; Ordinal that of the Pod in its StatefulSet.
	Group, Ordinal int
	// Address has an empty IP while the Pod has none.
	Address Address
	// ContainerRunning is the kubelet's word that the container runs: false while it is created, waits
	// to be restarted, or has ended. ContainerStartedAt is zero while it does not run.
	ContainerRunning   bool
	ContainerStartedAt time.Time
	RestartCount       int
	// Ready is the Pod's Ready condition. The readiness probe is a TCP connect by the kubelet, so that
	// false together with State.Refused is the word of two observers that nothing listens.
	Ready bool
	// Deleting is set once the Pod has a deletion timestamp.
	Deleting bool
	// Storage tells that the data directory outlives the Pod; AOF that an append-only file with fsync
	// everysec or always is in force, so that the start gate never holds this node.
	Storage, AOF bool
	// Gate is the present value of the Pod's start-gate annotation, empty when there is none.
	Gate string
	// Outdated tells that the Pod was made from an earlier spec than its StatefulSet has now.
	Outdated bool
	// NeverStarted tells that no container of the Pod has ever run, so that there is nothing in it.
	NeverStarted bool
	// FailoverAsked is when this process last sent CLUSTER FAILOVER to the node, zero when it has not.
	FailoverAsked time.Time
}

// State is what Redis itself says of a node. The zero value is that of a node that was not asked.
type State struct {
	// Reachable is set when the node answered everything that was asked. Otherwise Err says why not, and
	// Refused that the connection was refused: no process listens there.
	Reachable bool
	Refused   bool
	Err       string
	// Alive is set when the server answered at all, be it by LOADING, BUSY or MASTERDOWN: a process that
	// is alive is never replaced. It is set whenever Reachable is.
	Alive bool
	// Loading is set while the server reads its data set from disk.
	Loading bool

	ID           string
	Role         Role
	PrimaryID    string // of a replica
	Slots        SlotSet
	ConfigEpoch  uint64
	CurrentEpoch uint64
	OpenSlots    bool
	// ClusterOK is cluster_state:ok.
	ClusterOK bool
	// LinkUp is master_link_status:up of a replica; PrimaryAddress where it looks for its primary.
	LinkUp         bool
	PrimaryAddress Address
	Syncing        bool
	// LinkDownFor is how long the link of a replica has been down, and negative when this process never
	// had one. Zero while it is up, and for primaries.
	LinkDownFor time.Duration
	// Offset is the replication offset, Keys the number of keys in database 0.
	Offset int64
	Keys   int64
	// Uptime is how long the process has run, in whole seconds as Redis reports it.
	Uptime time.Duration
	// ConfigFile is the path of the configuration that the process was started with.
	ConfigFile string
	// Version is the server's version, "7.0.15".
	Version string
	// Known is this node's CLUSTER NODES without its own line, ordered by ID.
	Known []Peer
}

// Node is one Redis server process: what Kubernetes and Redis say of it.
type Node struct {
	Pod
	State
}

// IsBlank reports whether the node holds nothing and belongs to nobody: a primary that answered, with
// no slot, no key and no peer.
func (n Node) IsBlank() bool {
	return n.Reachable && n.Role == RolePrimary && n.Slots.IsEmpty() && n.Keys == 0 && len(n.Known) == 0
}

// OwnsSlots reports whether the node answered as a primary with slots.
func (n Node) OwnsSlots() bool {
	return n.Reachable && n.Role == RolePrimary && !n.Slots.IsEmpty()
}

// IsStopped reports whether it is known that no Redis server process serves in the Pod: the kubelet
// says that the container does not run, or the connection is refused and the kubelet's own probe says
// the same. A node that merely does not answer is not known to be stopped.
func (n Node) IsStopped() bool {
	return !n.Alive && (!n.ContainerRunning || n.Refused && !n.Ready)
}

// Peer is what this node believes of the node with the given ID.
func (n Node) Peer(id string) (Peer, bool) {
	i, found := slices.BinarySearchFunc(n.Known, id, func(p Peer, id string) int { return cmp.Compare(p.ID, id) })
	if !found {
		return Peer{}, false
	}
	return n.Known[i], true
}

// Group is one node group as Kubernetes has it.
type Group struct {
	// Index is the number of the group, from 0.
	Index int
	// Nodes is how many Pods its StatefulSet asks for: one primary and its replicas.
	Nodes int
	// Stale tells that Kubernetes has yet to take over the present spec for it: which of its Pods are
	// outdated is not known until then.
	Stale bool
}

// View is everything that was seen of one cluster in one pass.
type View struct {
	// Nodes has one entry for each Pod of the cluster, also for those that did not answer, ordered by
	// group and ordinal (see Sort).
	Nodes []Node
	// Groups has one entry for each StatefulSet, ordered by index. It may be left empty, and then no
	// change of size is noticed before the cluster's own state shows it.
	Groups []Group
}

// Sort orders nodes by group and ordinal, then by Pod UID, as View.Nodes must be.
func Sort(nodes []Node) {
	slices.SortFunc(nodes, func(a, b Node) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Ordinal, b.Ordinal), cmp.Compare(a.PodUID, b.PodUID))
	})
}

// ByID finds the node that answered with this ID.
func (v View) ByID(id string) (Node, bool) {
	for _, n := range v.Nodes {
		if n.Reachable && n.ID == id && id != "" {
			return n, true
		}
	}
	return Node{}, false
}

// InGroup is the nodes of one group, in order.
func (v View) InGroup(group int) []Node {
	var out []Node
	for _, n := range v.Nodes {
		if n.Group == group {
			out = append(out, n)
		}
	}
	return out
}

// Desired is what the cluster should be.
type Desired struct {
	// Size is the number of primaries, from 1.
	Size int
	// ReplicasPerPrimary is the number of replicas of each, from 0.
	ReplicasPerPrimary int
	// NodeTimeout is the servers' cluster-node-timeout. Zero means DefaultNodeTimeout.
	NodeTimeout time.Duration
}

// DefaultNodeTimeout is the cluster-node-timeout that the operator configures.
const DefaultNodeTimeout = 2 * time.Second

// Nodes is the number of nodes of the whole cluster.
func (d Desired) Nodes() int { return d.Size * (1 + d.ReplicasPerPrimary) }
