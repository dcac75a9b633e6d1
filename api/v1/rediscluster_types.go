package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Defaults of the API, for code that must not depend on the API server having filled them in.
const (
	DefaultPort               int32 = 6379
	DefaultReplicasPerPrimary int32 = 1
)

// Phase says in one word how a RedisCluster is.
// +kubebuilder:validation:Enum=Pending;Creating;Ready;Updating;Degraded;Failed
type Phase string

// The phases of a RedisCluster.
const (
	// PhasePending: nothing could be created yet, for example because the Secret is missing.
	PhasePending Phase = "Pending"
	// PhaseCreating: the cluster has not been Ready yet and is on its way.
	PhaseCreating Phase = "Creating"
	// PhaseReady: every node runs, all slots are served, every replica is linked.
	PhaseReady Phase = "Ready"
	// PhaseUpdating: the cluster serves all slots, and its nodes are replaced one by one since the spec
	// has changed.
	PhaseUpdating Phase = "Updating"
	// PhaseDegraded: the cluster was formed, and something of it is missing at the moment.
	PhaseDegraded Phase = "Degraded"
	// PhaseFailed: the cluster cannot go on until its input is corrected.
	PhaseFailed Phase = "Failed"
)

// ConfigValue is the value of one redis.conf directive, as it stands after the directive's name.
// +kubebuilder:validation:MaxLength=1024
type ConfigValue string

// RedisClusterSpec is what the user wants.
// +kubebuilder:validation:XValidation:rule="has(self.storage) == has(oldSelf.storage)",message="storage cannot be added to or taken from an existing cluster: create a new one"
type RedisClusterSpec struct {
	// Size is the number of primaries, 1 to 10. A cluster of 3 or more elects a new primary by itself
	// when one fails. Sizes 1 and 2 cannot: an election needs the votes of most primaries, and the
	// one that failed is half of them or more. There the operator promotes the replica, and only once
	// it knows that the failed primary is not serving: its container has ended, another process
	// answers at its address, or no Pod has that address and no replica is linked with it any more.
	// While the primary's Node cannot be reached, it waits. Deleting the Pod by force then tells the
	// operator that the process is no more, true or not: one that goes on there is a second primary.
	// Without replicas a failed primary's slots are gone until it is back.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	Size int32 `json:"size"`

	// ReplicasPerPrimary is the number of replicas of each primary, 0 to 5.
	// +optional
	// +default=1
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=5
	ReplicasPerPrimary *int32 `json:"replicasPerPrimary,omitempty"`

	// Image is the container image of the nodes. It needs redis-server 7.0 or later (or
	// valkey-server under that name), sh, od, sed, cat, mv, rm and sleep. A changed image is rolled out
	// node by node: all replicas first, then each primary after a graceful failover to a replica that has
	// caught up. A primary without replicas is restarted in place if its storage has all of its data, and
	// otherwise left as it is; the condition UpToDate says so.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image"`

	// Port is the port for clients; the cluster bus uses this port plus 10000. It cannot change.
	// +optional
	// +default=6379
	// +kubebuilder:default=6379
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=55535
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="port cannot change: create a new cluster"
	Port int32 `json:"port,omitempty"`

	// PasswordSecret is the name of a Secret of the same namespace whose key "password" holds the
	// password of the cluster: any bytes except NUL and newline. Without it there is no password.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PasswordSecret string `json:"passwordSecret,omitempty"`

	// Config holds redis.conf directives, in force from the nodes' start and, when changed, set on
	// running nodes. Directives that the operator owns are refused, and so is one that is given twice
	// in different case.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 64 && k.matches('^[a-zA-Z][a-zA-Z0-9-]*$'))",messageExpression="'not the name of a directive: %s'.format([self.filter(k, k.size() > 64 || !k.matches('^[a-zA-Z][a-zA-Z0-9-]*$'))])",message="a key is not the name of a directive"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k.lowerAscii().matches('^(cluster-.*|tls-.*|rdma-.*|.*announce.*|bind.*|unixsocket.*|loadmodule.*|enable-.*-commands?|enable-protected-configs|port|dir|requirepass|masterauth|masteruser|primaryauth|primaryuser|user|aclfile|include|rename-command|replicaof|slaveof|protected-mode|daemonize|supervised|pidfile|logfile|syslog-.*|dbfilename|appendfilename|appenddirname)$'))",messageExpression="'the operator owns these directives: %s'.format([self.filter(k, k.lowerAscii().matches('^(cluster-.*|tls-.*|rdma-.*|.*announce.*|bind.*|unixsocket.*|loadmodule.*|enable-.*-commands?|enable-protected-configs|port|dir|requirepass|masterauth|masteruser|primaryauth|primaryuser|user|aclfile|include|rename-command|replicaof|slaveof|protected-mode|daemonize|supervised|pidfile|logfile|syslog-.*|dbfilename|appendfilename|appenddirname)$'))])",message="the operator owns one of these directives"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, self[k].matches('[[:cntrl:]]'))",messageExpression="'the value has a control character: %s'.format([self.filter(k, self[k].matches('[[:cntrl:]]'))])",message="a value has a control character"
	// +kubebuilder:validation:XValidation:rule="self.all(k, self.exists_one(l, l.lowerAscii() == k.lowerAscii()))",messageExpression="'a directive is given twice, in different case: %s'.format([self.filter(k, !self.exists_one(l, l.lowerAscii() == k.lowerAscii()))])",message="a directive is given twice, in different case"
	Config map[string]ConfigValue `json:"config,omitempty"`

	// Storage asks for a volume claim for every node. Without it a node keeps its data for as long
	// as its Pod lives. It cannot be added or taken away later.
	// +optional
	Storage *Storage `json:"storage,omitempty"`

	// Resources are the requests and limits of every node's container. A change is rolled out as one of
	// the image is.
	// +optional
	Resources *ResourceRequirements `json:"resources,omitempty"`

	// Paused keeps the operator from changing anything of this cluster; its status goes on.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// Storage describes the volume claim of a node.
type Storage struct {
	// Size of the volume.
	// +required
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="storage size must be more than 0"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity(string(oldSelf))) >= 0",message="storage size cannot shrink"
	Size resource.Quantity `json:"size"`

	// Class is the name of the storage class; without it, the cluster's default. It cannot change.
	// +optional
	// +kubebuilder:default=""
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="storage class cannot change: create a new cluster"
	Class string `json:"class,omitempty"`
}

// ResourceRequirements has the form of a container's resources in Kubernetes.
type ResourceRequirements struct {
	// Requests are what the scheduler sets aside, by the resource's name.
	// +optional
	Requests map[string]resource.Quantity `json:"requests,omitempty"`
	// Limits are what a node may use at most, by the resource's name.
	// +optional
	Limits map[string]resource.Quantity `json:"limits,omitempty"`
}

// NodeState is what the operator last saw of one node.
type NodeState struct {
	// Name is the name of the node's Pod.
	Name string `json:"name"`
	// NodeGroup is the number of the node group that the node belongs to, counted from 0.
	NodeGroup int32 `json:"nodeGroup"`
	// Address is the node's address and port.
	// +optional
	Address string `json:"address,omitempty"`
	// Role is primary or replica; empty while it is not known.
	// +optional
	Role string `json:"role,omitempty"`
	// ID is the node's id in the Redis cluster.
	// +optional
	ID string `json:"id,omitempty"`
	// Slots are the ranges of slots that the node owns, such as 0-5460.
	// +optional
	Slots string `json:"slots,omitempty"`
	// Link is up or down for a replica; empty for a primary.
	// +optional
	Link string `json:"link,omitempty"`
	// Problem says why the node does not work, where it does not.
	// +optional
	Problem string `json:"problem,omitempty"`
}

// RedisClusterStatus is what the operator saw in its last pass.
type RedisClusterStatus struct {
	// Phase says in one word how the cluster is.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// ObservedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Formed is set once all slots were given out. From then on a change of size, replicasPerPrimary,
	// passwordSecret or storage is reported and not carried out.
	// +optional
	Formed bool `json:"formed,omitempty"`
	// Size is the number of primaries in force, which spec.size may differ from.
	// +optional
	Size int32 `json:"size,omitempty"`
	// Selector selects the Pods of the cluster, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`
	// Nodes are the names of the cluster's Pods.
	// +optional
	// +listType=set
	Nodes []string `json:"nodes,omitempty"`
	// NodeStates are details of the nodes, one for each name in nodes.
	// +optional
	// +listType=map
	// +listMapKey=name
	NodeStates []NodeState `json:"nodeStates,omitempty"`
	// ReadyNodes is the number of nodes that work: reachable, and linked where it is a replica.
	// +optional
	ReadyNodes int32 `json:"readyNodes"`
	// Ready is readyNodes of all nodes wanted, such as 5/6.
	// +optional
	Ready string `json:"ready,omitempty"`
	// SlotsAssigned is the number of slots that have an owner, 0 to 16384.
	// +optional
	SlotsAssigned int32 `json:"slotsAssigned"`
	// Shard is the operator's shard that the cluster's namespace belongs to.
	// +optional
	Shard *int32 `json:"shard,omitempty"`
	// Conditions are Ready, SlotsCovered, ReplicasLinked, ConfigValid and UpToDate.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// RedisCluster is one Redis Cluster: primaries that share the slots, and their replicas.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.size,statuspath=.status.size,selectorpath=.status.selector
// +kubebuilder:resource:shortName=rdc,categories=all
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.spec.size`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Slots",type=integer,JSONPath=`.status.slotsAssigned`
// +kubebuilder:printcolumn:name="Shard",type=integer,JSONPath=`.status.shard`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 40 && self.metadata.name.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$')",message="metadata.name must be at most 40 lower case letters, digits and hyphens, and start with a letter: Services and Pods are named after it"
type RedisCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the user wants.
	// +required
	Spec RedisClusterSpec `json:"spec"`
	// Status is what the operator saw in its last pass.
	// +optional
	Status RedisClusterStatus `json:"status,omitempty"`
}

// RedisClusterList is a list of RedisClusters.
// +kubebuilder:object:root=true
type RedisClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RedisCluster `json:"items"`
}

// Replicas returns the number of replicas of each primary, with the default filled in.
func (s *RedisClusterSpec) Replicas() int32 {
	if s.ReplicasPerPrimary == nil {
		return DefaultReplicasPerPrimary
	}
	return *s.ReplicasPerPrimary
}

// ClientPort returns the port for clients, with the default filled in.
func (s *RedisClusterSpec) ClientPort() int32 {
	if s.Port == 0 {
		return DefaultPort
	}
	return s.Port
}
