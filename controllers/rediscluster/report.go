package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/controllers/rediscluster/plan"
	"example.com/redis-operator/controllers/topology"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// detailInterval is how often at most a status is written of which only details have changed.
const detailInterval = time.Second

// report writes the status, once and only when it has changed, and tells of transitions by events. Its
// error is that of acting joined with its own.
func (r *Reconciler) report(ctx context.Context, seen *observation, next plan.Plan, done outcome, known *clusterMemory) error {
	before := seen.cluster
	after := before.DeepCopy()
	after.Status = computeStatus(statusInput{
		seen:     seen,
		next:     next,
		problems: computeProblems(seen, known, done.problems),
		err:      done.err,
		shard:    r.owner.Labels(before.Namespace)[redisv1.LabelShard],
		now:      r.now(),
	})
	known.owesDetails = false
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return done.err
	}
	if !isWorthSaying(&before.Status, &after.Status) && r.now().Sub(known.reportedAt) < detailInterval {
		known.owesDetails = true
		return done.err
	}
	status := after.Status
	err := r.client.Status().Patch(ctx, after, client.MergeFrom(before))
	if apierrors.IsNotFound(err) {
		return done.err
	}
	if err != nil {
		return errors.Join(done.err, fmt.Errorf("writing the status of %s: %w", client.ObjectKeyFromObject(before), err))
	}
	known.reported, known.reportedVersion, known.reportedAt = status, after.ResourceVersion, r.now()
	r.tell(ctx, before, after)
	return done.err
}

// tell sends the events of what has changed between two statuses.
func (r *Reconciler) tell(ctx context.Context, before, after *redisv1.RedisCluster) {
	log := ctrl.LoggerFrom(ctx)
	if before.Status.Phase != after.Status.Phase {
		kind, message := corev1.EventTypeNormal, ""
		if ready := meta.FindStatusCondition(after.Status.Conditions, redisv1.ConditionReady); ready != nil {
			message = ready.Message
		}
		if after.Status.Phase == redisv1.PhaseDegraded || after.Status.Phase == redisv1.PhaseFailed {
			kind = corev1.EventTypeWarning
		}
		log.Info("Changing phase", "from", before.Status.Phase, "to", after.Status.Phase, "reason", message)
		r.events.Eventf(after, nil, kind, redisv1.EventPhaseChanged, "Report", "%s: %s", after.Status.Phase, shorten(message))
	}
	if !before.Status.Formed && after.Status.Formed {
		r.events.Eventf(after, nil, corev1.EventTypeNormal, redisv1.EventFormed, "Form", "All slots have an owner")
	}
	for _, name := range computePromoted(before.Status.NodeStates, after.Status.NodeStates) {
		r.events.Eventf(after, nil, corev1.EventTypeNormal, redisv1.EventPromoted, "Promote", "%s is the primary of its node group now", name)
	}
	was := meta.FindStatusCondition(before.Status.Conditions, redisv1.ConditionConfigValid)
	is := meta.FindStatusCondition(after.Status.Conditions, redisv1.ConditionConfigValid)
	if is != nil && is.Status != "True" && (was == nil || was.Reason != is.Reason) {
		r.events.Eventf(after, nil, corev1.EventTypeWarning, is.Reason, "Validate", "%s", shorten(is.Message))
	}
}

// maxEventMessage is what the API server takes as the text of an event, less some room for a prefix.
const maxEventMessage = 1000

// shorten cuts a message to what fits into an event.
func shorten(message string) string {
	if len(message) <= maxEventMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxEventMessage], "")
}

// computePromoted names the nodes that were replicas and are primaries with slots now.
func computePromoted(before, after []redisv1.NodeState) []string {
	wasReplica := map[string]bool{}
	for _, n := range before {
		wasReplica[n.Name+n.ID] = n.Role == string(topology.RoleReplica)
	}
	var promoted []string
	for _, n := range after {
		if n.Role == string(topology.RolePrimary) && n.Slots != "" && wasReplica[n.Name+n.ID] {
			promoted = append(promoted, n.Name)
		}
	}
	return promoted
}
