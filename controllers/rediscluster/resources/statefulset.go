package resources

import (
	redisv1 "example.com/redis-operator/api/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// Where things are in a node's container. entrypoint.sh has the same paths as defaults.
const (
	containerName = "redis"
	volumeData    = "data"
	volumeRun     = "run"
	volumeConfig  = "config"
	volumePodInfo = "podinfo"
	volumeSecret  = "password"
	dataDir       = "/data"
	runDir        = "/run/redis"
	configDir     = "/etc/redis"
	podInfoDir    = "/etc/podinfo"
	secretDir     = "/etc/redis-password"
	gateFile      = "start-gate"
)

const (
	// redisUser is the user and group that the official images of Redis and Valkey run as.
	redisUser = 999
	// gracePeriodSeconds leaves the server time to wait 10 s for its replicas and to save its data.
	gracePeriodSeconds = 30
	// zoneLabel and hostLabel are the topologies that the nodes of a cluster are spread over.
	zoneLabel = corev1.LabelTopologyZone
	hostLabel = corev1.LabelHostname
)

// StatefulSet is one node group: a primary and its replicas, whichever of them is which. Pods start
// together, and none is restarted unless the operator deletes it.
func StatefulSet(in Input, group int32) *appsv1.StatefulSet {
	name := StatefulSetName(in.Cluster.Name, group)
	set := &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: in.meta(name, in.groupLabels(group)),
		Spec: appsv1.StatefulSetSpec{
			Replicas:            ptr.To(1 + in.Cluster.Spec.Replicas()),
			ServiceName:         HeadlessServiceName(in.Cluster.Name),
			PodManagementPolicy: appsv1.ParallelPodManagement,
			UpdateStrategy:      appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			Selector:            &metav1.LabelSelector{MatchLabels: groupSelector(in.Cluster.Name, group)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels:      in.groupLabels(group),
					Annotations: map[string]string{redisv1.AnnotationTemplate: TemplateHash(&in.Cluster.Spec)},
				},
				Spec: in.podSpec(group),
			},
		},
	}
	set.Annotations = map[string]string{redisv1.AnnotationInForce: renderInForce(in.Cluster)}
	if in.Cluster.Spec.Storage != nil {
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{in.claim(group)}
	}
	return set
}

// claim is the template of a node's volume claim. Claims outlive the StatefulSet: data is never
// deleted by the operator.
func (in Input) claim(group int32) corev1.PersistentVolumeClaim {
	storage := in.Cluster.Spec.Storage
	// Without apiVersion and kind: the API server does not give them back in a template.
	claim := corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: volumeData, Labels: in.groupLabels(group)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: storage.Size},
			},
		},
	}
	if storage.Class != "" {
		claim.Spec.StorageClassName = ptr.To(storage.Class)
	}
	return claim
}

func (in Input) podSpec(group int32) corev1.PodSpec {
	return corev1.PodSpec{
		AutomountServiceAccountToken:  ptr.To(false),
		EnableServiceLinks:            ptr.To(false),
		TerminationGracePeriodSeconds: ptr.To[int64](gracePeriodSeconds),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:        ptr.To(true),
			RunAsUser:           ptr.To[int64](redisUser),
			RunAsGroup:          ptr.To[int64](redisUser),
			FSGroup:             ptr.To[int64](redisUser),
			FSGroupChangePolicy: ptr.To(corev1.FSGroupChangeOnRootMismatch),
			SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		TopologySpreadConstraints: in.spread(group),
		Containers:                []corev1.Container{in.container()},
		Volumes:                   in.volumes(),
	}
}

// spread keeps the nodes of one group on different Nodes as far as there are Nodes: a hard rule that a
// cluster of a single Node satisfies as well, and that leaves out Nodes which are tainted. Zones, and
// an even share of the whole cluster on each Node, are wished for only.
func (in Input) spread(group int32) []corev1.TopologySpreadConstraint {
	ofGroup := &metav1.LabelSelector{MatchLabels: groupSelector(in.Cluster.Name, group)}
	ofCluster := &metav1.LabelSelector{MatchLabels: Selector(in.Cluster.Name)}
	constraint := func(key string, when corev1.UnsatisfiableConstraintAction, of *metav1.LabelSelector) corev1.TopologySpreadConstraint {
		return corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: when, LabelSelector: of,
			NodeTaintsPolicy: ptr.To(corev1.NodeInclusionPolicyHonor),
		}
	}
	return []corev1.TopologySpreadConstraint{
		constraint(hostLabel, corev1.DoNotSchedule, ofGroup),
		constraint(zoneLabel, corev1.ScheduleAnyway, ofGroup),
		constraint(hostLabel, corev1.ScheduleAnyway, ofCluster),
	}
}

// container runs the server behind the entry program. There is no liveness probe on purpose: a node
// that waits at its start gate does not listen, one that loads or is busy must not be killed, and a
// server that has ended ends its container. What hangs is replaced by election.
func (in Input) container() corev1.Container {
	port := in.Cluster.Spec.ClientPort()
	container := corev1.Container{
		Name:    containerName,
		Image:   in.Cluster.Spec.Image,
		Command: []string{"/bin/sh", configDir + "/" + keyEntrypoint},
		Env:     []corev1.EnvVar{podField("POD_IP", "status.podIP"), podField("POD_UID", "metadata.uid")},
		Ports: []corev1.ContainerPort{
			{Name: redisv1.PortNameRedis, ContainerPort: port, Protocol: corev1.ProtocolTCP},
			{Name: redisv1.PortNameBus, ContainerPort: port + redisv1.BusPortOffset, Protocol: corev1.ProtocolTCP},
		},
		ReadinessProbe: &corev1.Probe{
			ProbeHandler:     corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString(redisv1.PortNameRedis)}},
			PeriodSeconds:    1,
			TimeoutSeconds:   1,
			FailureThreshold: 2,
		},
		Resources: resourceRequirements(in.Cluster.Spec.Resources),
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false),
			ReadOnlyRootFilesystem:   ptr.To(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		// The server's last words are the message of its end: a directive that it rejects, say.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		VolumeMounts: []corev1.VolumeMount{
			{Name: volumeData, MountPath: dataDir},
			{Name: volumeRun, MountPath: runDir},
			{Name: volumeConfig, MountPath: configDir, ReadOnly: true},
			{Name: volumePodInfo, MountPath: podInfoDir, ReadOnly: true},
		},
	}
	if secret := in.Cluster.Spec.PasswordSecret; secret != "" {
		container.Env = append(container.Env, corev1.EnvVar{Name: "PASSWORD_SECRET", Value: secret})
		container.VolumeMounts = append(container.VolumeMounts,
			corev1.VolumeMount{Name: volumeSecret, MountPath: secretDir, ReadOnly: true})
	}
	return container
}

// podField is an environment variable with a field of the Pod.
func podField(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
}

func (in Input) volumes() []corev1.Volume {
	volumes := []corev1.Volume{
		{Name: volumeRun, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
			Medium: corev1.StorageMediumMemory, SizeLimit: ptr.To(resource.MustParse("1Mi")),
		}}},
		{Name: volumeConfig, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: ConfigMapName(in.Cluster.Name)},
		}}},
		{Name: volumePodInfo, VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
			Items: []corev1.DownwardAPIVolumeFile{{
				Path:     gateFile,
				FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + redisv1.AnnotationStartGate + "']"},
			}},
		}}},
	}
	if in.Cluster.Spec.Storage == nil {
		volumes = append(volumes, corev1.Volume{Name: volumeData,
			VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
	if secret := in.Cluster.Spec.PasswordSecret; secret != "" {
		volumes = append(volumes, corev1.Volume{Name: volumeSecret, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{
				SecretName:  secret,
				DefaultMode: ptr.To[int32](0o440),
				Items:       []corev1.KeyToPath{{Key: redisv1.SecretKeyPassword, Path: redisv1.SecretKeyPassword}},
			},
		}})
	}
	return volumes
}

func resourceRequirements(wanted *redisv1.ResourceRequirements) corev1.ResourceRequirements {
	if wanted == nil {
		return corev1.ResourceRequirements{}
	}
	return corev1.ResourceRequirements{Requests: resourceList(wanted.Requests), Limits: resourceList(wanted.Limits)}
}

func resourceList(wanted map[string]resource.Quantity) corev1.ResourceList {
	if len(wanted) == 0 {
		return nil
	}
	list := corev1.ResourceList{}
	for name, quantity := range wanted {
		list[corev1.ResourceName(name)] = quantity
	}
	return list
}
