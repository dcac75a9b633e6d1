package rediscluster

import (
	"fmt"
	"strconv"
	"strings"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/controllers/rediscluster/resources"
	"example.com/redis-operator/controllers/topology"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// problem is something wrong that a condition tells of: a reason of api/v1 and a sentence.
type problem struct {
	pod, reason, message string
}

// buildPod is what Kubernetes says of a node.
func buildPod(pod *corev1.Pod, cluster *redisv1.RedisCluster, hasAOF bool) topology.Pod {
	out := topology.Pod{
		PodName: pod.Name,
		PodUID:  string(pod.UID),
		Group:   groupOf(pod),
		Ordinal: ordinalOf(pod.Name),
		Address: topology.Address{
			IP:      pod.Status.PodIP,
			Port:    int(cluster.Spec.ClientPort()),
			BusPort: int(cluster.Spec.ClientPort()) + redisv1.BusPortOffset,
		},
		Deleting: !pod.DeletionTimestamp.IsZero(),
		Storage:  cluster.Spec.Storage != nil,
		AOF:      hasAOF,
		Gate:     pod.Annotations[redisv1.AnnotationStartGate],
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			out.Ready = condition.Status == corev1.ConditionTrue
		}
	}
	if status := containerStatus(pod); status != nil {
		out.RestartCount = int(status.RestartCount)
		out.NeverStarted = status.RestartCount == 0 && status.State.Running == nil && status.State.Terminated == nil &&
			status.LastTerminationState.Terminated == nil
		if running := status.State.Running; running != nil {
			out.ContainerRunning, out.ContainerStartedAt = true, running.StartedAt.Time
		}
	}
	return out
}

// groupOf is the number of the node group that an object belongs to, -1 when its label is none of ours.
func groupOf(object client.Object) int {
	group, err := strconv.Atoi(object.GetLabels()[redisv1.LabelNodeGroup])
	if err != nil {
		return -1
	}
	return group
}

// ordinalOf is the ordinal at the end of the name of a StatefulSet's Pod.
func ordinalOf(pod string) int {
	ordinal, err := strconv.Atoi(pod[strings.LastIndexByte(pod, '-')+1:])
	if err != nil {
		return -1
	}
	return ordinal
}

// containerStatus is the status of the server's container, nil while there is none.
func containerStatus(pod *corev1.Pod) *corev1.ContainerStatus {
	if len(pod.Status.ContainerStatuses) == 0 {
		return nil
	}
	return &pod.Status.ContainerStatuses[0]
}

// computePodProblem says what is wrong with a Pod that only a person can mend, if anything is. The text
// stays the same for as long as the problem does.
func computePodProblem(pod *corev1.Pod) (problem, bool) {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse &&
			condition.Reason == corev1.PodReasonUnschedulable {
			return problem{pod.Name, redisv1.ReasonNotScheduled,
				fmt.Sprintf("Pod %s cannot be scheduled: %s", pod.Name, condition.Message)}, true
		}
	}
	status := containerStatus(pod)
	if status == nil || status.Ready {
		return problem{}, false
	}
	if waiting := status.State.Waiting; waiting != nil {
		if p, found := computeWaitingProblem(pod, waiting); found {
			return p, true
		}
	}
	return computeTerminatedProblem(pod, status)
}

// computeWaitingProblem tells of a container that cannot be created.
func computeWaitingProblem(pod *corev1.Pod, waiting *corev1.ContainerStateWaiting) (problem, bool) {
	switch waiting.Reason {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable":
		return problem{pod.Name, redisv1.ReasonImageNotPulled, fmt.Sprintf("image %s of Pod %s cannot be pulled on Node %s",
			pod.Spec.Containers[0].Image, pod.Name, pod.Spec.NodeName)}, true
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreStartHookError":
		return problem{pod.Name, redisv1.ReasonContainerFailing, fmt.Sprintf("container of Pod %s on Node %s cannot be started: %s",
			pod.Name, pod.Spec.NodeName, waiting.Message)}, true
	}
	return problem{}, false
}

// computeTerminatedProblem tells of a container that ends again and again. That the server rejected its
// configuration stands until the container is ready; anything else only while the container does not run,
// since one that was killed and is back is not failing.
func computeTerminatedProblem(pod *corev1.Pod, status *corev1.ContainerStatus) (problem, bool) {
	ended := status.State.Terminated
	if ended == nil {
		ended = status.LastTerminationState.Terminated
	}
	if ended == nil {
		return problem{}, false
	}
	reason := resources.TerminationReason(ended.Message)
	if ended.Reason != "" && ended.Reason != "Error" && !resources.IsRejection(ended.Message) {
		reason = ended.Reason // OOMKilled and its like say more than the server's last line
	}
	switch {
	case resources.IsRejection(ended.Message):
		return problem{pod.Name, redisv1.ReasonDirectiveRejected, fmt.Sprintf("Pod %s on Node %s: the server rejects its configuration: %s",
			pod.Name, pod.Spec.NodeName, reason)}, true
	case ended.ExitCode == 0 || status.State.Running != nil:
		return problem{}, false
	case reason == "":
		reason = ended.Reason
	}
	return problem{pod.Name, redisv1.ReasonContainerFailing, fmt.Sprintf("container of Pod %s on Node %s ended with exit code %d: %s",
		pod.Name, pod.Spec.NodeName, ended.ExitCode, reason)}, true
}

// isReplaceable reports whether a Pod of a cluster that has not formed is in the way of a corrected spec:
// it was made from an older template, or its server was started with other directives than are written
// down now, and it does not run.
func isReplaceable(pod *corev1.Pod, set *appsv1.StatefulSet, configHash string) bool {
	if !pod.DeletionTimestamp.IsZero() {
		return false
	}
	isCurrent := set.Status.ObservedGeneration == set.Generation && set.Status.UpdateRevision != ""
	if isCurrent && pod.Labels[appsv1.StatefulSetRevisionLabel] != set.Status.UpdateRevision {
		return true
	}
	status := containerStatus(pod)
	if status == nil || status.State.Running != nil {
		return false
	}
	ended := status.State.Terminated
	if ended == nil {
		ended = status.LastTerminationState.Terminated
	}
	if ended == nil {
		return false
	}
	startedWith := resources.TerminatedWith(ended.Message)
	return startedWith != "" && startedWith != configHash
}
