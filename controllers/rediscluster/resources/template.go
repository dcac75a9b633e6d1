package resources

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	redisv1 "example.com/redis-operator/api/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// template is what the spec decides of a Pod that cannot change while the Pod lives. A field that a later
// version adds must be left out of the JSON when it is not set: else that version would restart every node.
type template struct {
	Image     string                        `json:"image"`
	Resources *redisv1.ResourceRequirements `json:"resources,omitempty"`
}

// TemplateHash names what the spec decides of a Pod, however it is built. Equal specs have equal hashes, and
// an empty object of the spec is as good as none.
func TemplateHash(spec *redisv1.RedisClusterSpec) string {
	t := template{Image: spec.Image}
	if r := spec.Resources; r != nil && len(r.Requests)+len(r.Limits) > 0 {
		t.Resources = r
	}
	text, _ := json.Marshal(t) // strings and quantities can always be written
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:hashLength]
}

// IsStale reports whether Kubernetes has yet to take over what the spec decides of a node group's Pods.
func IsStale(set *appsv1.StatefulSet, spec *redisv1.RedisClusterSpec) bool {
	return set.Spec.Template.Annotations[redisv1.AnnotationTemplate] != TemplateHash(spec) ||
		set.Status.ObservedGeneration < set.Generation
}

// IsOutdated reports whether a Pod was made from another spec than its StatefulSet has now. Of a Pod that does
// not say, made by a version of the operator that did not write it down, image and resources tell.
func IsOutdated(pod *corev1.Pod, set *appsv1.StatefulSet) bool {
	wanted := set.Spec.Template.Annotations[redisv1.AnnotationTemplate]
	if made, found := pod.Annotations[redisv1.AnnotationTemplate]; found {
		return made != wanted
	}
	a, b := pod.Spec.Containers[0], set.Spec.Template.Spec.Containers[0]
	return a.Image != b.Image || !equality.Semantic.DeepEqual(a.Resources, b.Resources)
}
