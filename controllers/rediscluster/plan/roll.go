package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"example.com/redis-operator/controllers/topology"
)

// Roll is how far the replacement of outdated nodes is. At most one sentence is set, and names the node group.
type Roll struct {
	// Outdated is the number of nodes whose Pod was made from an earlier spec.
	Outdated int
	// Awaits tells what comes before the next node; Held why it cannot be replaced without a loss, of which only a
	// person can judge. Both are empty while something is done.
	Awaits, Held string
}

// IsOver reports whether every node is as the spec wants it.
func (r Roll) IsOver() bool { return r.Outdated == 0 && r.Awaits == "" && r.Held == "" }

const (
	// maxLag is by how many bytes of the replication stream a replica may be behind and count as caught up. What is
	// written between the asking of two nodes looks like a lag, too. A failover waits for the rest by itself.
	maxLag = 1 << 20
	// failoverBound is after how long the servers have given up a failover, with some room.
	failoverBound = 7 * time.Second
	// redirection is for how long an old primary stays after a failover, to redirect clients: at the address of a Pod that
	// is gone nobody answers, and a client finds that out by a timeout.
	redirection = 2 * time.Second
	// failoverRest is after how long a failover that came to nothing is tried again: each stops writes for up to 5 s.
	failoverRest = time.Minute
)

// roll replaces the nodes whose Pod was made from an earlier spec, one at a time and only in a cluster that is whole:
// replicas of all groups first, then a graceful failover to one that is up to date, then the old primary, which is a
// replica by then. A node that does not run anyway comes before all others: that heals a roll that got stuck.
func (c *cluster) roll(f Facts, busy []Step) (Roll, []Step) {
	outdated := slices.DeleteFunc(slices.Clone(c.view.Nodes), func(n topology.Node) bool { return !n.Outdated })
	if !f.Formed {
		return Roll{}, nil
	}
	r := Roll{Outdated: len(outdated), Awaits: c.whyStale()}
	if len(outdated) == 0 {
		return r, nil
	}
	if n, ok := c.findBroken(f, outdated, busy); ok {
		return r, []Step{step(Replace, n, "does not work, and its Pod was made from an earlier spec")}
	}
	if r.Awaits == "" {
		r.Awaits = c.whyNotWhole(f)
	}
	if r.Awaits != "" || len(busy) > 0 {
		return r, nil
	}
	for _, n := range outdated {
		p := c.primaries[n.Group]
		switch {
		case p.ID == n.ID:
		case c.now.Sub(p.FailoverAsked) < redirection:
			r.Awaits = fmt.Sprintf("node group %d: clients are being told that %s is the primary now", n.Group, p.PodName)
			return r, nil
		default:
			return r, []Step{step(Replace, n, "its Pod was made from an earlier spec")}
		}
	}
	for _, p := range outdated {
		steps, awaits, held := c.rollPrimary(p)
		if len(steps) > 0 || awaits != "" {
			return Roll{Outdated: len(outdated), Awaits: awaits}, steps
		}
		r.Held = cmp.Or(r.Held, held)
	}
	return r, nil
}

// whyStale tells of a node group that Kubernetes does not have as it should be yet.
func (c *cluster) whyStale() string {
	for _, g := range c.view.Groups {
		if g.Stale {
			return fmt.Sprintf("the StatefulSet of node group %d is being written", g.Index)
		}
	}
	return ""
}

// findBroken is an outdated node that can go at once, since nothing is taken down or lost by it: it is stopped, and its
// data is elsewhere or outlives the Pod; or it cannot follow a primary that is up to date already, as a server of an
// earlier version cannot read what a later one sends.
func (c *cluster) findBroken(f Facts, outdated []topology.Node, busy []Step) (topology.Node, bool) {
	for _, n := range outdated {
		p, hasPrimary := c.primaries[n.Group]
		isElsewhere := n.NeverStarted || n.Storage || hasPrimary
		isBusy := slices.ContainsFunc(busy, func(s Step) bool { return s.PodUID == n.PodUID })
		switch {
		case n.Deleting || isBusy:
		case !n.Reachable && n.IsStopped() && isElsewhere:
			return n, true
		case hasPrimary && !p.Outdated && n.Role == topology.RoleReplica && !n.LinkUp && c.isOnlyOneOut(f, n):
			return n, true
		}
	}
	return topology.Node{}, false
}

// isOnlyOneOut reports whether the cluster would be whole but for this one node's link.
func (c *cluster) isOnlyOneOut(f Facts, out topology.Node) bool {
	return f.Agreed && f.SlotsCovered && len(c.problems) == 0 && !slices.ContainsFunc(c.members, func(n topology.Node) bool {
		return n.Deleting || n.PodUID != out.PodUID && !c.isInPlace(n)
	})
}

// whyNotWhole tells what of the cluster is not as it must be before a node may be taken down.
func (c *cluster) whyNotWhole(f Facts) string {
	for _, n := range c.view.Nodes {
		switch {
		case n.Deleting:
			return fmt.Sprintf("node group %d: %s is being deleted", n.Group, n.PodName)
		case !n.Reachable:
			return fmt.Sprintf("node group %d: %s", n.Group, whyUnreachable(n))
		}
	}
	for _, g := range c.view.Groups {
		if c.lacksPod(g.Index) {
			return fmt.Sprintf("node group %d: a Pod is missing", g.Index)
		}
	}
	for _, n := range c.members {
		p := c.primaries[n.Group]
		switch {
		case !c.isInPlace(n):
			return fmt.Sprintf("node group %d: %s is no linked replica of a primary", n.Group, n.PodName)
		case p.Offset-n.Offset > maxLag:
			return fmt.Sprintf("node group %d: %s has yet to catch up with %s", n.Group, n.PodName, p.PodName)
		}
	}
	switch {
	case len(c.problems) > 0:
		return c.problems[0].Message
	case f.Agreed && f.SlotsCovered && f.ReplicasLinked:
		return ""
	case len(c.reasons) > 0:
		return c.reasons[0]
	}
	return "the nodes do not agree yet"
}

// rollPrimary makes way for the replacement of an outdated primary of a group whose other nodes are up to date.
func (c *cluster) rollPrimary(p topology.Node) (steps []Step, awaits, held string) {
	var best topology.Node
	for _, n := range c.membersOf(p.Group) {
		if n.ID != p.ID && (best.ID == "" || n.Offset > best.Offset) {
			best = n
		}
	}
	asked := c.now.Sub(best.FailoverAsked)
	switch {
	case best.ID == "" && p.Storage && p.AOF:
		return []Step{step(Restart, p, "its Pod was made from an earlier spec, and no replica can stand in")}, "", ""
	case best.ID == "":
		return nil, "", fmt.Sprintf("node group %d: %s has no replica, and no storage with an append-only file that is written "+
			"every second: to replace it would lose its data; delete the Pod if that may go", p.Group, p.PodName)
	case best.FailoverAsked.IsZero() || asked > failoverRest:
		return []Step{step(Failover, best, "takes over from "+p.PodName+", whose Pod was made from an earlier spec")}, "", ""
	case asked < failoverBound:
		return nil, fmt.Sprintf("node group %d: %s takes over from %s", p.Group, best.PodName, p.PodName), ""
	}
	return nil, "", fmt.Sprintf("node group %d: %s was asked to take over from %s and did not; it is asked again in a minute",
		p.Group, best.PodName, p.PodName)
}

// HoldRoll is the plan without the steps of the roll, since for a reason of the caller's they must wait.
func (p Plan) HoldRoll(why string) Plan {
	p.Steps = slices.DeleteFunc(slices.Clone(p.Steps), Step.isRoll)
	p.Roll.Awaits = why
	if p.Phase == PhaseRolling {
		p.Phase = PhaseSettled
	}
	return p
}

// IsRolling reports whether the plan has a step that replaces a node or prepares for it.
func (p Plan) IsRolling() bool { return slices.ContainsFunc(p.Steps, Step.isRoll) }

func (s Step) isRoll() bool { return s.Kind == Replace || s.Kind == Restart || s.Kind == Failover }
