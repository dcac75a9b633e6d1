package rediscluster

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/controllers/rediscluster/plan"
	"example.com/redis-operator/controllers/rediscluster/resources"
	"example.com/redis-operator/controllers/topology"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

// allSlots is the number of slots of a Redis Cluster.
const allSlots = 16384

// statusInput is all that the status is made from.
type statusInput struct {
	seen     *observation
	next     plan.Plan
	problems []problem
	err      error
	shard    string
	now      time.Time
}

// computeStatus is the status after a pass. It is a pure function of its input, and equal to the status
// before when nothing that it tells of has changed.
func computeStatus(in statusInput) redisv1.RedisClusterStatus {
	seen, facts := in.seen, in.next.Facts
	status := *seen.cluster.Status.DeepCopy()
	status.ObservedGeneration = seen.cluster.Generation
	status.Formed = status.Formed || facts.Formed
	status.Size = seen.effective.Spec.Size
	status.Selector = labels.SelectorFromSet(resources.Selector(seen.cluster.Name)).String()
	status.Shard = parseShard(in.shard)
	status.ReadyNodes = int32(facts.ReadyNodes)
	status.Ready = fmt.Sprintf("%d/%d", facts.ReadyNodes, seen.desired().Nodes())
	status.SlotsAssigned = int32(facts.Assigned.Len())
	status.Nodes, status.NodeStates = nil, nil
	for _, n := range seen.view.Nodes {
		status.Nodes = append(status.Nodes, n.PodName)
		status.NodeStates = append(status.NodeStates, computeNodeState(n))
	}
	for _, condition := range computeConditions(in) {
		condition.ObservedGeneration = seen.cluster.Generation
		condition.LastTransitionTime = metav1.NewTime(in.now)
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	status.Phase = computePhase(in, meta.IsStatusConditionTrue(status.Conditions, redisv1.ConditionReady))
	return status
}

// parseShard reads the number of the shard from its label's value, nil when there is none.
func parseShard(label string) *int32 {
	shard, err := strconv.ParseInt(label, 10, 32)
	if err != nil {
		return nil
	}
	return ptr.To(int32(shard))
}

func computeNodeState(n topology.Node) redisv1.NodeState {
	state := redisv1.NodeState{Name: n.PodName, NodeGroup: int32(n.Group), Problem: nodeProblem(n)}
	if n.Address.IP != "" {
		state.Address = n.Address.String()
	}
	if !n.Reachable {
		return state
	}
	state.Role, state.ID, state.Slots = string(n.Role), n.ID, n.Slots.String()
	if n.Role == topology.RoleReplica {
		state.Link = "down"
		if n.LinkUp {
			state.Link = "up"
		}
	}
	return state
}

// nodeProblem says why a node does not work, in words that stay the same while it is so.
func nodeProblem(n topology.Node) string {
	switch {
	case n.Reachable:
		return ""
	case n.Address.IP == "":
		return "no address yet"
	case isWrongPassword(n.Err):
		return "rejects the password of the Secret"
	case n.Loading:
		return "loading its data"
	case isSilent(n):
		return "not listening: starting, or waiting at its start gate"
	case !n.ContainerRunning:
		return "not running"
	case n.Alive:
		return "alive but not answering: " + n.Err
	}
	return "not answering"
}

// isSilent reports whether a node's container runs and nothing listens there: it starts, or waits at its
// start gate.
func isSilent(n topology.Node) bool { return n.ContainerRunning && n.Refused }

// computePhase sums up. A cluster that has formed is Creating until it has been Ready for the first time.
func computePhase(in statusInput, isReady bool) redisv1.Phase {
	before := in.seen.cluster.Status.Phase
	switch {
	case isReady:
		return redisv1.PhaseReady
	case isUpdating(in):
		return redisv1.PhaseUpdating
	case in.seen.formed && before != "" && before != redisv1.PhasePending && before != redisv1.PhaseCreating:
		return redisv1.PhaseDegraded
	case !in.seen.formed && in.seen.password.reason != "":
		return redisv1.PhasePending
	case !in.seen.formed && hasReason(in.problems, redisv1.ReasonImageNotPulled, redisv1.ReasonDirectiveRejected,
		redisv1.ReasonObjectRejected, redisv1.ReasonNameTaken):
		return redisv1.PhaseFailed
	}
	return redisv1.PhaseCreating
}

// isUpdating reports whether what keeps a cluster from being Ready is that its nodes are being replaced: of slots none is
// missing, and there is nothing for a person to mend. The last node is still on its way when no other is left.
func isUpdating(in statusInput) bool {
	isAfter := in.seen.cluster.Status.Phase == redisv1.PhaseUpdating && in.next.Roll.IsOver()
	isBlocking := func(p problem) bool { return !slices.Contains(harmlessReasons, p.reason) }
	return in.seen.formed && (isRolling(in.next) || isAfter) && in.next.Facts.Missing.IsEmpty() && in.err == nil &&
		len(in.next.Problems) == 0 && !slices.ContainsFunc(in.problems, isBlocking)
}

// isWorthSaying tells a change of status that is written at once from one of details only, of which a
// cluster that is being formed has dozens a second.
func isWorthSaying(before, after *redisv1.RedisClusterStatus) bool {
	if before.Phase != after.Phase || before.Formed != after.Formed || before.SlotsAssigned != after.SlotsAssigned ||
		before.ObservedGeneration != after.ObservedGeneration || before.Size != after.Size ||
		ptr.Deref(before.Shard, -1) != ptr.Deref(after.Shard, -1) || len(before.Conditions) != len(after.Conditions) {
		return true
	}
	for _, condition := range after.Conditions {
		old := meta.FindStatusCondition(before.Conditions, condition.Type)
		if old == nil || old.Status != condition.Status || old.Reason != condition.Reason {
			return true
		}
	}
	return false
}
