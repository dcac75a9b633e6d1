// Package resources builds the Kubernetes objects of a RedisCluster: whole objects, from the spec
// alone, without a client and without side effects. It decides how nodes are started and placed, and
// nothing about their roles: who is primary is for the nodes to say. Everything is safe for
// concurrent use.
package resources

import (
	"maps"
	"strconv"

	redisv1 "example.com/redis-operator/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Input is what the objects of one cluster are built from.
type Input struct {
	// Cluster gives name, namespace, UID and spec. It is not changed.
	Cluster *redisv1.RedisCluster
	// Labels are put on every object, Pod template and claim template beside the operator's own: the
	// label that tells the operator's shard.
	Labels map[string]string
	// Config holds the directives to render, which may be older than those of the spec: a change is
	// written down only after the running nodes have accepted it.
	Config map[string]redisv1.ConfigValue
	// HoldEvictions forbids the eviction of any node, for as long as one has not copied its primary's data.
	HoldEvictions bool
}

// Build returns all objects of a cluster in the order in which they are to be applied.
func Build(in Input) []client.Object {
	objects := []client.Object{
		ConfigMap(in), HeadlessService(in), ClientService(in), PodDisruptionBudget(in),
	}
	for group := range in.Cluster.Spec.Size {
		objects = append(objects, StatefulSet(in, group))
	}
	return objects
}

// ConfigMapName is the name of the ConfigMap with the nodes' configuration.
func ConfigMapName(cluster string) string { return cluster + "-config" }

// HeadlessServiceName is the name of the Service that gives the Pods their host names.
func HeadlessServiceName(cluster string) string { return cluster + "-nodes" }

// ClientServiceName is the name of the Service for clients: that of the cluster itself.
func ClientServiceName(cluster string) string { return cluster }

// BudgetName is the name of the PodDisruptionBudget.
func BudgetName(cluster string) string { return cluster }

// StatefulSetName is the name of the StatefulSet of one node group.
func StatefulSetName(cluster string, group int32) string {
	return cluster + "-" + strconv.Itoa(int(group))
}

// Selector selects all Pods of a cluster.
func Selector(cluster string) map[string]string {
	return map[string]string{redisv1.LabelCluster: cluster, redisv1.LabelManagedBy: redisv1.Operator}
}

// groupSelector selects the Pods of one node group.
func groupSelector(cluster string, group int32) map[string]string {
	labels := Selector(cluster)
	labels[redisv1.LabelNodeGroup] = strconv.Itoa(int(group))
	return labels
}

// labels are those of every object of the cluster.
func (in Input) labels() map[string]string {
	labels := Selector(in.Cluster.Name)
	labels[redisv1.LabelName] = "redis"
	labels[redisv1.LabelInstance] = in.Cluster.Name
	maps.Copy(labels, in.Labels)
	return labels
}

// groupLabels are those of the objects of one node group.
func (in Input) groupLabels(group int32) map[string]string {
	labels := in.labels()
	labels[redisv1.LabelNodeGroup] = strconv.Itoa(int(group))
	return labels
}

// meta is the metadata of an object that goes away with the cluster.
func (in Input) meta(name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:      name,
		Namespace: in.Cluster.Namespace,
		Labels:    labels,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: redisv1.GroupVersion.String(),
			Kind:       redisv1.RedisClusterKind,
			Name:       in.Cluster.Name,
			UID:        in.Cluster.UID,
			Controller: ptr.To(true),
		}},
	}
}
