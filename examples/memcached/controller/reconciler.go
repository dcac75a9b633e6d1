// Package controller makes a Deployment and a Service of each Memcached. It is an ordinary
// controller-runtime controller and imports nothing of the sharding library.
//
// The lines marked "+" are there for an operator that is sharded.
package controller

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	cachev1alpha1 "example.com/redis-operator/examples/memcached/api/v1alpha1"
)

// fieldOwner owns the fields that are applied.
const fieldOwner = client.FieldOwner("memcached-operator")

// +kubebuilder:rbac:groups=cache.example.com,resources=memcacheds,verbs=get;list;watch
// +kubebuilder:rbac:groups=cache.example.com,resources=memcacheds/status,verbs=patch
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch

// Reconciler makes the objects of one Memcached. It is safe for concurrent use.
type Reconciler struct {
	Client client.Client
	Labels func(namespace string) map[string]string // + on everything that is created
}

// Setup adds a controller of Memcacheds to a manager.
func Setup(mgr ctrl.Manager, reconciler reconcile.Reconciler) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&cachev1alpha1.Memcached{}).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		Complete(reconciler)
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	memcached := &cachev1alpha1.Memcached{}
	if err := r.Client.Get(ctx, request.NamespacedName, memcached); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !memcached.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // the garbage collector takes what it owns
	}
	labels := r.labels(memcached)
	deployment := buildDeployment(memcached, labels)
	if err := r.Client.Apply(ctx, deployment, fieldOwner, client.ForceOwnership); err != nil {
		return ctrl.Result{}, fmt.Errorf("applying the Deployment of %s: %w", request, err)
	}
	if err := r.Client.Apply(ctx, buildService(memcached, labels), fieldOwner, client.ForceOwnership); err != nil {
		return ctrl.Result{}, fmt.Errorf("applying the Service of %s: %w", request, err)
	}
	// The server's answer to the first call is newer than the cache.
	return ctrl.Result{}, r.patchStatus(ctx, memcached, buildStatus(memcached, deployment))
}

// patchStatus writes the status if it has changed.
func (r *Reconciler) patchStatus(ctx context.Context, memcached *cachev1alpha1.Memcached, status cachev1alpha1.MemcachedStatus) error {
	if memcached.Status == status {
		return nil
	}
	before := memcached.DeepCopy()
	memcached.Status = status
	if err := r.Client.Status().Patch(ctx, memcached, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("patching the status of %s: %w", client.ObjectKeyFromObject(memcached), err)
	}
	return nil
}
