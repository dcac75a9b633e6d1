package rediscluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/controllers/redis"
	"example.com/redis-operator/controllers/rediscluster/resources"
	"example.com/redis-operator/controllers/topology"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// observation is everything that one pass saw. It is not changed once it is made.
type observation struct {
	// cluster is the object as it was read; effective the same with the fields in force of a cluster that
	// has formed, and frozen the names of the fields in which they differ.
	cluster, effective *redisv1.RedisCluster
	frozen             []string
	// formed: the slots were given out, now or at any time before.
	formed bool

	// live are the cluster's objects apart from Pods, by kind and name, also where another owns them.
	live map[string]client.Object
	sets []*appsv1.StatefulSet
	pods []*corev1.Pod
	// config holds the directives that nodes start with; nil when nothing is written down yet.
	config   map[string]redisv1.ConfigValue
	password credential

	view topology.View
	// lasted is how long the nodes took to be asked.
	lasted time.Duration
}

// desired is what the planner is to reach.
func (o *observation) desired() topology.Desired {
	return topology.Desired{
		Size:               int(o.effective.Spec.Size),
		ReplicasPerPrimary: int(o.effective.Spec.Replicas()),
	}
}

// observe reads Kubernetes from the cache and every node over TCP, and changes nothing.
func (r *Reconciler) observe(ctx context.Context, cluster *redisv1.RedisCluster, known *clusterMemory) (*observation, error) {
	o := &observation{cluster: known.freshest(cluster)}
	if err := r.observeObjects(ctx, o); err != nil {
		return nil, err
	}
	if err := r.observePods(ctx, o); err != nil {
		return nil, err
	}
	o.effective, _ = computeEffective(o.cluster, o.sets, o.cluster.Status.Formed)
	password, err := r.observePassword(ctx, o.effective)
	if err != nil {
		return nil, err
	}
	o.password = password
	started := time.Now()
	o.view = r.observeNodes(ctx, o, known)
	o.lasted = time.Since(started)
	o.formed = o.cluster.Status.Formed || hasSlots(o.view)
	o.effective, o.frozen = computeEffective(o.cluster, o.sets, o.formed)
	return o, nil
}

// observeObjects reads the cluster's objects apart from Pods.
func (r *Reconciler) observeObjects(ctx context.Context, o *observation) error {
	namespace, name := o.cluster.Namespace, o.cluster.Name
	o.live = map[string]client.Object{}
	for objectName, object := range map[string]client.Object{
		resources.ConfigMapName(name):       &corev1.ConfigMap{},
		resources.HeadlessServiceName(name): &corev1.Service{},
		resources.ClientServiceName(name):   &corev1.Service{},
	} {
		if err := r.observeObject(ctx, o, object, client.ObjectKey{Namespace: namespace, Name: objectName}); err != nil {
			return err
		}
	}
	key := client.ObjectKey{Namespace: namespace, Name: resources.BudgetName(name)}
	if err := r.observeObject(ctx, o, &policyv1.PodDisruptionBudget{}, key); err != nil {
		return err
	}
	if cm, found := o.live[objectKey(&corev1.ConfigMap{}, resources.ConfigMapName(name))]; found && metav1.IsControlledBy(cm, o.cluster) {
		o.config, _ = resources.Directives(cm.(*corev1.ConfigMap))
	}
	return r.observeStatefulSets(ctx, o)
}

// observeObject reads one object into o.live, if it is there.
func (r *Reconciler) observeObject(ctx context.Context, o *observation, object client.Object, key client.ObjectKey) error {
	err := r.client.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %T %s: %w", object, key, err)
	}
	o.live[objectKey(object, key.Name)] = object
	return nil
}

// objectKey names an object among those of one cluster.
func objectKey(object client.Object, name string) string { return fmt.Sprintf("%T/%s", object, name) }

// observeStatefulSets reads the node groups that the cluster owns, ordered by their number.
func (r *Reconciler) observeStatefulSets(ctx context.Context, o *observation) error {
	var sets appsv1.StatefulSetList
	if err := r.client.List(ctx, &sets, client.InNamespace(o.cluster.Namespace)); err != nil {
		return fmt.Errorf("listing the StatefulSets of %s: %w", client.ObjectKeyFromObject(o.cluster), err)
	}
	for i := range sets.Items {
		set := &sets.Items[i]
		o.live[objectKey(set, set.Name)] = set
		if metav1.IsControlledBy(set, o.cluster) && set.DeletionTimestamp.IsZero() {
			o.sets = append(o.sets, set)
		}
	}
	slices.SortFunc(o.sets, func(a, b *appsv1.StatefulSet) int { return cmp.Compare(groupOf(a), groupOf(b)) })
	return nil
}

// observePods reads the Pods of the cluster's own StatefulSets: a Pod that an earlier cluster of the same
// name left behind is none of them.
func (r *Reconciler) observePods(ctx context.Context, o *observation) error {
	var pods corev1.PodList
	err := r.client.List(ctx, &pods, client.InNamespace(o.cluster.Namespace),
		client.MatchingLabels(resources.Selector(o.cluster.Name)))
	if err != nil {
		return fmt.Errorf("listing the Pods of %s: %w", client.ObjectKeyFromObject(o.cluster), err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if slices.ContainsFunc(o.sets, func(set *appsv1.StatefulSet) bool { return metav1.IsControlledBy(pod, set) }) {
			o.pods = append(o.pods, pod)
		}
	}
	slices.SortFunc(o.pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

// observeNodes asks all nodes at the same time. A node that cannot be asked stands in the view with the
// reason.
func (r *Reconciler) observeNodes(ctx context.Context, o *observation, known *clusterMemory) topology.View {
	config := o.config
	if config == nil {
		config = o.effective.Spec.Config
	}
	hasAOF := resources.HasSafeAOF(o.effective, config)
	nodes := make([]topology.Node, len(o.pods))
	var wait sync.WaitGroup
	for i, pod := range o.pods {
		nodes[i].Pod = buildPod(pod, o.effective, hasAOF)
		nodes[i].Outdated, nodes[i].FailoverAsked = o.isOutdated(pod, known), known.failovers[nodes[i].PodUID]
		switch {
		case nodes[i].Address.IP == "":
			nodes[i].Err = "no address yet"
		case o.password.reason != "":
			nodes[i].Err = o.password.message
		default:
			wait.Go(func() { nodes[i].State = redis.Observe(ctx, r.node(o, nodes[i].Pod)) })
		}
	}
	wait.Wait()
	topology.Sort(nodes)
	view := topology.View{Nodes: nodes}
	for _, set := range o.sets {
		view.Groups = append(view.Groups, topology.Group{
			Index: groupOf(set), Nodes: int(*set.Spec.Replicas), Stale: o.isStale(set, known),
		})
	}
	return view
}

// isStale reports whether Kubernetes is about to take over the present spec for a node group. What the API server has
// rejected is not on its way.
func (o *observation) isStale(set *appsv1.StatefulSet, known *clusterMemory) bool {
	_, isRejected := known.rejected[objectKey(set, set.Name)]
	return !isRejected && resources.IsStale(set, &o.effective.Spec)
}

// isOutdated reports whether a Pod was made from an earlier spec than the one that Kubernetes has taken over.
func (o *observation) isOutdated(pod *corev1.Pod, known *clusterMemory) bool {
	for _, set := range o.sets {
		if metav1.IsControlledBy(pod, set) {
			return !o.isStale(set, known) && resources.IsOutdated(pod, set)
		}
	}
	return false
}

// node is the connection to a node.
func (r *Reconciler) node(o *observation, pod topology.Pod) redis.Node {
	return r.nodes.Node(redis.Target{
		Namespace: o.cluster.Namespace, Cluster: o.cluster.Name,
		PodUID: pod.PodUID, Address: pod.Address, Password: o.password.value,
	})
}

// hasSlots reports whether any node owns slots or knows of a node that does.
func hasSlots(view topology.View) bool {
	for _, n := range view.Nodes {
		if n.OwnsSlots() || slices.ContainsFunc(n.Known, func(p topology.Peer) bool { return !p.Slots.IsEmpty() }) {
			return true
		}
	}
	return false
}
