package redistest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"example.com/redis-operator/controllers/redis"
	"example.com/redis-operator/controllers/topology"
)

var _ redis.Node = (*Fake)(nil)

// refusal is an answer of the server itself.
type refusal string

func (r refusal) Error() string { return string(r) }

// RedisError marks it as such for the client library's interface of that name.
func (refusal) RedisError() {}

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf("ERR "+format, args...)) }

// do runs a command under the cluster's mutex, if the process is up.
func (f *Fake) do(command func() error) error {
	f.cluster.mu.Lock()
	defer f.cluster.mu.Unlock()
	if err := f.reach(); err != nil {
		return err
	}
	return command()
}

// change is do for commands that change the cluster.
func (f *Fake) change(command func() error) error {
	return f.do(func() error {
		f.cluster.changed = f.cluster.now
		return command()
	})
}

// ClusterNodes implements redis.Node.
func (f *Fake) ClusterNodes(context.Context) (myself topology.Peer, peers []topology.Peer, err error) {
	err = f.do(func() error {
		myself = f.myself
		for _, p := range f.sorted() {
			peers = append(peers, p.Peer)
		}
		for _, h := range f.shakes {
			peers = append(peers, topology.Peer{ID: h.id, Address: h.to, Role: topology.RolePrimary, Handshake: true})
		}
		slices.SortFunc(peers, func(a, b topology.Peer) int { return strings.Compare(a.ID, b.ID) })
		return nil
	})
	return myself, peers, err
}

// ClusterInfo implements redis.Node.
func (f *Fake) ClusterInfo(context.Context) (info redis.ClusterInfo, err error) {
	err = f.do(func() error {
		info = redis.ClusterInfo{OK: f.stateOK, CurrentEpoch: f.epoch, KnownNodes: 1 + len(f.peers) + len(f.shakes)}
		return nil
	})
	return info, err
}

// Info implements redis.Node.
func (f *Fake) Info(context.Context) (info redis.Info, err error) {
	err = f.do(func() error {
		uptime := (f.cluster.now - f.started).Truncate(time.Second)
		info = redis.Info{Version: "7.0.15", Role: f.myself.Role, Keys: f.keys, Offset: f.offset, Uptime: uptime}
		if f.myself.Role != topology.RoleReplica {
			return nil
		}
		info.PrimaryAddress = topology.Address{IP: f.repl.address.IP, Port: f.repl.address.Port}
		info.LinkUp = f.repl.up
		switch {
		case f.repl.up:
		case f.repl.hadLink:
			info.LinkDownFor = (f.cluster.now - f.repl.downSince).Truncate(time.Second)
		default:
			info.LinkDownFor = -time.Second
		}
		return nil
	})
	return info, err
}

// ConfigGet implements redis.Node.
func (f *Fake) ConfigGet(_ context.Context, names ...string) (values map[string]string, err error) {
	err = f.do(func() error {
		values = map[string]string{}
		for _, name := range names {
			if value, ok := f.config[name]; ok {
				values[name] = value
			}
		}
		return nil
	})
	return values, err
}

// ConfigSet implements redis.Node. It takes every directive.
func (f *Fake) ConfigSet(_ context.Context, directives map[string]string) error {
	return f.do(func() error {
		maps.Copy(f.config, directives)
		return nil
	})
}

// ClientList implements redis.Node. There is never a client.
func (f *Fake) ClientList(context.Context) ([]redis.Client, error) {
	return nil, f.do(func() error { return nil })
}

// ClientKill implements redis.Node.
func (f *Fake) ClientKill(context.Context, int64) error { return f.do(func() error { return nil }) }

// Meet implements redis.Node.
func (f *Fake) Meet(_ context.Context, address topology.Address) error {
	return f.change(func() error {
		f.shake(address)
		return nil
	})
}

// shake queues a handshake, unless one with that address is under way.
func (f *Fake) shake(to topology.Address) {
	if slices.ContainsFunc(f.shakes, func(h handshake) bool { return h.to.Same(to) }) {
		return
	}
	f.cluster.seed++
	id := fmt.Sprintf("%040x", f.cluster.seed)
	f.shakes = append(f.shakes, handshake{id: id, to: to, since: f.cluster.now})
}

// Forget implements redis.Node.
func (f *Fake) Forget(_ context.Context, id string) error {
	return f.change(func() error {
		switch {
		case id == f.myself.ID:
			return refuse("I tried hard but I can't forget myself...")
		case id == f.myself.PrimaryID:
			return refuse("Can't forget my master!")
		case f.peers[id] == nil:
			return nil
		}
		delete(f.peers, id)
		f.banned[id] = f.cluster.now + forgetBan
		return nil
	})
}

// SetConfigEpoch implements redis.Node.
func (f *Fake) SetConfigEpoch(_ context.Context, epoch uint64) error {
	return f.change(func() error {
		switch {
		case len(f.peers)+len(f.shakes) > 0:
			return refuse("The user can assign a config epoch only when the node does not know any other node.")
		case f.myself.ConfigEpoch != 0:
			return refuse("Node config epoch is already non-zero")
		}
		f.myself.ConfigEpoch, f.epoch = epoch, max(f.epoch, epoch)
		return nil
	})
}

// AddSlots implements redis.Node.
func (f *Fake) AddSlots(_ context.Context, slots topology.SlotSet) error {
	return f.change(func() error {
		taken := f.myself.Slots
		for _, p := range f.peers {
			taken = taken.Union(p.Slots)
		}
		if busy := slots.Intersect(taken); !busy.IsEmpty() {
			return refuse("Slot %d is already busy", busy.Ranges()[0].First)
		}
		f.myself.Slots = f.myself.Slots.Union(slots)
		return nil
	})
}

// Replicate implements redis.Node.
func (f *Fake) Replicate(_ context.Context, primaryID string) error {
	return f.change(func() error {
		p := f.peers[primaryID]
		switch {
		case primaryID == f.myself.ID:
			return refuse("Can't replicate myself")
		case p == nil:
			return refuse("Unknown node %s", primaryID)
		case p.Role != topology.RolePrimary:
			return refuse("I can only replicate a master, not a replica.")
		case f.myself.Role == topology.RolePrimary && (!f.myself.Slots.IsEmpty() || f.keys > 0):
			return refuse("To set a master the node must be empty and without assigned slots.")
		}
		f.become(primaryID)
		return nil
	})
}

// Takeover implements redis.Node.
func (f *Fake) Takeover(context.Context) error {
	return f.change(func() error {
		if f.myself.Role != topology.RoleReplica {
			return refuse("You should send CLUSTER FAILOVER to a replica")
		}
		f.promote()
		return nil
	})
}

// Failover implements redis.Node.
func (f *Fake) Failover(context.Context) error {
	return f.change(func() error {
		switch {
		case f.myself.Role != topology.RoleReplica:
			return refuse("You should send CLUSTER FAILOVER to a replica")
		case !f.repl.up:
			return refuse("Master is down or failed, please use CLUSTER FAILOVER FORCE")
		}
		f.repl.asked = f.cluster.now
		return nil
	})
}
