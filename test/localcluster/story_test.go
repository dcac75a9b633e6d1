package localcluster_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// killPod kills all processes of one Pod, and then one container of another.
func (s *story) killPod(t *testing.T) {
	for name, kill := range map[string]func() error{
		"redis-1": func() error { return s.cluster.KillPod(t.Context(), "default", "redis-1") },
		"redis-2": func() error { return s.cluster.KillContainer(t.Context(), "default", "redis-2", "redis") },
	} {
		old := s.pod(t.Context(), name)
		if err := kill(); err != nil {
			t.Fatal(err)
		}
		s.eventually(t, "a restarted container in "+name, func(ctx context.Context) error {
			pod := s.pod(ctx, name)
			restarts := pod.Status.ContainerStatuses[0].RestartCount
			if pod.UID != old.UID || pod.Status.PodIP != old.Status.PodIP || restarts != 1 || !isReady(pod) {
				return fmt.Errorf("UID %s, address %s, %d restarts, ready %t", pod.UID, pod.Status.PodIP, restarts, isReady(pod))
			}
			return nil
		})
		last := s.pod(t.Context(), name).Status.ContainerStatuses[0].LastTerminationState.Terminated
		if last == nil || last.ExitCode != 137 {
			t.Errorf("%s ended as %+v, want by SIGKILL", name, last)
		}
	}
	if err := s.cluster.KillContainer(t.Context(), "default", "redis-2", "nothing"); err == nil {
		t.Error("a container that the Pod does not have was killed")
	}
}

func (s *story) pausePod(t *testing.T) {
	pod := s.pod(t.Context(), "redis-3")
	if err := s.cluster.PausePod(t.Context(), "default", "redis-3"); err != nil {
		t.Fatal(err)
	}
	if err := s.ping(t.Context(), pod.Status.PodIP); err == nil {
		t.Error("a paused Redis answers")
	}
	if err := s.cluster.ResumePod(t.Context(), "default", "redis-3"); err != nil {
		t.Fatal(err)
	}
	s.eventually(t, "an answer after the pause", func(ctx context.Context) error { return s.ping(ctx, pod.Status.PodIP) })
	if restarts := s.pod(t.Context(), "redis-3").Status.ContainerStatuses[0].RestartCount; restarts != 0 {
		t.Errorf("%d restarts by a pause", restarts)
	}
}

func (s *story) cutPod(t *testing.T) {
	pod := s.pod(t.Context(), "redis-4")
	if err := s.cluster.CutPod(t.Context(), "default", "redis-4"); err != nil {
		t.Fatal(err)
	}
	if err := s.ping(t.Context(), pod.Status.PodIP); err == nil {
		t.Error("a cut Pod answers the control plane")
	}
	for _, from := range s.onEveryNode(t, "redis") {
		if from.Name == pod.Name {
			continue
		}
		said, err := s.kubectl(t.Context(), "exec", from.Name, "--", "timeout", "1", "redis-cli", "-h", pod.Status.PodIP, "ping")
		if err == nil {
			t.Errorf("a cut Pod on %s answers %s: %s", pod.Spec.NodeName, from.Spec.NodeName, said)
		}
	}
	if said, err := s.kubectl(t.Context(), "exec", "redis-4", "--", "redis-cli", "ping"); err != nil || said != "PONG" {
		t.Errorf("a cut Pod does not reach itself: %v: %s", err, said)
	}
	for range 2 { // the second does nothing
		if err := s.cluster.ReconnectPod(t.Context(), "default", "redis-4"); err != nil {
			t.Fatal(err)
		}
	}
	s.eventually(t, "an answer after the cut", func(ctx context.Context) error { return s.ping(ctx, pod.Status.PodIP) })
}

func (s *story) cutNode(t *testing.T) {
	if err := s.cluster.CutNode(t.Context(), "node-2"); err != nil {
		t.Fatal(err)
	}
	for _, pod := range s.onEveryNode(t, "redis") {
		s.pingUnless(t, &pod, "node-2")
	}
	if err := s.cluster.ReconnectNode(t.Context(), "node-2"); err != nil {
		t.Fatal(err)
	}
	for _, pod := range s.onEveryNode(t, "redis") {
		s.eventually(t, "an answer of "+pod.Name+" after the cut", func(ctx context.Context) error { return s.ping(ctx, pod.Status.PodIP) })
	}
}

// loseNode kills a Node and starts it again before Kubernetes gives its Pods up: they come back.
func (s *story) loseNode(t *testing.T) {
	uids := map[string]string{}
	for _, pod := range s.pods(t, "redis") {
		if pod.Spec.NodeName == "node-3" {
			uids[pod.Name] = string(pod.UID)
		}
	}
	if err := s.cluster.LoseNode(t.Context(), "node-3"); err != nil {
		t.Fatal(err)
	}
	for _, pod := range s.pods(t, "redis") {
		s.pingUnless(t, &pod, "node-3")
	}
	if err := s.cluster.CutNode(t.Context(), "node-3"); err == nil {
		t.Error("a lost Node was cut off")
	}
	if err := s.cluster.RestoreNode(t.Context(), "node-3"); err != nil {
		t.Fatal(err)
	}
	s.eventually(t, "the Pods of the restored Node", func(ctx context.Context) error {
		for _, pod := range s.pods(t, "redis") {
			uid, was := uids[pod.Name]
			if !was {
				continue
			}
			if string(pod.UID) != uid || !isReady(&pod) || pod.Status.ContainerStatuses[0].RestartCount == 0 {
				return fmt.Errorf("%s: UID %s, was %s; ready %t", pod.Name, pod.UID, uid, isReady(&pod))
			}
			if err := s.ping(ctx, pod.Status.PodIP); err != nil {
				return fmt.Errorf("%s: %w", pod.Name, err)
			}
		}
		return nil
	})
}

// pingUnless wants an answer from a Pod, and none from one on the Node that is away.
func (s *story) pingUnless(t *testing.T, pod *corev1.Pod, away string) {
	t.Helper()
	if pod.Spec.NodeName != away {
		s.eventually(t, pod.Name+" with "+away+" away", func(ctx context.Context) error { return s.ping(ctx, pod.Status.PodIP) })
	} else if err := s.ping(t.Context(), pod.Status.PodIP); err == nil {
		t.Errorf("%s answers with %s away", pod.Name, away)
	}
}

func (s *story) create(t *testing.T, set *appsv1.StatefulSet) {
	t.Helper()
	if _, err := s.client.AppsV1().StatefulSets("default").Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (s *story) waitReady(t *testing.T, name string, want int32) {
	t.Helper()
	s.eventually(t, "the Pods of "+name, func(ctx context.Context) error {
		set, err := s.client.AppsV1().StatefulSets("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil || set.Status.ReadyReplicas != want {
			return fmt.Errorf("%d of %d ready: %w", set.Status.ReadyReplicas, want, err)
		}
		return nil
	})
}

func (s *story) pods(t *testing.T, app string) []corev1.Pod {
	t.Helper()
	pods, err := s.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// onEveryNode is one Pod of each Node.
func (s *story) onEveryNode(t *testing.T, app string) map[string]corev1.Pod {
	t.Helper()
	found := map[string]corev1.Pod{}
	for _, pod := range s.pods(t, app) {
		found[pod.Spec.NodeName] = pod
	}
	return found
}

// pod reads one Pod; while there is none, it is an empty one.
func (s *story) pod(ctx context.Context, name string) *corev1.Pod {
	pod, err := s.client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{}}}}
	}
	return pod
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil
		}
	}
	return false
}

// kubectl runs the one that was built with the cluster.
func (s *story) kubectl(ctx context.Context, args ...string) (string, error) {
	path, err := filepath.Abs(filepath.Join("..", "..", "bin", "k8s", "kubectl"))
	if err != nil {
		return "", err
	}
	said, err := exec.CommandContext(ctx, path, append([]string{"--kubeconfig", s.cluster.Kubeconfig()}, args...)...).CombinedOutput()
	return strings.TrimSpace(string(said)), err
}

// eventually asks again until there is no error, for two minutes at most: the host may be busy.
func (s *story) eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil || last == nil { // at the end of time every check fails, and says nothing new
			last = err
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v", what, last)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
