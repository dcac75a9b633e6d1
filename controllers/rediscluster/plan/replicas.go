package plan

import (
	"example.com/redis-operator/controllers/topology"
)

// replicas makes every other node of a group a replica of the group's live primary. A node is told only once it knows
// the primary. What holds keys and no slots is left alone: to replicate it would have to be emptied.
func (c *cluster) replicas() []Step {
	var steps []Step
	for _, n := range c.members {
		p, ok := c.primaries[n.Group]
		if !ok || p.ID == n.ID {
			continue
		}
		if reason := c.whyReplicate(n, p); reason != "" {
			s := step(Replicate, n, reason)
			s.PeerID = p.ID
			steps = append(steps, s)
		}
	}
	return steps
}

// whyReplicate is the reason for which n has to be told to replicate p, or "" when it has not, or cannot yet.
func (c *cluster) whyReplicate(n, p topology.Node) string {
	peer, known := n.Peer(p.ID)
	known = known && !peer.Handshake && peer.Role == topology.RolePrimary
	switch {
	case !c.claimOf(n.ID).slots.IsEmpty():
		c.report(SplitGroup, n.PodName, "%s and %s of one node group both own slots", n.PodName, p.PodName)
	case n.Role == topology.RolePrimary && !n.Slots.IsEmpty():
		c.await("%s has not heard yet that %s took over its slots", n.PodName, p.PodName)
	case n.Role == topology.RolePrimary && n.Keys > 0:
		c.report(StrayKeys, n.PodName, "%s owns no slot but holds %d keys, so that it cannot replicate %s",
			n.PodName, n.Keys, p.PodName)
	case !known:
		c.await("%s does not know its primary %s yet", n.PodName, p.PodName)
	case n.Role == topology.RolePrimary:
		return "is to be a replica of " + p.PodName
	case n.PrimaryID != p.ID:
		return "replicates a node that is not its group's primary"
	case n.LinkUp:
	case !isReplicating(n, p) && peer.Address.Same(p.Address):
		return "replicates from an old address of " + p.PodName
	default:
		c.await("the replication link of %s is down", n.PodName)
	}
	return ""
}

// isReplicating reports whether a replica looks for its primary where the primary is.
func isReplicating(n, p topology.Node) bool {
	return n.PrimaryAddress.IP == p.Address.IP && n.PrimaryAddress.Port == p.Address.Port
}

// forget removes IDs that are gone from every node in one pass: one that is left would spread them again. It waits until
// every Pod has answered, so that the ID is certainly nobody's; until its slots, if any, have an owner who answers, and no live node
// replicates it, so that the election is over; and until all who list it take it for dead.
func (c *cluster) forget() []Step {
	if len(c.members) < len(c.view.Nodes) || len(c.view.Nodes) < c.expectedNodes() {
		return nil
	}
	var steps []Step
	for _, n := range c.members {
		for _, p := range n.Known {
			if c.isGone(p.ID) {
				s := step(Forget, n, "no Pod has this ID any more")
				s.PeerID = p.ID
				steps = append(steps, s)
			}
		}
	}
	return steps
}

// isGone reports whether an ID is certainly nobody's and needed by nobody.
func (c *cluster) isGone(id string) bool {
	// Where the epochs of a dead owner and of the node that took over are equal, some go on holding the dead one for the
	// owner. It is nobody's all the same, and they believe the living one once they have forgotten it.
	served := c.liveSlots()
	for _, n := range c.members {
		if n.ID == id || n.PrimaryID == id {
			return false
		}
		p, ok := n.Peer(id)
		if ok && (p.Handshake || !p.Slots.Minus(served).IsEmpty() || !isSuspect(p)) {
			return false
		}
	}
	return true
}
