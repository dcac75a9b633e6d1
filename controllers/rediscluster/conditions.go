package rediscluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/controllers/rediscluster/plan"
	"example.com/redis-operator/controllers/topology"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxQuoted is how many problems of one reason are written out in a condition.
const maxQuoted = 3

// computeProblems gathers what a person has to mend, the most fundamental first.
func computeProblems(seen *observation, known *clusterMemory, acted []problem) []problem {
	var problems []problem
	if seen.password.reason != "" {
		problems = append(problems, problem{reason: seen.password.reason, message: seen.password.message})
	}
	for _, n := range seen.view.Nodes {
		if isWrongPassword(n.Err) {
			problems = append(problems, problem{n.PodName, redisv1.ReasonPasswordChanged, fmt.Sprintf(
				"node %s rejects the password of the Secret: the password of running nodes cannot be changed yet; put back the one "+
					"they were started with, and where only some Pods say this then, delete these one by one", n.PodName)})
		}
	}
	for _, pod := range seen.pods {
		if p, found := computePodProblem(pod); found {
			problems = append(problems, p)
		}
	}
	problems = append(problems, acted...)
	problems = append(problems, refusals(seen, known)...)
	if len(seen.frozen) > 0 {
		problems = append(problems, problem{reason: redisv1.ReasonChangeNotSupported, message: describeFrozen(seen.frozen)})
	}
	return problems
}

// inputReasons are those of problems of the input, of which ConfigValid tells.
var inputReasons = []string{
	redisv1.ReasonSecretMissing, redisv1.ReasonPasswordInvalid, redisv1.ReasonPasswordChanged,
	redisv1.ReasonImageNotPulled, redisv1.ReasonDirectiveRejected, redisv1.ReasonNameTaken,
	redisv1.ReasonObjectRejected, redisv1.ReasonChangeNotSupported,
}

// harmlessReasons are those of problems with which a cluster may be Ready all the same.
var harmlessReasons = []string{redisv1.ReasonChangeNotSupported}

// hasReason reports whether any problem has one of the reasons.
func hasReason(problems []problem, reasons ...string) bool {
	return slices.ContainsFunc(problems, func(p problem) bool { return slices.Contains(reasons, p.reason) })
}

// quote is the reason and message of the first problem that is wanted, with those of the same reason.
func quote(problems []problem, isWanted func(problem) bool) (reason, message string) {
	var messages []string
	for _, p := range problems {
		if !isWanted(p) || reason != "" && p.reason != reason {
			continue
		}
		reason = p.reason
		messages = append(messages, p.message)
	}
	if more := len(messages) - maxQuoted; more > 0 {
		messages = append(messages[:maxQuoted], fmt.Sprintf("and %d more", more))
	}
	return reason, strings.Join(messages, "; ")
}

func computeConditions(in statusInput) []metav1.Condition {
	covered, linked := computeCovered(in), computeLinked(in)
	if isBlind(in.seen) {
		reason, message := quote(in.problems, func(p problem) bool { return slices.Contains(inputReasons, p.reason) })
		for _, c := range []*metav1.Condition{&covered, &linked} {
			c.Status, c.Reason, c.Message = metav1.ConditionUnknown, reason, "no node can be asked: "+message
		}
	}
	return []metav1.Condition{computeReady(in), covered, linked, computeConfigValid(in), computeUpToDate(in)}
}

// isBlind reports whether there are nodes, and none can be asked for want of the right password: nothing
// is known of them then, which is not the same as nothing being well.
func isBlind(seen *observation) bool {
	return len(seen.view.Nodes) > 0 && !slices.ContainsFunc(seen.view.Nodes, func(n topology.Node) bool {
		return seen.password.reason == "" && !isWrongPassword(n.Err)
	})
}

func condition(kind string, isTrue bool, reason, message string) metav1.Condition {
	status := metav1.ConditionFalse
	if isTrue {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

func computeReady(in statusInput) metav1.Condition {
	isReady := in.next.Settled()
	reason, message := redisv1.ReasonReady, fmt.Sprintf("%d nodes, all slots covered, all replicas linked", in.next.Facts.ReadyNodes)
	if !isReady {
		reason, message = whyNotReady(in)
	}
	if in.seen.cluster.Spec.Paused {
		reason, message = redisv1.ReasonPaused, "paused, nothing is changed: "+message
	}
	return condition(redisv1.ConditionReady, isReady, reason, message)
}

// whyNotReady is the reason that a person wants to read first: what only they can mend, then what the
// planner cannot, then what the cluster waits for.
func whyNotReady(in statusInput) (reason, message string) {
	isBlocking := func(p problem) bool { return !slices.Contains(harmlessReasons, p.reason) }
	if reason, message = quote(in.problems, isBlocking); reason != "" {
		return reason, message
	}
	if len(in.next.Problems) > 0 {
		return string(in.next.Problems[0].Kind), in.next.Problems[0].Message
	}
	message = "waiting for the next pass"
	switch {
	case in.err != nil:
		message = in.err.Error()
	case len(in.next.Reasons) > 0:
		message = in.next.Reasons[0]
	case len(in.next.Steps) > 0:
		message = in.next.Steps[0].Reason
	}
	switch {
	case !in.seen.formed:
		return redisv1.ReasonCreating, message
	case isRolling(in.next):
		return redisv1.ReasonRolling, describeRoll(in.next)
	case slices.ContainsFunc(in.seen.view.Nodes, isSilent):
		return redisv1.ReasonWaitingAtGate, message
	case slices.ContainsFunc(in.seen.view.Nodes, func(n topology.Node) bool { return !n.Reachable }):
		return redisv1.ReasonNodeUnreachable, message
	}
	return redisv1.ReasonConverging, message
}

func computeCovered(in statusInput) metav1.Condition {
	facts := in.next.Facts
	switch {
	case facts.SlotsCovered:
		return condition(redisv1.ConditionSlotsCovered, true, redisv1.ReasonAllCovered, "every slot has an owner that serves it")
	case facts.Missing.IsEmpty():
		return condition(redisv1.ConditionSlotsCovered, false, redisv1.ReasonNotAgreed, "every slot has an owner, but not all nodes serve yet")
	}
	return condition(redisv1.ConditionSlotsCovered, false, redisv1.ReasonSlotsMissing,
		fmt.Sprintf("%d of %d slots have no owner that answers: %s", facts.Missing.Len(), allSlots, facts.Missing))
}

func computeLinked(in statusInput) metav1.Condition {
	switch {
	case in.seen.effective.Spec.Replicas() == 0:
		return condition(redisv1.ConditionReplicasLinked, true, redisv1.ReasonNoReplicas, "no replicas are wanted")
	case in.next.Facts.ReplicasLinked:
		return condition(redisv1.ConditionReplicasLinked, true, redisv1.ReasonAllLinked, "every replica is linked to its primary")
	}
	for _, n := range in.seen.view.Nodes {
		if n.Reachable && n.Role == topology.RoleReplica && !n.LinkUp {
			return condition(redisv1.ConditionReplicasLinked, false, redisv1.ReasonLinkDown, "replica "+n.PodName+" is not linked to its primary")
		}
	}
	return condition(redisv1.ConditionReplicasLinked, false, redisv1.ReasonReplicaMissing, "not every node group has all its nodes")
}

func computeConfigValid(in statusInput) metav1.Condition {
	reason, message := quote(in.problems, func(p problem) bool { return slices.Contains(inputReasons, p.reason) })
	if reason == "" {
		return condition(redisv1.ConditionConfigValid, true, redisv1.ReasonValid, "every input is in force or on its way")
	}
	return condition(redisv1.ConditionConfigValid, false, reason, message)
}

func computeUpToDate(in statusInput) metav1.Condition {
	roll := in.next.Roll
	isOther := func(p problem) bool {
		return p.reason == redisv1.ReasonObjectRejected || p.reason == redisv1.ReasonChangeNotSupported
	}
	reason, message := quote(in.problems, isOther)
	switch {
	case !roll.IsOver() && in.seen.cluster.Spec.Paused:
		return condition(redisv1.ConditionUpToDate, false, redisv1.ReasonPaused, "paused, nothing is changed: "+describeRoll(in.next))
	case roll.Held != "":
		return condition(redisv1.ConditionUpToDate, false, redisv1.ReasonRollHeld, describeRoll(in.next))
	case !roll.IsOver():
		return condition(redisv1.ConditionUpToDate, false, redisv1.ReasonRolling, describeRoll(in.next))
	case reason != "":
		return condition(redisv1.ConditionUpToDate, false, reason, message)
	}
	return condition(redisv1.ConditionUpToDate, true, redisv1.ReasonUpToDate, "every node was made from the present spec")
}

// isRolling reports whether nodes are being replaced, or wait to be.
func isRolling(next plan.Plan) bool { return !next.Roll.IsOver() && next.Roll.Held == "" }

// describeRoll tells how far the replacement of nodes is, and what comes next.
func describeRoll(next plan.Plan) string {
	what := cmp.Or(next.Roll.Held, next.Roll.Awaits)
	for _, step := range next.Steps {
		if what == "" {
			what = step.String()
		}
	}
	return fmt.Sprintf("nodes of an earlier spec: %d; %s", next.Roll.Outdated, what)
}
