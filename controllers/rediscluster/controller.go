// Package rediscluster turns RedisClusters into running Redis Clusters and keeps them so: observe,
// plan, act, report. Package plan decides what Redis is told to do; this package decides when to look,
// which Kubernetes objects there should be, and what may still be changed of a cluster that has formed.
// It never runs a program in a Pod, never flushes or resets a node, and needs neither finalizer nor
// Redis for a deletion. One Reconciler serves many workers.
package rediscluster

import (
	"context"
	"fmt"
	"time"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/controllers/redis"
	"example.com/redis-operator/controllers/rediscluster/plan"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// passDeadline bounds one pass, so that a hung cluster never holds a worker for longer.
const passDeadline = 5 * time.Second

// Ownership is what this controller needs to know of who may act.
type Ownership interface {
	// Check answers whether a call that changes something may be started now under ctx's admission.
	Check(ctx context.Context) error
	// Labels are those that every object of the namespace bears.
	Labels(namespace string) map[string]string
	// Dropped registers a function that is called for each namespace that is no longer owned.
	Dropped(func(namespace string))
}

// Reconciler reconciles RedisClusters.
type Reconciler struct {
	client client.Client
	owner  Ownership
	nodes  *redis.Dialer
	// name is the name of connections under ctx; empty means that connections have no names.
	name func(ctx context.Context) string
	// fenced recognises the refusals of the API server's fence. Nil means that there is none.
	fenced  func(error) bool
	events  events.EventRecorder
	poller  *poller
	memory  *memory
	turns   *turns
	metrics *passMetrics
	now     func() time.Time
}

// Least rights. Secrets are only read; Pods are annotated (start gate) and deleted to be replaced;
// StatefulSets are deleted only before a cluster has formed.
//
// +kubebuilder:rbac:groups=cache.example.com,resources=redisclusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=cache.example.com,resources=redisclusters/status,verbs=patch
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services;configmaps,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups="";events.k8s.io,resources=events,verbs=create;patch

// Reconcile makes one pass over one cluster. It is driven by watches and by the poller.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, passDeadline)
	defer cancel()
	defer r.metrics.time()()

	cluster := &redisv1.RedisCluster{}
	err := r.client.Get(ctx, request.NamespacedName, cluster)
	if apierrors.IsNotFound(err) || err == nil && !cluster.DeletionTimestamp.IsZero() {
		r.forget(request.NamespacedName)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading %s: %w", request, err)
	}
	known := r.memory.of(cluster)
	if err := r.stamp(ctx, cluster); err != nil {
		return ctrl.Result{}, err
	}
	seen, err := r.observe(ctx, cluster, known)
	if err != nil {
		return ctrl.Result{}, err
	}
	next := r.turns.admit(request.NamespacedName, cluster.Spec.Paused, plan.Next(seen.desired(), seen.view, r.now()))
	done := r.act(ctx, seen, next, known)
	err = r.report(ctx, seen, next, done, known)
	return r.again(request, known.pace(seen, next, r.now())), err
}

// again has the cluster looked at again: by the poller, and where that has stopped already by the queue.
func (r *Reconciler) again(request ctrl.Request, after time.Duration) ctrl.Result {
	if r.poller.schedule(request.NamespacedName, after) {
		return ctrl.Result{}
	}
	return ctrl.Result{RequeueAfter: after}
}

// forget drops all that is kept in memory of a cluster that is gone.
func (r *Reconciler) forget(key client.ObjectKey) {
	r.poller.drop(key)
	r.memory.drop(key)
	r.turns.drop(func(other client.ObjectKey) bool { return other == key })
	r.nodes.DropCluster(key.Namespace, key.Name)
}

// forgetNamespace drops all that is kept of the clusters of a namespace that is no longer owned.
func (r *Reconciler) forgetNamespace(namespace string) {
	r.poller.dropNamespace(namespace)
	r.memory.dropNamespace(namespace)
	r.turns.drop(func(key client.ObjectKey) bool { return key.Namespace == namespace })
	r.nodes.DropNamespace(namespace)
}
