// Package redis talks to single Redis servers: it reports what they say and does what it is told, one
// command a method, and decides nothing. No command is ever sent twice: what failed may have been done,
// and the caller looks again. Everything is safe for concurrent use.
package redis

import (
	"context"

	"example.com/redis-operator/controllers/topology"
)

// Node is one Redis server. Every method sends one command and is bound by ctx as well as by the dialer's
// own timeouts. The methods that change something first ask the dialer's Check and send nothing when it
// answers with an error, which they return wrapped.
type Node interface {
	// ClusterNodes is CLUSTER NODES: the node's own line, and those of its peers ordered by ID.
	ClusterNodes(ctx context.Context) (myself topology.Peer, peers []topology.Peer, err error)
	// ClusterInfo is CLUSTER INFO.
	ClusterInfo(ctx context.Context) (ClusterInfo, error)
	// Info is INFO with the sections that the operator reads.
	Info(ctx context.Context) (Info, error)
	// ConfigGet is CONFIG GET for exact names. A name that the server does not know is absent.
	ConfigGet(ctx context.Context, names ...string) (map[string]string, error)
	// ClientList is CLIENT LIST.
	ClientList(ctx context.Context) ([]Client, error)

	// Meet is CLUSTER MEET. Success means queued, not met.
	Meet(ctx context.Context, peer topology.Address) error
	// Forget is CLUSTER FORGET. A node that is already unknown is no error.
	Forget(ctx context.Context, id string) error
	// SetConfigEpoch is CLUSTER SET-CONFIG-EPOCH. It fails on a node that knows another or has an epoch.
	SetConfigEpoch(ctx context.Context, epoch uint64) error
	// AddSlots is CLUSTER ADDSLOTSRANGE: all of the slots, or an error and none of them.
	AddSlots(ctx context.Context, slots topology.SlotSet) error
	// Replicate is CLUSTER REPLICATE.
	Replicate(ctx context.Context, primaryID string) error
	// Takeover is CLUSTER FAILOVER TAKEOVER. Success means accepted: the caller looks at the role.
	Takeover(ctx context.Context) error
	// Failover is CLUSTER FAILOVER: the primary stops writes and lets the replica catch up, and the replica then
	// stands for election. Success means accepted: the caller looks at the role. Sent again within the servers'
	// bound of 5 s it begins anew.
	Failover(ctx context.Context) error
	// ConfigSet is one CONFIG SET of all the directives: all of them, or an error and none.
	ConfigSet(ctx context.Context, directives map[string]string) error
	// ClientKill is CLIENT KILL ID. A client that is already gone is no error.
	ClientKill(ctx context.Context, id int64) error
}

// ClusterInfo is what CLUSTER INFO says.
type ClusterInfo struct {
	// OK is cluster_state:ok.
	OK           bool
	CurrentEpoch uint64
	KnownNodes   int
}

// Client is one line of CLIENT LIST.
type Client struct {
	ID   int64
	Name string
	Addr string
}
