package rediscluster

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "example.com/redis-operator/api/v1"
)

// The API server gives back a template of a volume claim with other fields than those that were applied.
func TestClusterWithStorageIsLeftAlone(t *testing.T) {
	namespace, _ := newNamespace(t)
	leftAlone(t, formed(t, namespace, 1, 0, func(c *redisv1.RedisCluster) {
		c.Spec.Storage = &redisv1.Storage{Size: resource.MustParse("64Mi")}
		c.Spec.Resources = &redisv1.ResourceRequirements{Requests: map[string]resource.Quantity{"cpu": resource.MustParse("0.1")}}
		c.Spec.Config = map[string]redisv1.ConfigValue{"maxmemory": "32mb"}
	}))
}

func TestClusterFormsAndIsLeftAlone(t *testing.T) {
	namespace, _ := newNamespace(t)
	cluster := newCluster(namespace, 3, 1)
	create(t, cluster)
	await(t, cluster, "Ready", isReady)
	if writes(namespace).Load() == 0 {
		t.Error("no write was counted while the cluster formed: the count cannot be trusted")
	}
	status := cluster.Status
	if status.ReadyNodes != 6 || status.SlotsAssigned != 16384 || len(status.NodeStates) != 6 || status.Ready != "6/6" || !status.Formed {
		t.Errorf("status of a Ready cluster: %+v", status)
	}
	if status.Shard == nil || *status.Shard != 0 || cluster.Labels[redisv1.LabelShard] != "0" {
		t.Errorf("shard %v, labels %v", status.Shard, cluster.Labels)
	}
	leftAlone(t, cluster)
}

// leftAlone wakes the controller several times and insists that nothing is written.
func leftAlone(t *testing.T, cluster *redisv1.RedisCluster) {
	t.Helper()
	count, version := writes(cluster.Namespace).Load(), cluster.ResourceVersion
	for i := range 5 {
		before := passes(t)
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: cluster.Name + "-config"}}
		change(t, config, func(c *corev1.ConfigMap) { metav1.SetMetaDataAnnotation(&c.ObjectMeta, "touched", fmt.Sprint(i)) })
		deadline := time.Now().Add(20 * time.Second)
		for tick := time.NewTicker(10 * time.Millisecond); passes(t) == before; <-tick.C {
			if time.Now().After(deadline) {
				t.Fatal("no pass within 20 s of a change of an owned object")
			}
		}
	}
	if err := suite.client.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
		t.Fatal(err)
	}
	if got := writes(cluster.Namespace).Load() - count; got != 0 {
		t.Errorf("%d writes to the API by passes over a Ready cluster", got)
	}
	if cluster.ResourceVersion != version {
		t.Error("the RedisCluster was written although nothing happened")
	}
}
