package resources

import (
	"testing"

	redisv1 "example.com/redis-operator/api/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestOnlyTheSpecMakesPodsOutdated has Pods of one spec built in other ways, as another version of the operator would.
func TestOnlyTheSpecMakesPodsOutdated(t *testing.T) {
	cluster := &redisv1.RedisCluster{Spec: redisv1.RedisClusterSpec{Size: 1, Image: "redis:7.0"}}
	cases := map[string]struct {
		pod  func(*corev1.Pod)
		spec func(*redisv1.RedisClusterSpec)
		want bool
	}{
		"the same":        {},
		"another builder": {pod: func(p *corev1.Pod) { p.Spec.Containers[0].Env, p.Labels = nil, nil }},
		"a builder that did not write it down": {pod: func(p *corev1.Pod) {
			p.Annotations, p.Spec.Containers[0].Env = nil, nil
		}},
		"empty resources": {spec: func(s *redisv1.RedisClusterSpec) { s.Resources = &redisv1.ResourceRequirements{} }},
		"another size":    {spec: func(s *redisv1.RedisClusterSpec) { s.Size = 3 }},
		"another image":   {spec: func(s *redisv1.RedisClusterSpec) { s.Image = "redis:8.0" }, want: true},
		"another image, not written down": {
			pod:  func(p *corev1.Pod) { p.Annotations = nil },
			spec: func(s *redisv1.RedisClusterSpec) { s.Image = "redis:8.0" }, want: true,
		},
		"other resources": {spec: func(s *redisv1.RedisClusterSpec) {
			s.Resources = &redisv1.ResourceRequirements{Limits: map[string]resource.Quantity{"memory": resource.MustParse("1Gi")}}
		}, want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			made := StatefulSet(Input{Cluster: cluster}, 0).Spec.Template
			pod := &corev1.Pod{ObjectMeta: made.ObjectMeta, Spec: made.Spec}
			if tc.pod != nil {
				tc.pod(pod)
			}
			changed := cluster.DeepCopy()
			if tc.spec != nil {
				tc.spec(&changed.Spec)
			}
			set := StatefulSet(Input{Cluster: changed}, 0)
			if got := IsOutdated(pod, set); got != tc.want {
				t.Errorf("outdated is %t, want %t", got, tc.want)
			}
			if IsStale(set, &changed.Spec) {
				t.Error("a StatefulSet of the present spec is stale")
			}
			if tc.want && !IsStale(StatefulSet(Input{Cluster: cluster}, 0), &changed.Spec) {
				t.Error("a StatefulSet of the earlier spec is not stale")
			}
		})
	}
}
