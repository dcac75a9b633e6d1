package sharding

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"example.com/redis-operator/sharding/membership"
	"example.com/redis-operator/sharding/placement"
)

// watched is one watch on objects of the operator's own namespace.
type watched struct {
	client   rest.Interface
	resource string
	object   runtime.Object
	restrict func(*metav1.ListOptions)
	seen     func(object any)
	gone     func()
	synced   func(empty bool)
}

// watch runs an informer until ctx ends. A lost watch, a 410 included, is made good by a new list.
func (c *coordinator) watch(ctx context.Context, w watched) {
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewFilteredListWatchFromClient(w.client, w.resource, c.options.Namespace, w.restrict),
		ObjectType:    w.object,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    w.seen,
			UpdateFunc: func(_, object any) { w.seen(object) },
			DeleteFunc: func(any) { w.gone() },
		},
	})
	if w.synced != nil {
		c.running.Go(func() {
			if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
				w.synced(len(store.List()) == 0)
			}
		})
	}
	informer.RunWithContext(ctx)
}

func named(name string) func(*metav1.ListOptions) {
	return func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	}
}

// watchPlacement follows P.
func (c *coordinator) watchPlacement(ctx context.Context) {
	c.watch(ctx, watched{
		client: c.clients.watches.CoreV1().RESTClient(), resource: "configmaps", object: &corev1.ConfigMap{},
		restrict: named(placement.ConfigMapName(c.options.Installation)),
		seen: func(object any) {
			configMap, ok := object.(*corev1.ConfigMap)
			if !ok {
				return
			}
			if event := placementEvent(c.store.Read(configMap)); event != nil {
				c.queue.put(event)
			}
		},
		gone: func() { c.queue.put(PlacementSeen{}) },
		synced: func(empty bool) {
			if empty {
				c.queue.put(PlacementSeen{})
			}
		},
	})
}

// noteUnreadable says once for each version what becomes of a P that cannot be read.
func (c *coordinator) noteUnreadable(e PlacementUnreadable) {
	if e.Version == "" || e.Version == c.unreadable {
		return
	}
	c.unreadable = e.Version
	switch {
	case errors.Is(e.Err, placement.ErrOtherFormat):
		c.log.Error(e.Err, "Going on with the last placement until this process is replaced by the other release; "+
			"if there is none, delete the ConfigMap, and it is written again")
	case c.machine.p != nil:
		c.log.Error(e.Err, "The stored placement cannot be read: writing the last copy over it")
	default:
		c.log.Error(e.Err, "The stored placement cannot be read, and this process has no copy: "+
			"building it anew after a Lease duration, unless it is mended or another process has a copy",
			"leaseDuration", c.options.LeaseDuration)
	}
}

// watchExpected follows the StatefulSet's replicas, or reports the fixed list once.
func (c *coordinator) watchExpected(ctx context.Context) {
	if c.statefulSet == nil {
		members := make([]Member, len(c.options.Members))
		for i, member := range c.options.Members {
			members[i] = Member(member)
		}
		c.queue.put(ExpectedSeen{Members: members})
		return
	}
	c.watch(ctx, watched{
		client: c.clients.watches.AppsV1().RESTClient(), resource: "statefulsets", object: &appsv1.StatefulSet{},
		restrict: named(c.options.StatefulSet),
		seen: func(object any) {
			if statefulSet, ok := object.(*appsv1.StatefulSet); ok && statefulSet.DeletionTimestamp == nil {
				c.queue.put(expectedOf(statefulSet))
			}
		},
		gone: func() {}, // the members stay those that P records
	})
}

// expectedOf lists the members that a StatefulSet is to have.
func expectedOf(statefulSet *appsv1.StatefulSet) ExpectedSeen {
	replicas, first := int32(1), int32(0)
	if statefulSet.Spec.Replicas != nil {
		replicas = *statefulSet.Spec.Replicas
	}
	if statefulSet.Spec.Ordinals != nil {
		first = statefulSet.Spec.Ordinals.Start
	}
	seen := ExpectedSeen{Version: statefulSet.ResourceVersion}
	for ordinal := first; ordinal < first+replicas; ordinal++ {
		seen.Members = append(seen.Members, Member(fmt.Sprintf("%s-%d", statefulSet.Name, ordinal)))
	}
	return seen
}

// watchPods follows the kubelet's status of the operator's Pods: what a terminated container left
// in its message confirms a death.
func (c *coordinator) watchPods(ctx context.Context) {
	if c.statefulSet == nil {
		return
	}
	c.watch(ctx, watched{
		client: c.clients.watches.CoreV1().RESTClient(), resource: "pods", object: &corev1.Pod{},
		restrict: func(options *metav1.ListOptions) {
			options.LabelSelector = metav1.FormatLabelSelector(c.statefulSet.Spec.Selector)
		},
		seen: func(object any) {
			pod, ok := object.(*corev1.Pod)
			if !ok {
				return
			}
			for _, message := range membership.Terminations(pod) {
				c.queue.put(Terminated{PodUID: string(pod.UID), Message: message})
			}
		},
		gone: func() {}, // a Pod object that is gone proves nothing
	})
}
