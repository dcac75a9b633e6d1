package controller

import (
	"maps" // +

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/ptr"

	cachev1alpha1 "example.com/redis-operator/examples/memcached/api/v1alpha1"
)

const (
	portName   = "memcached"
	portNumber = 11211
)

// selector finds the Pods of a Memcached. It never changes, and so says nothing of shards.
func selector(memcached *cachev1alpha1.Memcached) map[string]string {
	return map[string]string{"app.kubernetes.io/name": "memcached", "app.kubernetes.io/instance": memcached.Name}
}

// labels are those of everything that is created, the templates of Pods apart: the operator writes no
// Pod, and a label that is added to a template restarts all of them.
func (r *Reconciler) labels(memcached *cachev1alpha1.Memcached) map[string]string {
	labels := selector(memcached)
	if r.Labels != nil { // +
		maps.Copy(labels, r.Labels(memcached.Namespace)) // +
	} // +
	return labels
}

func buildDeployment(memcached *cachev1alpha1.Memcached, labels map[string]string) *appsv1ac.DeploymentApplyConfiguration {
	container := corev1ac.Container().WithName("memcached").WithImage(memcached.Spec.Image).
		WithPorts(corev1ac.ContainerPort().WithName(portName).WithContainerPort(portNumber).WithProtocol(corev1.ProtocolTCP)).
		WithReadinessProbe(corev1ac.Probe().
			WithTCPSocket(corev1ac.TCPSocketAction().WithPort(intstr.FromString(portName))))
	return appsv1ac.Deployment(memcached.Name, memcached.Namespace).
		WithLabels(labels).
		WithOwnerReferences(buildOwner(memcached)).
		WithSpec(appsv1ac.DeploymentSpec().
			WithReplicas(memcached.Spec.Size).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(selector(memcached))).
			WithTemplate(corev1ac.PodTemplateSpec().
				WithLabels(selector(memcached)).
				WithSpec(corev1ac.PodSpec().WithContainers(container))))
}

func buildService(memcached *cachev1alpha1.Memcached, labels map[string]string) *corev1ac.ServiceApplyConfiguration {
	return corev1ac.Service(memcached.Name, memcached.Namespace).
		WithLabels(labels).
		WithOwnerReferences(buildOwner(memcached)).
		WithSpec(corev1ac.ServiceSpec().
			WithSelector(selector(memcached)).
			WithPorts(corev1ac.ServicePort().WithName(portName).WithPort(portNumber).
				WithTargetPort(intstr.FromString(portName)).WithProtocol(corev1.ProtocolTCP)))
}

func buildOwner(memcached *cachev1alpha1.Memcached) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(cachev1alpha1.GroupVersion.String()).WithKind("Memcached").
		WithName(memcached.Name).WithUID(memcached.UID).WithController(true)
}

// buildStatus goes by the Deployment as the server has answered it.
func buildStatus(memcached *cachev1alpha1.Memcached, applied *appsv1ac.DeploymentApplyConfiguration) cachev1alpha1.MemcachedStatus {
	status := cachev1alpha1.MemcachedStatus{ObservedGeneration: memcached.Generation}
	if applied.Status != nil {
		status.Ready = ptr.Deref(applied.Status.ReadyReplicas, 0)
	}
	return status
}
