package plan

import (
	"time"

	"example.com/redis-operator/controllers/topology"
)

// How soon to look again.
const (
	// afterSteps lets gossip carry what was just said.
	afterSteps = 50 * time.Millisecond
	// whileWaiting is the pace of looking while something is awaited.
	whileWaiting = 100 * time.Millisecond
	// almostUp is the pace of looking at a cluster that wants nothing more but that its primaries have been up for long
	// enough, in the seconds in which that comes true: what is lost by looking late is all that a person waits for.
	almostUp = 25 * time.Millisecond
	// youth and maturity bound those seconds, by the uptime that servers report in whole seconds.
	youth    = 2 * time.Second
	maturity = 5 * time.Second
	// whileStuck is the pace when only a person can help, or something outside of Redis.
	whileStuck = time.Second
)

// Next decides what to do now. The view's nodes must be ordered as topology.Sort does.
//
// Safety comes first, and is no rule of its own: only members take part in anything, and what is foreign or silent is
// no member. Then come repair and growth, and last the replacement of what is outdated. Steps that disturb nobody are returned together, so that a cluster forms in
// three passes; of those that do there is at most one a pass.
func Next(desired topology.Desired, view topology.View, now time.Time) Plan {
	c := newCluster(desired, view, now)
	c.noteSafety()
	var steps []Step
	for _, rule := range []func() []Step{
		c.openGate, // repair
		c.promote,
		c.form, // growth, and what a crash left half done
		c.mesh, // both
		c.replicas,
		c.forget,
	} {
		steps = append(steps, rule()...)
	}
	facts := c.facts() // notes more reasons
	roll, replacing := c.roll(facts, steps)
	return c.fold(append(steps, replacing...), facts, roll)
}

// fold makes the plan of the steps and of what the rules noted.
func (c *cluster) fold(steps []Step, facts Facts, roll Roll) Plan {
	p := Plan{Steps: steps, Facts: facts, Reasons: c.reasons, Problems: c.problems, Roll: roll}
	isDone := p.Facts.Agreed && p.Facts.SlotsCovered && p.Facts.ReplicasLinked
	switch {
	case !p.Facts.Formed:
		p.Phase = PhaseForming
	case isDone && (p.IsRolling() || roll.Awaits != ""):
		p.Phase = PhaseRolling
	case len(steps) > 0 || !isDone:
		p.Phase = PhaseRepairing
	default:
		p.Phase, p.Reasons = PhaseSettled, nil
	}
	p.Wait = c.pace(p)
	return p
}

// pace is after how long to look again.
func (c *cluster) pace(p Plan) time.Duration {
	switch {
	case len(p.Steps) > 0:
		return afterSteps
	case p.Phase == PhaseSettled:
		return 0
	case len(p.Problems) > 0 && len(p.Reasons) == 0:
		return whileStuck
	case p.Facts.Agreed && p.Facts.ReplicasLinked && c.isAlmostUp():
		return almostUp
	}
	return whileWaiting
}

// isAlmostUp reports whether the youngest server has just been up for as long as a primary has to be before it serves.
func (c *cluster) isAlmostUp() bool {
	youngest := maturity
	for _, n := range c.members {
		youngest = min(youngest, n.Uptime)
	}
	return youngest >= youth && youngest < maturity
}

// noteSafety reports what keeps nodes out, and awaits those that did not answer.
func (c *cluster) noteSafety() {
	for _, n := range c.foreign {
		if c.doubtful[n.PodUID] {
			c.await("%s is linked with nodes at addresses that no Pod has", n.PodName)
			continue
		}
		c.report(ForeignNode, n.PodName, "what answers at %s, the address of %s, is node %s of another cluster",
			n.Address, n.PodName, n.ID)
	}
	for _, n := range c.silent() {
		c.await("%s", whyUnreachable(n))
	}
	if missing := c.expectedNodes() - len(c.view.Nodes); missing > 0 {
		c.await("%d of %d Pods do not exist", missing, c.expectedNodes())
	}
	for _, n := range c.members {
		if n.OpenSlots {
			c.report(OpenSlots, n.PodName, "%s has slots that are marked as migrating or importing", n.PodName)
		}
	}
	c.noteSize()
}

// noteSize reports that the cluster that formed has another size than is desired now.
func (c *cluster) noteSize() {
	owned, _ := c.owned()
	if !topology.AllSlots().Equal(owned) {
		return
	}
	size := len(c.view.Groups)
	if size == 0 || size == c.desired.Size {
		size = len(c.claims) // volume claims of an earlier cluster may bring another
	}
	if size != c.desired.Size {
		c.report(SizeChange, "", "the cluster formed with %d primaries and cannot be changed to %d yet", size, c.desired.Size)
	}
	for _, g := range c.view.Groups {
		if g.Nodes != 1+c.desired.ReplicasPerPrimary {
			c.report(SizeChange, "", "node group %d formed with %d replicas and cannot be changed to %d yet",
				g.Index, g.Nodes-1, c.desired.ReplicasPerPrimary)
			return
		}
	}
}

// whyUnreachable tells in a clause why a Pod's server does not answer.
func whyUnreachable(n topology.Node) string {
	switch {
	case n.Address.IP == "":
		return n.PodName + " has no address"
	case n.Loading:
		return n.PodName + " is loading its data set"
	case n.ContainerRunning && n.Refused:
		return n.PodName + " has not started to listen"
	case !n.ContainerRunning:
		return n.PodName + " does not run"
	case n.Err != "":
		return n.PodName + " does not answer: " + n.Err
	}
	return n.PodName + " does not answer"
}
