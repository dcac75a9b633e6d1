package rediscluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/controllers/redis"
	"example.com/redis-operator/controllers/rediscluster/plan"
	"example.com/redis-operator/controllers/topology"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// runSteps runs the plan's steps: those of one Pod in order, those of different Pods at the same time.
func (r *Reconciler) runSteps(ctx context.Context, seen *observation, steps []plan.Step, known *clusterMemory) error {
	byPod := map[string][]plan.Step{}
	for _, step := range steps {
		byPod[step.PodUID] = append(byPod[step.PodUID], step)
	}
	var (
		wait sync.WaitGroup
		mu   sync.Mutex // guards errs
		errs []error
	)
	for _, steps := range byPod {
		wait.Go(func() {
			if err := r.runPodSteps(ctx, seen, steps, known); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// runPodSteps runs the steps of one Pod and stops at the first that fails.
func (r *Reconciler) runPodSteps(ctx context.Context, seen *observation, steps []plan.Step, known *clusterMemory) error {
	i := slices.IndexFunc(seen.view.Nodes, func(n topology.Node) bool { return n.PodUID == steps[0].PodUID })
	if i < 0 {
		return fmt.Errorf("planning a step for Pod %s, which was not seen", steps[0].Pod)
	}
	node := r.node(seen, seen.view.Nodes[i].Pod)
	for _, step := range steps {
		ctrl.LoggerFrom(ctx).Info("Running step", "step", step.Kind, "Pod", step.Pod, "nodeGroup", seen.view.Nodes[i].Group,
			"reason", step.Reason)
		err := r.runStep(ctx, seen, node, step)
		r.metrics.countStep(step.Kind, err)
		if err != nil {
			return fmt.Errorf("running %s: %w", step, err)
		}
		if step.Kind == plan.Failover {
			known.failovers = map[string]time.Time{step.PodUID: r.now()}
		}
		if isTold(step.Kind) {
			r.events.Eventf(seen.cluster, nil, corev1.EventTypeNormal, redisv1.EventStepDone, string(step.Kind),
				"%s on %s: %s", step.Kind, step.Pod, step.Reason)
		}
	}
	return nil
}

// isTold reports whether a step of this kind is worth an event.
func isTold(kind plan.Kind) bool {
	switch kind {
	case plan.Takeover, plan.OpenGate, plan.Failover, plan.Replace, plan.Restart:
		return true
	}
	return false
}

// runStep asks the fence where Redis cannot undo the step, makes sure that the server is the one that the
// step is meant for, and runs it.
func (r *Reconciler) runStep(ctx context.Context, seen *observation, node redis.Node, step plan.Step) error {
	switch {
	case step.Kind == plan.OpenGate:
		return r.openGate(ctx, seen, step)
	case step.NodeID == "" && step.Kind == plan.Replace:
		return r.deletePod(ctx, seen, step)
	}
	myself, _, err := node.ClusterNodes(ctx)
	if err != nil {
		return err
	}
	if myself.ID != step.NodeID {
		return fmt.Errorf("node %s answers at the address of %s", myself.ID, step.NodeID)
	}
	if step.Irreversible() {
		if err := r.owner.Check(ctx); err != nil {
			return fmt.Errorf("asking the fence: %w", err)
		}
	}
	if step.Kind == plan.Replace && myself.Role != topology.RoleReplica {
		return fmt.Errorf("%s is no replica any more", step.Pod)
	}
	if step.Kind == plan.Replace || step.Kind == plan.Restart {
		return r.deletePod(ctx, seen, step)
	}
	return send(ctx, node, step)
}

// send sends the command of a step.
func send(ctx context.Context, node redis.Node, step plan.Step) error {
	switch step.Kind {
	case plan.SetConfigEpoch:
		return node.SetConfigEpoch(ctx, step.Epoch)
	case plan.AddSlots:
		return node.AddSlots(ctx, step.Slots)
	case plan.Meet:
		return node.Meet(ctx, step.Peer)
	case plan.Replicate:
		return node.Replicate(ctx, step.PeerID)
	case plan.Forget:
		return node.Forget(ctx, step.PeerID)
	case plan.Takeover:
		return node.Takeover(ctx)
	case plan.Failover:
		return node.Failover(ctx)
	}
	return fmt.Errorf("no way to run a step of kind %s", step.Kind)
}

// openGate annotates the Pod that was seen and no other of its name. It says the labels of ownership too,
// as every write does: somebody may have taken them off.
func (r *Reconciler) openGate(ctx context.Context, seen *observation, step plan.Step) error {
	if err := r.owner.Check(ctx); err != nil {
		return fmt.Errorf("asking the fence: %w", err)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":         step.PodUID,
		"labels":      r.owner.Labels(seen.cluster.Namespace),
		"annotations": map[string]string{redisv1.AnnotationStartGate: step.Gate},
	}})
	if err != nil {
		return fmt.Errorf("rendering the annotation of %s: %w", step.Pod, err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: seen.cluster.Namespace, Name: step.Pod}}
	if err := r.client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("annotating Pod %s: %w", step.Pod, err)
	}
	return nil
}

// deletePod deletes the Pod that was seen, which its StatefulSet makes anew.
func (r *Reconciler) deletePod(ctx context.Context, seen *observation, step plan.Step) error {
	if err := r.owner.Check(ctx); err != nil {
		return fmt.Errorf("asking the fence: %w", err)
	}
	i := slices.IndexFunc(seen.pods, func(pod *corev1.Pod) bool { return string(pod.UID) == step.PodUID })
	return r.deleteObject(ctx, seen.pods[i])
}
