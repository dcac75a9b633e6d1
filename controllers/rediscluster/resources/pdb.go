package resources

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// PodDisruptionBudget lets one node of the cluster be evicted at a time. From 3 primaries on a
// majority of them stays to elect a successor (floor((size-1)/2) is at least 1); more at once could be
// a primary and all its replicas. Sizes 1 and 2 have no majority to keep, and a budget of none would
// only block every drain: there the operator promotes the replica.
//
// Kubernetes counts a Pod as available that listens, though it may be far from having copied its primary's
// data. While there is such a node, none may be evicted: it could be the last with the data.
func PodDisruptionBudget(in Input) *policyv1.PodDisruptionBudget {
	evictable := int32(1)
	if in.HoldEvictions {
		evictable = 0
	}
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: in.meta(BudgetName(in.Cluster.Name), in.labels()),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: ptr.To(intstr.FromInt32(evictable)),
			Selector:       &metav1.LabelSelector{MatchLabels: Selector(in.Cluster.Name)},
		},
	}
}
