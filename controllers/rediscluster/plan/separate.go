package plan

import (
	"slices"

	"example.com/redis-operator/controllers/topology"
)

// separate divides the nodes that answered into those that belong to this cluster or are free to join it, and those of
// other clusters. An address may be that of a Pod that is long gone, and in use by somebody else: to meet what listens
// there would merge two clusters for good.
//
// Nodes that know each other, or know a third in common, form a party. The party with most slots is the cluster. Another
// party is foreign when it claims slots that the cluster has too. So is one, be it the largest, in which strangers that
// are alive, and at no address of a Pod, outnumber the Pods; and a node alone that owns what is not its group's. With as
// many strangers as Pods it is doubtful: kept out, but maybe only for as long as a Pod's process outlives the Pod.
func separate(view topology.View, size int) (members, foreign []topology.Node, doubtful map[string]bool) {
	parties := computeParties(view.Nodes)
	var core *party
	for i := range parties {
		p := &parties[i]
		strangers := p.strangers(view)
		p.doubtful = strangers > 0 && strangers == len(p.nodes)
		p.foreign = strangers > len(p.nodes) || p.isAstray(size)
		if !p.isOut() && (core == nil || p.slots().Len() > core.slots().Len()) {
			core = p
		}
	}
	doubtful = map[string]bool{}
	for i := range parties {
		p := &parties[i]
		if core != nil && p != core && !p.isOut() {
			p.foreign = !p.slots().Intersect(core.slots()).IsEmpty()
		}
		if !p.isOut() {
			members = append(members, p.nodes...)
			continue
		}
		foreign = append(foreign, p.nodes...)
		for _, n := range p.nodes {
			doubtful[n.PodUID] = !p.foreign
		}
	}
	topology.Sort(members)
	topology.Sort(foreign)
	return members, foreign, doubtful
}

// party is a set of nodes that know each other.
type party struct {
	ids               map[string]bool
	nodes             []topology.Node
	foreign, doubtful bool
}

func (p party) isOut() bool { return p.foreign || p.doubtful }

// computeParties joins nodes with common knowledge, in the order of the nodes.
func computeParties(nodes []topology.Node) []party {
	var parties []party
	for _, n := range nodes {
		if !n.Reachable {
			continue
		}
		merged := partyOf(n)
		var rest []party
		for _, p := range parties {
			if !p.overlaps(merged) {
				rest = append(rest, p)
				continue
			}
			for id := range p.ids {
				merged.ids[id] = true
			}
			merged.nodes = slices.Concat(p.nodes, merged.nodes)
		}
		parties = append(rest, merged)
	}
	return parties
}

// partyOf is a node with all whom it has met.
func partyOf(n topology.Node) party {
	p := party{ids: map[string]bool{n.ID: true}, nodes: []topology.Node{n}}
	for _, peer := range n.Known {
		if !peer.Handshake {
			p.ids[peer.ID] = true
		}
	}
	return p
}

func (p party) overlaps(q party) bool {
	for id := range p.ids {
		if q.ids[id] {
			return true
		}
	}
	return false
}

// slots is everything that somebody in the party owns.
func (p party) slots() topology.SlotSet {
	var out topology.SlotSet
	for _, cl := range computeClaims(p.nodes) {
		out = out.Union(cl.slots)
	}
	return out
}

// isAstray reports whether the party is one node, which knows nobody and owns slots that no cluster of this size would
// have given to its group.
func (p party) isAstray(size int) bool {
	n := p.nodes[0]
	return len(p.ids) == 1 && size > 1 && !n.Slots.Minus(topology.EvenShare(n.Group, size)).IsEmpty()
}

// strangers counts the IDs that the party believes alive, and that are at no address of a Pod.
func (p party) strangers(view topology.View) int {
	count := 0
	for id := range p.ids {
		if slices.ContainsFunc(p.nodes, func(n topology.Node) bool { return n.ID == id }) {
			continue
		}
		if p.isAlive(id) && !slices.ContainsFunc(view.Nodes, func(n topology.Node) bool {
			return slices.ContainsFunc(p.nodes, func(m topology.Node) bool {
				peer, ok := m.Peer(id)
				return ok && peer.Address.Same(n.Address)
			})
		}) {
			count++
		}
	}
	return count
}

// isAlive reports whether a node of the party has a link to this ID and no suspicion against it.
func (p party) isAlive(id string) bool {
	return slices.ContainsFunc(p.nodes, func(n topology.Node) bool {
		peer, ok := n.Peer(id)
		return ok && peer.LinkUp && !isSuspect(peer)
	})
}

// isSuspect reports whether the one who lists the peer believes that it may be dead.
func isSuspect(p topology.Peer) bool { return p.Fail || p.MaybeFail || p.NoAddress }
