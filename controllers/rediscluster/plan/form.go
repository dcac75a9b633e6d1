package plan

import (
	"time"

	"example.com/redis-operator/controllers/topology"
)

// firstNodeGrace is for how long a group without primary waits for its first node while another is up: the first
// nodes are spread over the machines.
const firstNodeGrace = 10 * time.Second

// form gives out the slots that nobody owns: each group gets what is missing of its even share, at once and all groups
// in one pass, since a primary that has no slots two seconds after its start pays another node timeout before it serves.
// Config epochs come first: a node takes one only as long as it knows nobody.
//
// Slots of a dead owner are not missing: they are owned. And nothing is given out while a Pod might hold older state.
func (c *cluster) form() []Step {
	owned, _ := c.owned()
	missing := topology.AllSlots().Minus(owned)
	if missing.IsEmpty() || c.awaitsUnknown() {
		return nil
	}
	var steps []Step
	for g := range c.desired.Size {
		share := topology.EvenShare(g, c.desired.Size).Intersect(missing)
		if share.IsEmpty() {
			continue
		}
		n, ok := c.primaryToBe(g)
		if !ok {
			continue
		}
		if needsEpoch(n) {
			s := step(SetConfigEpoch, n, "distinct epochs spare the servers a vote")
			s.Epoch = uint64(g) + 1
			steps = append(steps, s)
		}
		s := step(AddSlots, n, "slots of the node group have no owner")
		s.Slots = share
		steps = append(steps, s)
	}
	return steps
}

func needsEpoch(n topology.Node) bool {
	return len(n.Known) == 0 && n.ConfigEpoch == 0 && n.Slots.IsEmpty()
}

// awaitsUnknown reports that not all node groups exist yet, or that a Pod may hold a former state of the cluster which
// nobody has seen yet.
func (c *cluster) awaitsUnknown() bool {
	if len(c.view.Groups) > 0 && len(c.view.Groups) != c.desired.Size {
		return true
	}
	for _, n := range c.view.Nodes {
		isNew := !n.Storage && !n.ContainerRunning && n.RestartCount == 0
		if !n.Reachable && !isNew {
			return true
		}
	}
	return len(c.foreign) > 0 || c.hasStorage() && len(c.view.Nodes) < c.expectedNodes()
}

// primaryToBe is the node of a group that gets the group's missing slots: who has slots already, or else the first that
// is empty.
func (c *cluster) primaryToBe(group int) (topology.Node, bool) {
	if p, ok := c.primaries[group]; ok {
		return p, true
	}
	for _, n := range c.membersOf(group) {
		if n.Role != topology.RolePrimary || !n.Slots.IsEmpty() || n.Keys > 0 {
			continue
		}
		if n.Ordinal > 0 && n.Uptime < firstNodeGrace && c.isLate(group, 0) {
			break
		}
		return n, true
	}
	c.await("node group %d has no node that could take its slots", group)
	return topology.Node{}, false
}

// isLate reports whether the Pod with this ordinal has not answered yet.
func (c *cluster) isLate(group, ordinal int) bool {
	for _, n := range c.view.InGroup(group) {
		if n.Ordinal == ordinal {
			return !n.Reachable
		}
	}
	return true
}

// isUnplaced reports whether a node is empty and its group has no owner of slots yet, dead or alive.
func (c *cluster) isUnplaced(n topology.Node) bool {
	if _, ok := c.primaries[n.Group]; ok || n.Role != topology.RolePrimary || !n.Slots.IsEmpty() {
		return false
	}
	_, dead := c.deadPrimaryOf(n.Group)
	return !dead
}
