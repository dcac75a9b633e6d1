package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MemcachedSpec is what is wanted.
type MemcachedSpec struct {
	// Size is the number of memcached servers.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=50
	// +kubebuilder:default=1
	Size int32 `json:"size"`
	// Image of the servers.
	// +kubebuilder:default="memcached:1.6"
	// +optional
	Image string `json:"image,omitempty"`
}

// MemcachedStatus is what was seen.
type MemcachedStatus struct {
	// Ready is the number of servers that are ready.
	// +optional
	Ready int32 `json:"ready"`
	// ObservedGeneration is the generation of the spec that was applied last.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// Memcached is a group of memcached servers: a Deployment and a Service of the same name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.spec.size`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.ready`
type Memcached struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MemcachedSpec   `json:"spec"`
	Status MemcachedStatus `json:"status,omitempty"`
}

// MemcachedList is a list of Memcached.
//
// +kubebuilder:object:root=true
type MemcachedList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Memcached `json:"items"`
}
