package v1

// Names of the API group and of its kinds.
const (
	// Group is the API group of every kind of the operator.
	Group = "cache.example.com"
	// RedisClusterKind is the kind of a RedisCluster.
	RedisClusterKind = "RedisCluster"
)

// Operator is the field owner of everything that the operator applies, and the value of the label
// app.kubernetes.io/managed-by.
const Operator = "redis-operator"

// Labels of the objects that the operator creates.
const (
	// LabelShard holds the number of the operator's shard that an object's namespace belongs to.
	// It is on every object, Pod template and claim template: the API server's fence selects by it.
	LabelShard = Group + "/shard"
	// LabelCluster holds the name of the RedisCluster that an object belongs to.
	LabelCluster = Group + "/cluster"
	// LabelNodeGroup holds the number of the node group, counted from 0, that an object belongs to.
	LabelNodeGroup = Group + "/node-group"
	// LabelName, LabelInstance and LabelManagedBy are the common labels of Kubernetes.
	LabelName      = "app.kubernetes.io/name"
	LabelInstance  = "app.kubernetes.io/instance"
	LabelManagedBy = "app.kubernetes.io/managed-by"
)

// Annotations that the operator writes.
const (
	// AnnotationStartGate on a Pod tells the container's entry script how it may start although
	// it owned slots and had a replica. The entry script in controllers/rediscluster/resources
	// documents the values.
	AnnotationStartGate = Group + "/start-gate"
	// AnnotationApplied on an object that the operator applied holds a hash of what was applied:
	// it shows that a field was taken out, which a comparison with the live object cannot.
	AnnotationApplied = Group + "/applied"
	// AnnotationInForce on a StatefulSet holds, as JSON, the fields of the spec that it was made from:
	// whatever is changed by hand in the StatefulSet itself is put back to them.
	AnnotationInForce = Group + "/in-force"
	// AnnotationTemplate on a Pod, and on the template of its StatefulSet, holds a hash of what the spec
	// decides of a Pod. A Pod whose value differs from that of its StatefulSet is replaced; what another
	// version of the operator builds from the same spec makes no difference.
	AnnotationTemplate = Group + "/template"
)

// Keys of Secrets, ConfigMaps and container ports.
const (
	// SecretKeyPassword is the key of the password in the Secret that spec.passwordSecret names.
	SecretKeyPassword = "password"
	// PortNameRedis and PortNameBus name the ports of the container and of the Services.
	PortNameRedis = "redis"
	PortNameBus   = "bus"
	// BusPortOffset is the distance from the client port to the port of the cluster bus.
	BusPortOffset = 10000
)

// Condition types of a RedisCluster.
const (
	// ConditionReady: every node runs, all slots are covered in agreement, every replica is linked.
	ConditionReady = "Ready"
	// ConditionSlotsCovered: each of the 16,384 slots has exactly one owner, on which all agree.
	ConditionSlotsCovered = "SlotsCovered"
	// ConditionReplicasLinked: each node group has the replicas that it should have, in sync.
	ConditionReplicasLinked = "ReplicasLinked"
	// ConditionConfigValid: image, password, config and every other input could be put in force.
	ConditionConfigValid = "ConfigValid"
	// ConditionUpToDate: every node was made from the present spec.
	ConditionUpToDate = "UpToDate"
)

// Reasons of the conditions, and of the events that tell of the same thing.
const (
	ReasonReady      = "Ready"
	ReasonCreating   = "Creating"
	ReasonPaused     = "Paused"
	ReasonConverging = "Converging"

	ReasonUpToDate = "UpToDate"
	// ReasonRolling: nodes of an earlier spec are being replaced one by one, or the next waits for what the
	// message says. ReasonRollHeld: the next cannot be replaced without a loss.
	ReasonRolling  = "Rolling"
	ReasonRollHeld = "RollHeld"

	ReasonAllCovered   = "AllCovered"
	ReasonSlotsMissing = "SlotsMissing"
	ReasonNotAgreed    = "NotAgreed"

	ReasonAllLinked      = "AllLinked"
	ReasonNoReplicas     = "NoReplicasWanted"
	ReasonReplicaMissing = "ReplicaMissing"
	ReasonLinkDown       = "LinkDown"

	ReasonValid              = "Valid"
	ReasonImageNotPulled     = "ImageNotPulled"
	ReasonSecretMissing      = "SecretMissing"
	ReasonPasswordInvalid    = "PasswordInvalid"
	ReasonPasswordChanged    = "PasswordChanged"
	ReasonDirectiveRejected  = "DirectiveRejected"
	ReasonChangeNotSupported = "ChangeNotSupported"
	ReasonNameTaken          = "NameTaken"
	ReasonContainerFailing   = "ContainerFailing"
	ReasonNotScheduled       = "PodNotScheduled"
	ReasonObjectRejected     = "ObjectRejected"

	// Reasons of what the planner finds and cannot mend; they are the planner's own words.
	ReasonSlotsLost   = "SlotsLost"
	ReasonForeignNode = "ForeignNode"
	ReasonStrayKeys   = "StrayKeys"
	ReasonNoElection  = "NoElection"
	ReasonOpenSlots   = "OpenSlots"
	ReasonSizeChange  = "SizeChange"
	ReasonSplitGroup  = "SplitGroup"

	ReasonNodeUnreachable = "NodeUnreachable"
	ReasonWaitingAtGate   = "WaitingAtStartGate"
)

// Reasons of events that are no condition's reason.
const (
	EventFormed       = "Formed"
	EventPhaseChanged = "PhaseChanged"
	EventPromoted     = "Promoted"
	EventStepDone     = "StepDone"
	EventConfigSet    = "ConfigSet"
	EventPodReplaced  = "PodReplaced"
)
