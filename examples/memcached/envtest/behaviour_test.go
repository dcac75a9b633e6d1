package envtest

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cachev1alpha1 "example.com/redis-operator/examples/memcached/api/v1alpha1"
)

const (
	tenantPrefix = "tenant-"
	// name is that of the Memcached in each tenant's namespace.
	name = "cache"
	// tenants is how many namespaces each test has.
	tenants = 12
)

// One replica of the unsharded program does what the example promises.
func TestUnsharded(t *testing.T) {
	w := newWorld(t)
	w.start("unsharded", 0)
	var namespaces []string
	for n := range tenants {
		namespaces = append(namespaces, fmt.Sprintf("%s%d", tenantPrefix, n))
	}
	w.fill(namespaces)
	w.behave(namespaces)
}

// fill creates namespaces with one Memcached each.
func (w *world) fill(namespaces []string) {
	w.t.Helper()
	for _, namespace := range namespaces {
		w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		w.create(&cachev1alpha1.Memcached{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: cachev1alpha1.MemcachedSpec{Size: 1},
		})
	}
}

// behave is what the operator promises, sharded or not, whoever works on which namespace.
func (w *world) behave(namespaces []string) {
	w.t.Helper()
	w.eventually("every Memcached has its objects", w.forEach(namespaces, w.isMade))
	w.resize(namespaces, 2)
	for _, namespace := range namespaces {
		if err := w.client.Delete(w.t.Context(), &appsv1.Deployment{ObjectMeta: meta(namespace)}); err != nil {
			w.t.Fatal(err)
		}
	}
	w.eventually("Deployments that were deleted are back", w.forEach(namespaces, w.isSized(2)))
	for _, namespace := range namespaces {
		w.reportReady(namespace, 2)
	}
	w.eventually("the status says what is ready", w.forEach(namespaces, func(ctx context.Context, namespace string) string {
		var memcached cachev1alpha1.Memcached
		if err := w.client.Get(ctx, key(namespace), &memcached); err != nil {
			return err.Error()
		}
		if s := memcached.Status; s.Ready != 2 || s.ObservedGeneration != memcached.Generation {
			return fmt.Sprintf("status %+v of generation %d", s, memcached.Generation)
		}
		return ""
	}))
}

// resize changes the size of every Memcached and waits until the Deployments follow.
func (w *world) resize(namespaces []string, size int32) {
	w.t.Helper()
	for _, namespace := range namespaces {
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"size":%d}}`, size))
		if err := w.client.Patch(w.t.Context(), &cachev1alpha1.Memcached{ObjectMeta: meta(namespace)}, patch); err != nil {
			w.t.Fatal(err)
		}
	}
	w.eventually(fmt.Sprintf("Deployments follow size %d", size), w.forEach(namespaces, w.isSized(size)))
}

// reportReady writes the status that the Deployment controller would.
func (w *world) reportReady(namespace string, ready int32) {
	w.t.Helper()
	var deployment appsv1.Deployment
	if err := w.client.Get(w.t.Context(), key(namespace), &deployment); err != nil {
		w.t.Fatal(err)
	}
	before := deployment.DeepCopy()
	deployment.Status.Replicas, deployment.Status.ReadyReplicas = ready, ready
	if err := w.client.Status().Patch(w.t.Context(), &deployment, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

// forEach asks about each namespace, and names the first that lacks something.
func (w *world) forEach(namespaces []string, missing func(context.Context, string) string) func(context.Context) string {
	return func(ctx context.Context) string {
		for _, namespace := range namespaces {
			if lacks := missing(ctx, namespace); lacks != "" {
				return namespace + ": " + lacks
			}
		}
		return ""
	}
}

// isMade says what is missing of the Deployment and the Service of a Memcached.
func (w *world) isMade(ctx context.Context, namespace string) string {
	var memcached cachev1alpha1.Memcached
	if err := w.client.Get(ctx, key(namespace), &memcached); err != nil {
		return err.Error()
	}
	for _, object := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}} {
		err := w.client.Get(ctx, key(namespace), object)
		if err != nil {
			return err.Error()
		}
		if !metav1.IsControlledBy(object, &memcached) {
			return fmt.Sprintf("%T is not owned by the Memcached", object)
		}
	}
	return w.isSized(memcached.Spec.Size)(ctx, namespace)
}

func (w *world) isSized(size int32) func(context.Context, string) string {
	return func(ctx context.Context, namespace string) string {
		var deployment appsv1.Deployment
		if err := w.client.Get(ctx, key(namespace), &deployment); err != nil {
			return err.Error()
		}
		if got := ptr.Deref(deployment.Spec.Replicas, 0); got != size {
			return fmt.Sprintf("the Deployment has size %d", got)
		}
		return ""
	}
}

func key(namespace string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: name}
}

func meta(namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}
