package rediscluster

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"time"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/controllers/redis"
	"example.com/redis-operator/controllers/rediscluster/resources"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// ConnectionPrefix begins the name of every connection of the operator to a node.
const ConnectionPrefix = redisv1.Operator + ":"

// How many clusters are worked on at once, and how fast a pass that failed is tried again.
const (
	defaultWorkers = 32
	defaultRolling = 10
	retryFirst     = 100 * time.Millisecond
	retryLast      = 15 * time.Second
)

// Options of the controller. Ownership and Registerer are required.
type Options struct {
	// Ownership says what may be acted on.
	Ownership Ownership
	// Wrap decorates the reconciler. Nil means as it is.
	Wrap func(reconcile.Reconciler) reconcile.Reconciler
	// Begin, if there is one, is asked before each command that changes a node; see controllers.Deps.
	Begin func(ctx context.Context) (done func(), err error)
	// ConnectionName names connections to Redis; see controllers.Deps. Nil means no names.
	ConnectionName func(ctx context.Context) string
	// IsFenced recognises the refusals of the API server's fence; see controllers.Deps. Nil means never.
	IsFenced func(error) bool
	// Dial opens connections to Redis. Nil means the net package's dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Workers is how many clusters are worked on at the same time. Zero means 32.
	Workers int
	// MaxRolling is how many clusters this process rolls at the same time. Zero means 10.
	MaxRolling int
	// Registerer takes the controller's metrics.
	Registerer prometheus.Registerer
}

// Add registers the controller, its poller and its metrics with the manager. Connections to Redis stay
// open until the process ends: the manager stops what is added to it before its controllers.
func Add(mgr ctrl.Manager, options Options) error {
	r := &Reconciler{
		client: mgr.GetClient(),
		owner:  options.Ownership,
		nodes: redis.NewDialer(redis.Options{
			Check: options.Ownership.Check, Begin: options.Begin,
			Name: options.ConnectionName, Dial: options.Dial,
		}),
		name:   options.ConnectionName,
		fenced: options.IsFenced,
		events: mgr.GetEventRecorder(redisv1.Operator),
		poller: newPoller(),
		memory: newMemory(),
		turns:  newTurns(cmp.Or(options.MaxRolling, defaultRolling)),
		now:    time.Now,
	}
	var err error
	if r.metrics, err = newPassMetrics(options.Registerer); err != nil {
		return err
	}
	if err := options.Registerer.Register(&collector{reader: mgr.GetCache()}); err != nil {
		return fmt.Errorf("registering the collector: %w", err)
	}
	if err := mgr.Add(r.poller); err != nil {
		return fmt.Errorf("adding the poller: %w", err)
	}
	options.Ownership.Dropped(r.forgetNamespace)
	return r.watch(mgr, options)
}

// watch says what wakes the controller.
func (r *Reconciler) watch(mgr ctrl.Manager, options Options) error {
	var inner reconcile.Reconciler = r
	if options.Wrap != nil {
		inner = options.Wrap(r)
	}
	workers := options.Workers
	if workers == 0 {
		workers = defaultWorkers
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("rediscluster").
		For(&redisv1.RedisCluster{}, builder.WithPredicates(
			predicate.Or(predicate.GenerationChangedPredicate{}, shardLabelChanged()))).
		Owns(&appsv1.StatefulSet{}).
		Owns(&corev1.Service{}).
		Owns(&corev1.ConfigMap{}).
		Owns(&policyv1.PodDisruptionBudget{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(clusterOfPod)).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.clustersOfSecret)).
		WatchesRawSource(source.Channel(r.poller.events, &handler.TypedEnqueueRequestForObject[*redisv1.RedisCluster]{})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			NeedLeaderElection:      ptr.To(false),
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryFirst, retryLast),
		}).
		Complete(inner)
}

// shardLabelChanged passes updates that change the label by which the API server tells who may write:
// whoever changed it, the owner puts it right.
func shardLabelChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetLabels()[redisv1.LabelShard] != e.ObjectNew.GetLabels()[redisv1.LabelShard]
		},
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// clusterOfPod maps a node's Pod, which a StatefulSet owns, to its cluster by label.
func clusterOfPod(_ context.Context, pod client.Object) []reconcile.Request {
	labels := pod.GetLabels()
	if labels[redisv1.LabelManagedBy] != redisv1.Operator || labels[redisv1.LabelCluster] == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{
		Namespace: pod.GetNamespace(), Name: labels[redisv1.LabelCluster],
	}}}
}

// clustersOfSecret maps a Secret to the clusters of its namespace that name it, or whose nodes were started
// with it: a formed cluster keeps its password when its spec names another Secret.
func (r *Reconciler) clustersOfSecret(ctx context.Context, secret client.Object) []reconcile.Request {
	var clusters redisv1.RedisClusterList
	var sets appsv1.StatefulSetList
	err := r.client.List(ctx, &clusters, client.InNamespace(secret.GetNamespace()))
	if err == nil {
		err = r.client.List(ctx, &sets, client.InNamespace(secret.GetNamespace()), client.HasLabels{redisv1.LabelCluster})
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the clusters that name a Secret", "secret", secret.GetName())
		return nil
	}
	named := map[string]bool{}
	for i := range sets.Items {
		var spec redisv1.RedisClusterSpec
		if resources.ApplyInForce(&spec, &sets.Items[i]) && spec.PasswordSecret == secret.GetName() {
			named[sets.Items[i].Labels[redisv1.LabelCluster]] = true
		}
	}
	var requests []reconcile.Request
	for i := range clusters.Items {
		if clusters.Items[i].Spec.PasswordSecret == secret.GetName() || named[clusters.Items[i].Name] {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&clusters.Items[i])})
		}
	}
	return requests
}
