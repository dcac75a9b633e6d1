package plan

import (
	"example.com/redis-operator/controllers/topology"
)

// mesh introduces members to each other, every pair of them: gossip through a hub takes seconds, may leave parties that
// never find each other, and after a change of addresses leaves replicas with the old address of their primary. A MEET
// of an ID that is known under another address corrects the address.
func (c *cluster) mesh() []Step {
	var steps []Step
	for i, a := range c.members {
		for j, b := range c.members {
			if i == j || !c.canMeet(a) || !c.canMeet(b) || knows(a, b) || isShaking(a, b) {
				continue
			}
			_, aKnows := a.Peer(b.ID)
			_, bKnows := b.Peer(a.ID)
			if i > j && !aKnows && !bKnows {
				continue // Meeting goes both ways, and the other one starts.
			}
			reason := "does not know " + b.PodName
			if aKnows {
				reason = "has an old address of " + b.PodName
			}
			s := step(Meet, a, reason)
			s.Peer, s.PeerID = b.Address, b.ID
			steps = append(steps, s)
		}
	}
	return steps
}

// canMeet reports whether a member may be introduced now. One that may still get slots is first given its epoch, and one
// of a group for which the formed cluster has no slots left stays out.
func (c *cluster) canMeet(n topology.Node) bool {
	return n.Address.IP != "" && (len(n.Known) > 0 || !c.isUnplaced(n))
}

// knows reports whether a has b at its present address, or has a link to it whatever the address.
func knows(a, b topology.Node) bool {
	p, ok := a.Peer(b.ID)
	return ok && (p.Address.Same(b.Address) || p.LinkUp && !isSuspect(p))
}

// isShaking reports whether a is about to meet what listens at b's address.
func isShaking(a, b topology.Node) bool {
	for _, p := range a.Known {
		if p.Handshake && p.Address.Same(b.Address) {
			return true
		}
	}
	return false
}
