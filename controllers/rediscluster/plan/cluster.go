package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"example.com/redis-operator/controllers/topology"
)

// cluster is what one view means: which of the nodes belong together, who owns which slot, and which node
// is the primary of each group. It is built once a pass and then only read, apart from what the rules note.
type cluster struct {
	desired topology.Desired
	view    topology.View
	now     time.Time

	// members are the nodes that answered and belong to the cluster or are free to join it.
	members []topology.Node
	// foreign are the Pods whose server belongs to another cluster.
	foreign []topology.Node
	// doubtful are those of them, by Pod UID, that may yet prove to belong to this cluster.
	doubtful map[string]bool
	// claims is who owns slots, by the highest epoch, ordered by ID.
	claims []claim
	// primaries is the live primary with slots of each group.
	primaries map[int]topology.Node

	// What the rules note.
	reasons  []string
	problems []Problem
}

// claim is one ID's ownership of slots.
type claim struct {
	id      string
	epoch   uint64
	slots   topology.SlotSet
	address topology.Address
	live    bool
}

// newCluster reads a view.
func newCluster(desired topology.Desired, view topology.View, now time.Time) *cluster {
	if desired.NodeTimeout == 0 {
		desired.NodeTimeout = topology.DefaultNodeTimeout
	}
	c := &cluster{desired: desired, view: view, now: now, primaries: map[int]topology.Node{}}
	c.members, c.foreign, c.doubtful = separate(view, desired.Size)
	c.claims = computeClaims(c.members)
	for _, n := range c.members {
		if !n.OwnsSlots() || c.claimOf(n.ID).slots.IsEmpty() {
			continue
		}
		if p, ok := c.primaries[n.Group]; !ok || n.ConfigEpoch > p.ConfigEpoch {
			c.primaries[n.Group] = n
		}
	}
	return c
}

// computeClaims says who owns each slot. Of a live node its own word counts, of another what those who know of its
// latest epoch say. Of two that claim the same slot the higher epoch has it, as among the servers themselves.
func computeClaims(members []topology.Node) []claim {
	all := map[string]claim{}
	for _, n := range members {
		for _, p := range n.Known {
			old, ok := all[p.ID]
			switch {
			case p.Handshake || p.Slots.IsEmpty():
			case !ok || p.ConfigEpoch > old.epoch:
				all[p.ID] = claim{id: p.ID, epoch: p.ConfigEpoch, slots: p.Slots, address: p.Address}
			case p.ConfigEpoch == old.epoch:
				old.slots = old.slots.Union(p.Slots)
				all[p.ID] = old
			}
		}
	}
	for _, n := range members {
		delete(all, n.ID)
		if n.OwnsSlots() {
			all[n.ID] = claim{id: n.ID, epoch: n.ConfigEpoch, slots: n.Slots, address: n.Address, live: true}
		}
	}
	claims := make([]claim, 0, len(all))
	for _, cl := range all {
		claims = append(claims, cl)
	}
	slices.SortFunc(claims, compareClaims)
	var taken topology.SlotSet
	for i := range claims {
		claims[i].slots, taken = claims[i].slots.Minus(taken), taken.Union(claims[i].slots)
	}
	claims = slices.DeleteFunc(claims, func(cl claim) bool { return cl.slots.IsEmpty() })
	slices.SortFunc(claims, func(a, b claim) int { return cmp.Compare(a.id, b.id) })
	return claims
}

// compareClaims puts the stronger claim first. Of two with one epoch the living owner's is: a server that is told to take
// over keeps its epoch if it is the highest already, though the dead primary's may be the same.
func compareClaims(a, b claim) int {
	switch {
	case a.epoch != b.epoch:
		return cmp.Compare(b.epoch, a.epoch)
	case a.live != b.live && a.live:
		return -1
	case a.live != b.live:
		return 1
	}
	return cmp.Compare(a.id, b.id)
}

// liveSlots are those whose owner answers.
func (c *cluster) liveSlots() topology.SlotSet {
	var slots topology.SlotSet
	for _, cl := range c.claims {
		if cl.live {
			slots = slots.Union(cl.slots)
		}
	}
	return slots
}

// claimOf is the slots that an ID owns, empty when it owns none.
func (c *cluster) claimOf(id string) claim {
	for _, cl := range c.claims {
		if cl.id == id {
			return cl
		}
	}
	return claim{id: id}
}

// owned is every slot that somebody owns, dead or alive; assigned is those of live primaries.
func (c *cluster) owned() (owned, assigned topology.SlotSet) {
	for _, cl := range c.claims {
		owned = owned.Union(cl.slots)
		if cl.live {
			assigned = assigned.Union(cl.slots)
		}
	}
	return owned, assigned
}

// membersOf is the members in one group, in order.
func (c *cluster) membersOf(group int) []topology.Node {
	return topology.View{Nodes: c.members}.InGroup(group)
}

// member finds a member by ID.
func (c *cluster) member(id string) (topology.Node, bool) {
	return topology.View{Nodes: c.members}.ByID(id)
}

// silent is the Pods that are no members because their server did not answer.
func (c *cluster) silent() []topology.Node {
	return slices.DeleteFunc(slices.Clone(c.view.Nodes), func(n topology.Node) bool { return n.Reachable })
}

// expectedNodes is how many Pods there should be: as Kubernetes was told, or else as desired.
func (c *cluster) expectedNodes() int {
	if len(c.view.Groups) == 0 {
		return c.desired.Nodes()
	}
	sum := 0
	for _, g := range c.view.Groups {
		sum += g.Nodes
	}
	return sum
}

// groups is the numbers of all groups that are desired or have Pods, ascending.
func (c *cluster) groups() []int {
	var out []int
	for g := range c.desired.Size {
		out = append(out, g)
	}
	for _, n := range c.view.Nodes {
		out = append(out, n.Group)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// deadPrimaryOf is the owner of this group's slots when it did not answer.
func (c *cluster) deadPrimaryOf(group int) (claim, bool) {
	if _, live := c.primaries[group]; live {
		return claim{}, false
	}
	for _, cl := range c.claims {
		if !cl.live && c.groupOf(cl) == group {
			return cl, true
		}
	}
	return claim{}, false
}

// groupOf is the group of an owner that did not answer: by the word of its replicas, by its address if a silent Pod has
// that, or else by the share of the slots that it owns. -1 when nothing tells.
func (c *cluster) groupOf(cl claim) int {
	for _, n := range c.members {
		if n.Role == topology.RoleReplica && n.PrimaryID == cl.id {
			return n.Group
		}
	}
	for _, n := range c.view.Nodes {
		if !n.Reachable && n.Address.IP != "" && n.Address.Same(cl.address) {
			return n.Group
		}
	}
	for g := range c.desired.Size {
		if !topology.EvenShare(g, c.desired.Size).Intersect(cl.slots).IsEmpty() {
			return g
		}
	}
	return -1
}

// lacksPod reports whether a Pod of the group does not exist at present.
func (c *cluster) lacksPod(group int) bool {
	want := 1 + c.desired.ReplicasPerPrimary
	for _, g := range c.view.Groups {
		if g.Index == group {
			want = g.Nodes
		}
	}
	return len(c.view.InGroup(group)) < want
}

// hasStorage reports whether the cluster's Pods have storage that outlives them.
func (c *cluster) hasStorage() bool {
	return slices.ContainsFunc(c.view.Nodes, func(n topology.Node) bool { return n.Storage })
}

// await notes what the cluster waits for.
func (c *cluster) await(format string, args ...any) {
	c.reasons = append(c.reasons, fmt.Sprintf(format, args...))
}

// report notes what a person should know.
func (c *cluster) report(kind ProblemKind, pod, format string, args ...any) {
	c.problems = append(c.problems, Problem{Kind: kind, Pod: pod, Message: fmt.Sprintf(format, args...)})
}

// step starts a step for a node.
func step(kind Kind, n topology.Node, reason string) Step {
	return Step{Kind: kind, Pod: n.PodName, PodUID: n.PodUID, NodeID: n.ID, Reason: reason}
}
