package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/controllers/redis"
	"example.com/redis-operator/controllers/rediscluster/plan"
	"example.com/redis-operator/controllers/rediscluster/resources"
	"example.com/redis-operator/controllers/topology"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// outcome is what came of acting: what a person has to mend, and what is worth another try.
type outcome struct {
	problems []problem
	err      error
}

// act does what is to be done: the only part of a pass with side effects apart from the report. It stops
// at the first failure; the next pass looks again.
func (r *Reconciler) act(ctx context.Context, seen *observation, next plan.Plan, known *clusterMemory) outcome {
	var done outcome
	if seen.cluster.Spec.Paused || seen.password.reason != "" {
		return done
	}
	config := seen.config
	canTalk := !isLockedOut(seen)
	if canTalk {
		if done.err = r.closeOlder(ctx, seen, known); done.err != nil {
			return done
		}
		if config, done.err = r.setDirectives(ctx, seen, known); done.err != nil {
			return done
		}
	} else if config == nil {
		config = seen.effective.Spec.Config
	}
	if done.problems, done.err = r.applyObjects(ctx, seen, config, known); done.err != nil {
		return done
	}
	if !seen.formed {
		if done.err = r.replaceUnformed(ctx, seen, config); done.err != nil {
			return done
		}
	}
	if canTalk {
		done.err = r.runSteps(ctx, seen, next.Steps, known)
	}
	return done
}

// isLockedOut reports whether a node rejects the password. Then nothing is done to any node: a cluster
// whose nodes have different passwords cannot be repaired by half.
func isLockedOut(seen *observation) bool {
	for _, n := range seen.view.Nodes {
		if isWrongPassword(n.Err) {
			return true
		}
	}
	return false
}

// isLockedOutOf reports whether a Pod's server rejects the password: it was started with another, which its
// Pod keeps for as long as it lives.
func (o *observation) isLockedOutOf(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp.IsZero() && slices.ContainsFunc(o.view.Nodes, func(n topology.Node) bool {
		return n.PodUID == string(pod.UID) && isWrongPassword(n.Err)
	})
}

// isWrongPassword tells a server's refusal of the password from other errors.
func isWrongPassword(message string) bool {
	return strings.Contains(message, "WRONGPASS") || strings.Contains(message, "NOAUTH") ||
		strings.Contains(message, "without any password configured")
}

// closeOlder closes the connections that earlier owners of the cluster still have to its nodes, once for
// each run of a node's server and each name of our own: Redis has no other fence against what they may yet
// send. A node that cannot be reached now has its turn when it can.
func (r *Reconciler) closeOlder(ctx context.Context, seen *observation, known *clusterMemory) error {
	if r.name == nil {
		return nil
	}
	name := r.name(ctx)
	if name == "" {
		return nil
	}
	closed := map[string]string{}
	errs := make([]error, len(seen.view.Nodes))
	var wait sync.WaitGroup
	for i, n := range seen.view.Nodes {
		if before, found := known.closedFor[instance(n)]; found && (!n.Reachable || before == name) {
			closed[instance(n)] = before
		} else if n.Reachable {
			wait.Go(func() { errs[i] = closeOlderOn(ctx, r.node(seen, n.Pod), name) })
			closed[instance(n)] = name
		}
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing older connections: %w", err)
	}
	known.closedFor = closed
	return nil
}

func closeOlderOn(ctx context.Context, node redis.Node, name string) error {
	clients, err := node.ClientList(ctx)
	if err != nil {
		return err
	}
	for _, c := range clients {
		if strings.HasPrefix(c.Name, ConnectionPrefix) && c.Name != name {
			if err := node.ClientKill(ctx, c.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// replaceUnformed makes way for a corrected spec of a cluster that has not formed: node groups that are no
// longer wanted go, and Pods that do not run or reject the password and were made from an older input are made
// anew.
func (r *Reconciler) replaceUnformed(ctx context.Context, seen *observation, config map[string]redisv1.ConfigValue) error {
	for _, set := range seen.sets {
		if groupOf(set) >= int(seen.effective.Spec.Size) {
			if err := r.deleteObject(ctx, set); err != nil {
				return err
			}
		}
	}
	written := seen.config != nil && resources.ConfigHash(seen.config) == resources.ConfigHash(config)
	for _, pod := range seen.pods {
		i := slices.IndexFunc(seen.sets, func(set *appsv1.StatefulSet) bool { return metav1.IsControlledBy(pod, set) })
		if !written || i < 0 || !isReplaceable(pod, seen.sets[i], resources.ConfigHash(config)) && !seen.isLockedOutOf(pod) {
			continue
		}
		if err := r.deleteObject(ctx, pod); err != nil {
			return err
		}
		r.events.Eventf(seen.cluster, pod, corev1.EventTypeNormal, redisv1.EventPodReplaced, "Replace",
			"Replacing Pod %s, which was made from an earlier input", pod.Name)
	}
	return nil
}

// deleteObject deletes exactly the object that was seen, with the labels of ownership on it.
func (r *Reconciler) deleteObject(ctx context.Context, object client.Object) error {
	if err := r.stamp(ctx, object); client.IgnoreNotFound(err) != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Deleting", "kind", fmt.Sprintf("%T", object), "object", object.GetName())
	err := r.client.Delete(ctx, object, client.Preconditions{UID: ptr.To(object.GetUID())})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting %T %s: %w", object, object.GetName(), err)
	}
	return nil
}
