package plan

import "example.com/redis-operator/controllers/topology"

// facts tells what the view shows.
func (c *cluster) facts() Facts {
	owned, assigned := c.owned()
	f := Facts{
		Formed:    topology.AllSlots().Equal(owned),
		Assigned:  assigned,
		Missing:   topology.AllSlots().Minus(assigned),
		Primaries: map[int]string{},
	}
	for g, p := range c.primaries {
		f.Primaries[g] = p.PodName
	}
	complete := len(c.members) == c.expectedNodes() && len(c.view.Nodes) == len(c.members)
	f.ReplicasLinked, f.SlotsCovered = complete, f.Missing.IsEmpty()
	for _, n := range c.members {
		if c.isInPlace(n) {
			f.ReadyNodes++
		} else {
			f.ReplicasLinked = false
		}
		if !n.ClusterOK {
			f.SlotsCovered = false
			if f.Missing.IsEmpty() {
				c.await("%s says that the cluster is not up", n.PodName)
			}
		}
	}
	f.Agreed = complete && c.isAgreed()
	return f
}

// isInPlace reports whether a node is the primary of its group, or a replica of that with its link up.
func (c *cluster) isInPlace(n topology.Node) bool {
	p, ok := c.primaries[n.Group]
	switch {
	case !ok:
		return false
	case p.ID == n.ID:
		return true
	}
	return n.Role == topology.RoleReplica && n.PrimaryID == p.ID && n.LinkUp
}

// isAgreed reports, and notes where it is not so, whether all members know exactly each other, as they are.
func (c *cluster) isAgreed() bool {
	agreed := true
	for _, n := range c.members {
		if n.OpenSlots {
			agreed = false
		}
		if len(n.Known) != len(c.members)-1 {
			c.await("%s knows %d other nodes instead of %d", n.PodName, len(n.Known), len(c.members)-1)
			agreed = false
			continue
		}
		for _, p := range n.Known {
			if why := c.whyDisagree(p); why != "" {
				c.await("%s %s", n.PodName, why)
				agreed = false
				break
			}
		}
	}
	return agreed
}

// whyDisagree tells in what a line of some member's CLUSTER NODES differs from what that peer says of itself.
func (c *cluster) whyDisagree(p topology.Peer) string {
	m, ok := c.member(p.ID)
	switch {
	case !ok:
		return "knows node " + p.ID + ", which no Pod has"
	case isSuspect(p):
		return "takes " + m.PodName + " for dead"
	case p.Role != m.Role:
		return "has not heard of the role of " + m.PodName
	case !p.Slots.Equal(m.Slots) && m.Role == topology.RolePrimary:
		return "has not heard of the slots of " + m.PodName
	case !p.Address.Same(m.Address) && !p.LinkUp:
		return "has an old address of " + m.PodName
	}
	return ""
}
