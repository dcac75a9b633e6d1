package rediscluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/test/traffic"
)

func isUpToDate(c *redisv1.RedisCluster) bool {
	return isReady(c) && meta.IsStatusConditionTrue(c.Status.Conditions, redisv1.ConditionUpToDate)
}

// podsOf is the cluster's Pods.
func podsOf(t *testing.T, cluster *redisv1.RedisCluster) []corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	if err := suite.client.List(t.Context(), &pods, inCluster(cluster)...); err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

func uidsOf(pods []corev1.Pod) map[types.UID]bool {
	uids := map[types.UID]bool{}
	for i := range pods {
		uids[pods[i].UID] = true
	}
	return uids
}

// Every node is replaced under a writer, and no write that was acknowledged is lost.
func TestChangedImageAndResourcesAreRolled(t *testing.T) {
	namespace, _ := newNamespace(t)
	cluster := formed(t, namespace, 3, 1)
	before := uidsOf(podsOf(t, cluster))
	writer := traffic.Start(t.Context(), keyspace(t, cluster), 9, 90)
	change(t, cluster, func(c *redisv1.RedisCluster) { c.Spec.Image = "redis:7.0-again" })
	await(t, cluster, "up to date", isUpToDate)
	writer.Stop()
	result, err := writer.Check(t.Context())
	if err != nil || result.Lost > 0 || result.Acknowledged == 0 {
		t.Errorf("%+v, %v", result, err)
	}
	t.Logf("%+v", result)
	for _, pod := range podsOf(t, cluster) {
		if before[pod.UID] || pod.Spec.Containers[0].Image != "redis:7.0-again" {
			t.Errorf("Pod %s was not replaced; it has image %s", pod.Name, pod.Spec.Containers[0].Image)
		}
	}
	leftAlone(t, cluster)
}

// An image that does not exist costs one replica; the rest go on, and a corrected spec heals it.
func TestImageThatDoesNotExistTouchesOneNode(t *testing.T) {
	namespace, _ := newNamespace(t)
	cluster := formed(t, namespace, 1, 1)
	primary := primaryOf(cluster, 0)
	change(t, cluster, func(c *redisv1.RedisCluster) { c.Spec.Image = imageMissing })
	await(t, cluster, "the condition that names the image",
		hasCondition(redisv1.ConditionConfigValid, redisv1.ReasonImageNotPulled, imageMissing))
	await(t, cluster, "the condition that names the node group", hasCondition(redisv1.ConditionUpToDate, redisv1.ReasonRolling, "node group 0"))
	if now := primaryOf(cluster, 0); now.ID != primary.ID {
		t.Errorf("the primary is %s now, was %s", now.Name, primary.Name)
	}
	change(t, cluster, func(c *redisv1.RedisCluster) { c.Spec.Image = "redis:7.0" })
	await(t, cluster, "up to date", isUpToDate)
	if now := primaryOf(cluster, 0); now.ID != primary.ID {
		t.Errorf("the primary is %s now, was %s: it had the right image all the time", now.Name, primary.Name)
	}
}

// A primary without replica and storage is left as it is, and said to be.
func TestLonePrimaryIsHeld(t *testing.T) {
	namespace, _ := newNamespace(t)
	cluster := formed(t, namespace, 1, 0)
	before := uidsOf(podsOf(t, cluster))
	change(t, cluster, func(c *redisv1.RedisCluster) { c.Spec.Image = "redis:7.0-again" })
	await(t, cluster, "the condition that says so", hasCondition(redisv1.ConditionUpToDate, redisv1.ReasonRollHeld, "node group 0", "delete the Pod"))
	if cluster.Status.Phase != redisv1.PhaseReady || !before[podsOf(t, cluster)[0].UID] {
		t.Errorf("phase %s; the Pod is the same: %t", cluster.Status.Phase, before[podsOf(t, cluster)[0].UID])
	}
}

// Pods of a version of the operator that did not write down what they were made from are not restarted by one that does.
func TestUpgradedOperatorRestartsNoNode(t *testing.T) {
	namespace, _ := newNamespace(t)
	cluster := formed(t, namespace, 1, 1)
	before := uidsOf(podsOf(t, cluster))
	for _, pod := range podsOf(t, cluster) {
		change(t, &pod, func(p *corev1.Pod) { delete(p.Annotations, redisv1.AnnotationTemplate) })
	}
	leftAlone(t, cluster)
	for _, pod := range podsOf(t, cluster) {
		if !before[pod.UID] {
			t.Errorf("Pod %s was replaced", client.ObjectKeyFromObject(&pod))
		}
	}
}
