package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "example.com/redis-operator/api/v1"
)

// podMaker plays the StatefulSet controller and the kubelet for the operator's StatefulSets: their Pods exist in the API
// only, run and are ready from the start, and have the addresses of the simulated nodes, which answer once all Pods of
// their cluster are there. None ever ends.
type podMaker struct {
	client client.Client
	redis  *runningRedis
	port   int

	queue chan *appsv1.StatefulSet
	// fail ends the run.
	fail context.CancelCauseFunc

	mu   sync.Mutex // guards the fields below
	seen map[types.UID]bool
	sets map[int]int // how many StatefulSets of a cluster have their Pods
}

// start watches StatefulSets until ctx ends.
func (m *podMaker) start(ctx context.Context, config *rest.Config) error {
	m.queue, m.seen, m.sets = make(chan *appsv1.StatefulSet, 1<<16), map[types.UID]bool{}, map[int]int{}
	watched, err := cache.New(config, cache.Options{Scheme: cacheScheme(), DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return fmt.Errorf("watching StatefulSets: %w", err)
	}
	go func() { _ = watched.Start(ctx) }() // it ends with ctx
	informer, err := watched.GetInformer(ctx, &appsv1.StatefulSet{})
	if err != nil {
		return fmt.Errorf("watching StatefulSets: %w", err)
	}
	push := func(object any) {
		set, ok := object.(*appsv1.StatefulSet)
		if ok && set.Labels[redisv1.LabelManagedBy] == redisv1.Operator && set.Labels[redisv1.LabelCluster] != "" {
			m.queue <- set.DeepCopy()
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: push, UpdateFunc: func(_, object any) { push(object) },
	})
	for range writers {
		go m.work(ctx)
	}
	return err
}

func (m *podMaker) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case set := <-m.queue:
			if err := m.sync(ctx, set); err != nil && ctx.Err() == nil {
				m.fail(fmt.Errorf("playing the kubelet for StatefulSet %s/%s: %w", set.Namespace, set.Name, err))
			}
		}
	}
}

// sync reports that the StatefulSet was taken note of, and makes its Pods once.
func (m *podMaker) sync(ctx context.Context, set *appsv1.StatefulSet) error {
	if set.Status.ObservedGeneration != set.Generation {
		before := set.DeepCopy()
		set.Status.ObservedGeneration, set.Status.Replicas = set.Generation, *set.Spec.Replicas
		if err := m.client.Status().Patch(ctx, set, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	cluster, err := clusterIndex(set.Labels[redisv1.LabelCluster])
	if err != nil {
		return err
	}
	m.mu.Lock()
	isMade := m.seen[set.UID]
	m.seen[set.UID] = true
	m.mu.Unlock()
	if isMade {
		return nil
	}
	for ordinal := range int(*set.Spec.Replicas) {
		if err := m.makePod(ctx, set, cluster, ordinal); err != nil {
			return err
		}
	}
	m.mu.Lock()
	m.sets[cluster]++
	isLast := m.sets[cluster] == scaleoutPrimaries
	m.mu.Unlock()
	if isLast {
		return m.redis.serve(cluster)
	}
	return nil
}

func (m *podMaker) makePod(ctx context.Context, set *appsv1.StatefulSet, cluster, ordinal int) error {
	group, err := strconv.Atoi(set.Labels[redisv1.LabelNodeGroup])
	if err != nil {
		return err
	}
	pod := &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = set.Namespace, set.Name+"-"+strconv.Itoa(ordinal)
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
	pod.Spec.NodeName = "node-" + strconv.Itoa(ordinal)
	if err := m.client.Create(ctx, pod); err != nil {
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
	before := pod.DeepCopy()
	reportRunning(pod, nodeAddress(m.port, cluster, group, ordinal).IP)
	return m.client.Status().Patch(ctx, pod, client.MergeFrom(before))
}

// reportRunning gives a Pod the status of one that runs and is ready.
func reportRunning(pod *corev1.Pod, ip string) {
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, ip, []corev1.PodIP{{IP: ip}}
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue},
	}
	container := pod.Spec.Containers[0]
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: container.Name, Image: container.Image, ImageID: container.Image, Ready: true, Started: ptr.To(true),
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now().Truncate(time.Second))}},
	}}
}

// clusterName names the i-th RedisCluster, clusterIndex tells i from the name.
func clusterName(i int) string { return fmt.Sprintf("cache-%d", i) }

func clusterIndex(name string) (int, error) {
	index, err := strconv.Atoi(strings.TrimPrefix(name, "cache-"))
	if err != nil {
		return 0, fmt.Errorf("%q names no RedisCluster of this scenario", name)
	}
	return index, nil
}
