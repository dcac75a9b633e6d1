package rediscluster

import (
	"testing"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/controllers/rediscluster/resources"
	"example.com/redis-operator/controllers/topology"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

func testCluster() *redisv1.RedisCluster {
	return &redisv1.RedisCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "orders", Namespace: "shop", UID: "uid-1", Generation: 1},
		Spec: redisv1.RedisClusterSpec{
			Size: 3, ReplicasPerPrimary: ptr.To[int32](1), Image: "redis:7.0", Port: 6379,
			Storage: &redisv1.Storage{Size: resource.MustParse("1Gi")},
		},
	}
}

// liveSet is a StatefulSet as the API server would give it back: what was applied, with defaults.
func liveSet(t *testing.T, in resources.Input) *appsv1.StatefulSet {
	t.Helper()
	applied, err := toApplied(resources.StatefulSet(in, 0))
	if err != nil {
		t.Fatal(err)
	}
	live := &appsv1.StatefulSet{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(applied.Object, live); err != nil {
		t.Fatal(err)
	}
	live.TypeMeta = metav1.TypeMeta{}
	live.ResourceVersion, live.Generation = "7", 1
	live.Spec.RevisionHistoryLimit = ptr.To[int32](10)
	live.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyAlways
	live.Spec.Template.Spec.Containers[0].ImagePullPolicy = corev1.PullIfNotPresent
	live.Spec.VolumeClaimTemplates[0].Spec.VolumeMode = ptr.To(corev1.PersistentVolumeFilesystem)
	live.Spec.VolumeClaimTemplates[0].Status.Phase = corev1.ClaimPending
	return live
}

func TestIsApplied(t *testing.T) {
	labels := map[string]string{redisv1.LabelShard: "3"}
	cases := map[string]struct {
		edit   func(*appsv1.StatefulSet)
		wanted func(*redisv1.RedisCluster)
		want   bool
	}{
		"nothing differs":       {want: true},
		"somebody else's label": {edit: func(s *appsv1.StatefulSet) { s.Labels["other"] = "x" }, want: true},
		"our label taken away":  {edit: func(s *appsv1.StatefulSet) { delete(s.Labels, redisv1.LabelShard) }},
		"our label changed":     {edit: func(s *appsv1.StatefulSet) { s.Labels[redisv1.LabelShard] = "4" }},
		"field changed by hand": {edit: func(s *appsv1.StatefulSet) { s.Spec.Replicas = ptr.To[int32](0) }},
		"list entry added by hand": {edit: func(s *appsv1.StatefulSet) {
			c := &s.Spec.Template.Spec.Containers[0]
			c.Env = append(c.Env, corev1.EnvVar{Name: "X"})
		}},
		"field of the spec changed": {wanted: func(c *redisv1.RedisCluster) { c.Spec.Image = "redis:8.0" }},
		"field of the spec gone":    {wanted: func(c *redisv1.RedisCluster) { c.Spec.Resources = nil }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cluster := testCluster()
			cluster.Spec.Resources = &redisv1.ResourceRequirements{Requests: map[string]resource.Quantity{"cpu": resource.MustParse("1000m")}}
			live := liveSet(t, resources.Input{Cluster: cluster, Labels: labels})
			if tc.edit != nil {
				tc.edit(live)
			}
			wanted := cluster.DeepCopy()
			if tc.wanted != nil {
				tc.wanted(wanted)
			}
			applied, err := toApplied(resources.StatefulSet(resources.Input{Cluster: wanted, Labels: labels}, 0))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := isApplied(applied, live); err != nil || got != tc.want {
				t.Errorf("got %t, %v; want %t", got, err, tc.want)
			}
		})
	}
}

func TestMustHoldEvictions(t *testing.T) {
	node := func(edit func(*topology.Node)) topology.Node {
		n := topology.Node{Pod: topology.Pod{Ready: true}}
		n.Reachable, n.Role = true, topology.RoleReplica
		edit(&n)
		return n
	}
	cases := map[string]struct {
		node topology.Node
		want bool
	}{
		"primary with slots": {node: node(func(n *topology.Node) { n.Role, n.Slots = topology.RolePrimary, topology.AllSlots() })},
		"linked replica":     {node: node(func(n *topology.Node) { n.LinkUp = true })},
		"copying replica":    {node: node(func(n *topology.Node) { n.Syncing = true }), want: true},
		"new node":           {node: node(func(n *topology.Node) { n.Role = topology.RolePrimary }), want: true},
		"loading":            {node: node(func(n *topology.Node) { n.Reachable, n.Loading = false, true }), want: true},
		"not ready":          {node: node(func(n *topology.Node) { n.Ready = false })}, // Kubernetes counts it itself
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := mustHoldEvictions([]topology.Node{tc.node}); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func TestComputeEffective(t *testing.T) {
	labels := map[string]string{redisv1.LabelShard: "3"}
	cases := map[string]struct {
		formed bool
		edit   func(*redisv1.RedisCluster)
		want   string
		frozen int
	}{
		"unchanged":        {formed: true, want: "redis:7.0"},
		"before it formed": {edit: func(c *redisv1.RedisCluster) { c.Spec.Image, c.Spec.Size = "redis:8.0", 5 }, want: "redis:8.0"},
		"image and size":   {formed: true, edit: func(c *redisv1.RedisCluster) { c.Spec.Image, c.Spec.Size = "redis:8.0", 5 }, want: "redis:8.0", frozen: 1},
		"replicas":         {formed: true, edit: func(c *redisv1.RedisCluster) { c.Spec.ReplicasPerPrimary = ptr.To[int32](2) }, want: "redis:7.0", frozen: 1},
		"password":         {formed: true, edit: func(c *redisv1.RedisCluster) { c.Spec.PasswordSecret = "auth" }, want: "redis:7.0", frozen: 1},
		"storage grows":    {formed: true, edit: func(c *redisv1.RedisCluster) { c.Spec.Storage.Size = resource.MustParse("2Gi") }, want: "redis:7.0", frozen: 1},
		"resources": {formed: true, edit: func(c *redisv1.RedisCluster) {
			c.Spec.Resources = &redisv1.ResourceRequirements{Limits: map[string]resource.Quantity{"cpu": resource.MustParse("1")}}
		}, want: "redis:7.0"},
		"another spelling":    {formed: true, edit: func(c *redisv1.RedisCluster) { c.Spec.Storage.Size = resource.MustParse("1024Mi") }, want: "redis:7.0"},
		"config is no matter": {formed: true, edit: func(c *redisv1.RedisCluster) { c.Spec.Config = map[string]redisv1.ConfigValue{"a": "b"} }, want: "redis:7.0"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cluster := testCluster()
			set := liveSet(t, resources.Input{Cluster: cluster, Labels: labels})
			cluster.Status.Size = 3
			if tc.edit != nil {
				tc.edit(cluster)
			}
			// What is edited in the StatefulSet by hand is not in force.
			set.Spec.Replicas = ptr.To[int32](0)
			set.Spec.Template.Spec.Containers[0].Image = "elsewhere/redis:7.0"
			effective, frozen := computeEffective(cluster, []*appsv1.StatefulSet{set}, tc.formed)
			if got := effective.Spec.Replicas(); tc.formed && got != testCluster().Spec.Replicas() {
				t.Errorf("%d replicas per primary are in force", got)
			}
			if effective.Spec.Image != tc.want || len(frozen) != tc.frozen {
				t.Errorf("image %s, frozen %v; want %s and %d", effective.Spec.Image, frozen, tc.want, tc.frozen)
			}
		})
	}
}
