package rediscluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/controllers/rediscluster/resources"
	"example.com/redis-operator/controllers/topology"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// retryRejected is after how long an object that the API server rejected is applied again as it is: a quota
// may have been raised, or a policy lifted, of which no watch tells.
const retryRejected = 15 * time.Second

// mustHoldEvictions reports whether there is a node that Kubernetes takes for available, since it listens,
// and that is not in step with its primary.
func mustHoldEvictions(nodes []topology.Node) bool {
	return slices.ContainsFunc(nodes, func(n topology.Node) bool {
		isLinked := n.Reachable && n.Role == topology.RoleReplica && n.LinkUp
		return n.Ready && !n.OwnsSlots() && !isLinked
	})
}

// stamp puts the labels of ownership on an object that is there, before any other write to it: the API
// server refuses writes to an object that bears another shard's, or none.
func (r *Reconciler) stamp(ctx context.Context, object client.Object) error {
	wanted := r.owner.Labels(object.GetNamespace())
	labels := maps.Clone(object.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, wanted)
	if maps.Equal(labels, object.GetLabels()) {
		return nil
	}
	stamped := object.DeepCopyObject().(client.Object)
	stamped.SetLabels(labels)
	ctrl.LoggerFrom(ctx).Info("Stamping", "kind", fmt.Sprintf("%T", object), "object", object.GetName(), "labels", wanted)
	if err := r.client.Patch(ctx, stamped, client.MergeFrom(object)); err != nil {
		return fmt.Errorf("labelling %T %s: %w", object, client.ObjectKeyFromObject(object), err)
	}
	object.SetLabels(labels)
	object.SetResourceVersion(stamped.GetResourceVersion())
	return nil
}

// applyObjects brings the cluster's objects to what they should be, and touches none that is so already.
// What the API server rejects, and what another owns, comes back as problems.
func (r *Reconciler) applyObjects(ctx context.Context, seen *observation, config map[string]redisv1.ConfigValue, known *clusterMemory) ([]problem, error) {
	var problems []problem
	wanted := resources.Build(resources.Input{
		Cluster: seen.effective, Labels: r.owner.Labels(seen.cluster.Namespace), Config: config,
		HoldEvictions: seen.formed && seen.effective.Spec.Replicas() > 0 && mustHoldEvictions(seen.view.Nodes),
	})
	for _, object := range wanted {
		p, err := r.applyObject(ctx, seen, object, known)
		if err != nil {
			return problems, err
		}
		if p.reason != "" {
			problems = append(problems, p)
		}
	}
	return problems, nil
}

// applyObject applies one object server-side, unless the live one has all that is wanted.
func (r *Reconciler) applyObject(ctx context.Context, seen *observation, object client.Object, known *clusterMemory) (problem, error) {
	kind := object.GetObjectKind().GroupVersionKind().Kind
	live, found := seen.live[objectKey(object, object.GetName())]
	if found && !metav1.IsControlledBy(live, seen.cluster) {
		return problem{reason: redisv1.ReasonNameTaken,
			message: fmt.Sprintf("%s %s exists and belongs to another owner", kind, object.GetName())}, nil
	}
	wanted, err := toApplied(object)
	if err != nil {
		return problem{}, fmt.Errorf("rendering %s %s: %w", kind, object.GetName(), err)
	}
	if found {
		if isApplied, err := isApplied(wanted, live); err != nil || isApplied {
			return problem{}, err
		}
	}
	key, hash := objectKey(object, object.GetName()), wanted.GetAnnotations()[redisv1.AnnotationApplied]
	if last, found := known.rejected[key]; found && last.hash == hash && r.now().Before(last.until) {
		return last.problem, nil
	}
	delete(known.rejected, key)
	ctrl.LoggerFrom(ctx).Info("Applying", "kind", kind, "object", object.GetName())
	err = r.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(wanted),
		client.FieldOwner(redisv1.Operator), client.ForceOwnership)
	switch {
	case r.fenced != nil && r.fenced(err):
		// Nobody has to mend that: the server learns of a new owner some milliseconds late.
		return problem{}, fmt.Errorf("applying %s %s: %w", kind, object.GetName(), err)
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, "NamespaceTerminating"):
		p := problem{reason: redisv1.ReasonObjectRejected,
			message: fmt.Sprintf("the API server rejects %s %s: %v", kind, object.GetName(), err)}
		known.rejected[key] = rejection{hash: hash, until: r.now().Add(retryRejected), problem: p}
		return p, nil
	case err != nil:
		return problem{}, fmt.Errorf("applying %s %s: %w", kind, object.GetName(), err)
	}
	return problem{}, nil
}

// toApplied is an object as it is applied: without status, and with the hash of itself, by which a field
// that was taken out is noticed.
func toApplied(object client.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	delete(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(content, "spec", "template", "metadata", "creationTimestamp")
	if claims, found, _ := unstructured.NestedSlice(content, "spec", "volumeClaimTemplates"); found {
		for _, claim := range claims {
			delete(claim.(map[string]any), "status")
			unstructured.RemoveNestedField(claim.(map[string]any), "metadata", "creationTimestamp")
		}
		if err := unstructured.SetNestedSlice(content, claims, "spec", "volumeClaimTemplates"); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	applied := &unstructured.Unstructured{Object: content}
	annotations := applied.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[redisv1.AnnotationApplied] = hex.EncodeToString(sum[:8])
	applied.SetAnnotations(annotations)
	return applied, nil
}

// isApplied reports whether the live object has every field of the wanted one. Fields that the API server
// or others have added do not matter.
func isApplied(wanted *unstructured.Unstructured, live client.Object) (bool, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return false, fmt.Errorf("reading fields of %s: %w", live.GetName(), err)
	}
	// A typed object from the cache does not say its own kind.
	content["apiVersion"], content["kind"] = wanted.GetAPIVersion(), wanted.GetKind()
	return isSubset(wanted.Object, content), nil
}

// isSubset reports whether every field of a is in b with the same value. Lists must be of equal length.
func isSubset(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok {
			return len(a) == 0 && b == nil
		}
		return isSubsetOfFields(a, b)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, isSubset)
	default:
		return a == b
	}
}

func isSubsetOfFields(a, b map[string]any) bool {
	for name, value := range a {
		other, found := b[name]
		if !found && !isEmpty(value) || found && !isSubset(value, other) {
			return false
		}
	}
	return true
}

// isEmpty reports whether a value says nothing, so that it does not matter that it is not there.
func isEmpty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(value) == 0
	case []any:
		return len(value) == 0
	}
	return false
}
