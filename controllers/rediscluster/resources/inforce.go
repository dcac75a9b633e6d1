package resources

import (
	"encoding/json"

	redisv1 "example.com/redis-operator/api/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// inForce is what a node group was made from, of the fields whose change a formed cluster does not carry
// out. It is recorded beside the StatefulSet's own fields, which anybody may edit.
type inForce struct {
	ReplicasPerPrimary int32              `json:"replicasPerPrimary"`
	PasswordSecret     string             `json:"passwordSecret,omitempty"`
	StorageSize        *resource.Quantity `json:"storageSize,omitempty"`
}

// renderInForce is the value of the annotation. Equal specs have equal values.
func renderInForce(cluster *redisv1.RedisCluster) string {
	record := inForce{
		ReplicasPerPrimary: cluster.Spec.Replicas(),
		PasswordSecret:     cluster.Spec.PasswordSecret,
	}
	if storage := cluster.Spec.Storage; storage != nil {
		record.StorageSize = &storage.Size
	}
	text, _ := json.Marshal(record) // strings, numbers and quantities can always be written
	return string(text)
}

// ApplyInForce sets in a spec the fields that the node group was made from. It is false, and sets nothing,
// when they are not recorded.
func ApplyInForce(spec *redisv1.RedisClusterSpec, set *appsv1.StatefulSet) bool {
	var record inForce
	text, found := set.Annotations[redisv1.AnnotationInForce]
	if !found || json.Unmarshal([]byte(text), &record) != nil {
		return false
	}
	spec.ReplicasPerPrimary = ptr.To(record.ReplicasPerPrimary)
	spec.PasswordSecret = record.PasswordSecret
	if spec.Storage != nil && record.StorageSize != nil {
		storage := *spec.Storage
		storage.Size = *record.StorageSize
		spec.Storage = &storage
	}
	return true
}
