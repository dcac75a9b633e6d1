package plan

import (
	"slices"
	"strconv"
	"time"

	"example.com/redis-operator/controllers/topology"
)

// serve is the value of the start-gate annotation that lets a node serve what it has, since no better copy exists:
// "serve:<its own config epoch>:<restarts>", or "serve:*:<restarts>" when nobody is left who knows its epoch. The number
// of the container's restarts makes the value differ from one that has opened the gate before.
func serve(epoch string, n topology.Node) string {
	return "serve:" + epoch + ":" + strconv.Itoa(n.RestartCount)
}

// gateGrace is for how long a node with an append-only file may take to listen before it is suspected to wait at its
// gate all the same, since the file is gone.
const gateGrace = 5 * time.Second

// isAtGate reports whether a node may be waiting at its start gate.
func (c *cluster) isAtGate(n topology.Node) bool {
	isLong := !n.ContainerStartedAt.IsZero() && c.now.Sub(n.ContainerStartedAt) > gateGrace
	return n.ContainerRunning && n.IsStopped() && n.Address.IP != "" && !n.Deleting && (!n.AOF || isLong)
}

// returnGrace is for how long a dead primary whose append-only file outlives it is waited for: it returns with all but
// its last second, and a replica may lack more.
const returnGrace = 30 * time.Second

// noElectionGrace is for how long a silent primary without hope of an election is no problem yet: Kubernetes takes a
// second or two to say what became of a container.
const noElectionGrace = 5 * time.Second

// validityFactor is the servers' cluster-replica-validity-factor: a replica whose link was down for longer than that many
// node timeouts does not stand for election.
const validityFactor = 10

// promote makes a replica the primary of a group whose primary is known to be stopped, where no election can do it: no
// majority of the primaries is alive, or no replica of the group may stand. One group a pass; the next pass sees what
// the cluster makes of it.
func (c *cluster) promote() []Step {
	for _, g := range c.groups() {
		dead, ok := c.deadPrimaryOf(g)
		if _, live := c.primaries[g]; live || !ok {
			continue
		}
		best, ok := c.bestReplica(g, dead.id)
		switch {
		case !ok:
			c.noteWithoutCopy(g, dead)
		case c.canElect(g, dead.id):
			c.await("the cluster elects a primary for node group %d", g)
		case !c.isStopped(dead) && best.LinkDownFor < noElectionGrace:
			c.await("the primary of node group %d does not answer", g)
		case !c.isStopped(dead):
			c.report(NoElection, best.PodName, "the primary of node group %d does not answer, is not known to be stopped, "+
				"and no election is possible", g)
		case c.mayReturn(g, best):
			c.await("the primary of node group %d is expected back with its append-only file", g)
		default:
			return []Step{step(Takeover, best, "its primary is stopped and no election is possible")}
		}
	}
	return nil
}

// bestReplica is the replica of a dead primary with most of its data. One that never had a link in the life of its
// process and holds no key is none: it has lost its data set.
func (c *cluster) bestReplica(group int, deadID string) (best topology.Node, ok bool) {
	for _, n := range c.membersOf(group) {
		if n.Role != topology.RoleReplica || n.PrimaryID != deadID || n.Syncing || n.LinkDownFor < 0 && n.Keys == 0 {
			continue
		}
		if !ok || n.Offset > best.Offset {
			best, ok = n, true
		}
	}
	return best, ok
}

// canElect reports whether a replica of this group may stand for election, and a majority is there to vote.
func (c *cluster) canElect(group int, deadID string) bool {
	live := 0
	for _, cl := range c.claims {
		if cl.live {
			live++
		}
	}
	if live <= len(c.claims)/2 {
		return false
	}
	for _, n := range c.membersOf(group) {
		isValid := n.LinkUp || n.LinkDownFor >= 0 && n.LinkDownFor <= validityFactor*c.desired.NodeTimeout
		if n.Role == topology.RoleReplica && n.PrimaryID == deadID && isValid {
			return true
		}
	}
	return false
}

// isStopped reports whether the process that had this ID is known to be no more: its Pod says so, another ID answers at
// its address, or no Pod has that address any more.
func (c *cluster) isStopped(dead claim) bool {
	for _, n := range c.view.Nodes {
		if n.Address.IP != "" && n.Address.Same(dead.address) {
			return n.Reachable && n.ID != dead.id || n.IsStopped()
		}
	}
	for _, n := range c.members {
		if n.PrimaryID == dead.id && n.LinkUp {
			return false
		}
	}
	return true
}

// mayReturn reports whether a Pod of the group may yet bring the dead primary back with all but its last second.
func (c *cluster) mayReturn(group int, best topology.Node) bool {
	down := best.LinkDownFor
	if down < 0 {
		down = best.Uptime
	}
	if down > returnGrace {
		return false
	}
	if c.lacksPod(group) && c.hasStorage() && best.AOF {
		return true
	}
	for _, n := range c.view.InGroup(group) {
		if !n.Reachable && n.AOF && (n.Storage || n.RestartCount > 0 || n.ContainerRunning) {
			return true
		}
	}
	return false
}

// noteWithoutCopy tells what becomes of a dead primary's slots when no replica has its data.
func (c *cluster) noteWithoutCopy(group int, dead claim) {
	for _, n := range c.view.InGroup(group) {
		if !n.Reachable && (n.Storage || n.Address.Same(dead.address)) {
			c.await("the primary of node group %d is expected back: %s", group, whyUnreachable(n))
			return
		}
		if n.Reachable && n.Syncing {
			c.await("%s is being synchronised", n.PodName)
			return
		}
	}
	if c.lacksPod(group) && c.hasStorage() {
		c.await("the primary of node group %d is expected back with its storage", group)
		return
	}
	c.report(SlotsLost, "", "slots %s of node group %d have no owner and no copy is left", dead.slots, group)
}

// openGate lets nodes start that wait at their gate: as a replica once the group has another live primary, with what
// they have once it is certain that no better copy exists.
func (c *cluster) openGate() []Step {
	var steps []Step
	for _, n := range c.view.Nodes {
		if !c.isAtGate(n) || c.isKnownReplica(n) {
			continue
		}
		value, reason := c.gateFor(n)
		if value == "" || value == n.Gate {
			continue
		}
		s := step(OpenGate, n, reason)
		s.NodeID, s.Gate = "", value
		steps = append(steps, s)
	}
	return steps
}

// gateFor is the value with which a waiting node may pass, or "" while it must wait.
func (c *cluster) gateFor(n topology.Node) (value, reason string) {
	if p, ok := c.primaries[n.Group]; ok {
		return strconv.FormatUint(p.ConfigEpoch, 10), "node group has the primary " + p.PodName
	}
	dead, known := c.deadPrimaryOf(n.Group)
	if !known {
		return c.gateForUnknown(n)
	}
	if _, ok := c.bestReplica(n.Group, dead.id); ok {
		return "", "" // It is promoted.
	}
	if other, ok := c.findPossibleCopy(c.view.InGroup(n.Group), n); ok {
		c.await("%s waits at its start gate until %s has answered", n.PodName, other.PodName)
		return "", ""
	}
	if c.lacksPod(n.Group) && c.hasStorage() {
		c.await("%s waits at its start gate until the other Pods of its node group exist", n.PodName)
		return "", ""
	}
	return serve(strconv.FormatUint(dead.epoch, 10), n), "no better copy of its data is left"
}

// gateForUnknown is the gate's value for a node of which nobody knows anything, since those who did are gone.
func (c *cluster) gateForUnknown(n topology.Node) (value, reason string) {
	_, isWaited := c.findPossibleCopy(c.view.Nodes, n)
	isNew := n.RestartCount == 0 && !n.Storage
	isKnown := slices.ContainsFunc(c.view.Nodes, func(other topology.Node) bool { return other.Alive && !other.IsBlank() })
	if isNew || isKnown || isWaited || c.hasStorage() && len(c.view.Nodes) < c.expectedNodes() {
		return "", ""
	}
	return serve("*", n), "no better copy of its data is left, and nobody knows its epoch"
}

// findPossibleCopy is another Pod that has not answered, but may hold data and be about to start with it.
func (c *cluster) findPossibleCopy(nodes []topology.Node, waiting topology.Node) (topology.Node, bool) {
	for _, n := range nodes {
		if n.PodUID != waiting.PodUID && c.isPossibleCopy(n) {
			return n, true
		}
	}
	return topology.Node{}, false
}

// isPossibleCopy reports whether a Pod that has not answered may hold data and be about to start with it.
func (c *cluster) isPossibleCopy(n topology.Node) bool {
	if n.Reachable {
		return n.Syncing
	}
	return !c.isAtGate(n) && (n.Storage || n.ContainerRunning || n.RestartCount > 0)
}

// isKnownReplica reports whether those who know the node at this address all take it for a replica: such a one passes
// its gate by itself.
func (c *cluster) isKnownReplica(n topology.Node) bool {
	known := false
	for _, m := range c.members {
		for _, p := range m.Known {
			if !p.Address.Same(n.Address) || p.Handshake {
				continue
			}
			if p.Role == topology.RolePrimary {
				return false
			}
			known = true
		}
	}
	return known
}
