package rediscluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/controllers/redis/redistest"
)

// Images that the kubelet of the tests treats in their own way; any other runs the system's redis-server.
const (
	imageMissing       = "missing:1"
	imageUnschedulable = "unschedulable:1"
)

// kubelet plays the StatefulSet controller and the kubelet for one namespace: it makes the Pods of
// StatefulSets, runs the entry program of each as a process on a loopback address, and reports.
type kubelet struct {
	t         *testing.T
	namespace string
	dir       string

	mu   sync.Mutex // guards runs
	runs map[types.UID]*podRun
}

// podRun is one Pod's life on the test's machine.
type podRun struct {
	dir, ip  string
	cmd      *exec.Cmd
	output   *bytes.Buffer
	done     chan struct{}
	started  time.Time
	restarts int32
	last     *corev1.ContainerStateTerminated
}

// startKubelet runs a kubelet until the test ends, and then ends all of its processes.
func startKubelet(t *testing.T, namespace string) *kubelet {
	t.Helper()
	k := &kubelet{t: t, namespace: namespace, dir: t.TempDir(), runs: map[types.UID]*podRun{}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if err := k.sync(ctx); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
					t.Errorf("kubelet of the test: %v", err)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, run := range k.runs {
			run.kill()
		}
	})
	return k
}

func (k *kubelet) sync(ctx context.Context) error {
	var sets appsv1.StatefulSetList
	if err := suite.client.List(ctx, &sets, client.InNamespace(k.namespace)); err != nil {
		return err
	}
	for i := range sets.Items {
		if err := k.syncSet(ctx, &sets.Items[i]); err != nil {
			return err
		}
	}
	var pods corev1.PodList
	if err := suite.client.List(ctx, &pods, client.InNamespace(k.namespace)); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	seen := map[types.UID]bool{}
	for i := range pods.Items {
		seen[pods.Items[i].UID] = true
		if err := k.syncPod(ctx, &pods.Items[i]); err != nil {
			return err
		}
	}
	for uid, run := range k.runs {
		if !seen[uid] {
			run.kill()
			delete(k.runs, uid)
		}
	}
	return nil
}

// syncSet makes the Pods that a StatefulSet lacks, and reports its revision.
func (k *kubelet) syncSet(ctx context.Context, set *appsv1.StatefulSet) error {
	revision := revisionOf(set)
	if set.Status.UpdateRevision != revision || set.Status.ObservedGeneration != set.Generation {
		before := set.DeepCopy()
		set.Status.UpdateRevision, set.Status.ObservedGeneration = revision, set.Generation
		if err := suite.client.Status().Patch(ctx, set, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	for ordinal := range *set.Spec.Replicas {
		pod := &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy()}
		pod.Namespace, pod.Name = set.Namespace, set.Name+"-"+strconv.Itoa(int(ordinal))
		pod.Labels[appsv1.StatefulSetRevisionLabel] = revision
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
		if set.Spec.Template.Spec.Containers[0].Image != imageUnschedulable {
			pod.Spec.NodeName = "node-" + strconv.Itoa(int(ordinal))
		}
		for _, claim := range set.Spec.VolumeClaimTemplates {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim.Name})
		}
		if err := suite.client.Create(ctx, pod); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

func revisionOf(set *appsv1.StatefulSet) string {
	h := fnv.New32a()
	if err := json.NewEncoder(h).Encode(set.Spec.Template.Spec); err != nil {
		panic(err) // A template that came from the API server can be written as JSON.
	}
	return fmt.Sprintf("%s-%x", set.Name, h.Sum32())
}

// syncPod runs a Pod's container, and reports it.
func (k *kubelet) syncPod(ctx context.Context, pod *corev1.Pod) error {
	if !pod.DeletionTimestamp.IsZero() {
		if run := k.runs[pod.UID]; run != nil {
			run.kill()
			delete(k.runs, pod.UID)
		}
		return client.IgnoreNotFound(suite.client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID}))
	}
	before := pod.DeepCopy()
	switch pod.Spec.Containers[0].Image {
	case imageUnschedulable:
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes are available: 3 Insufficient memory."}}
	case imageMissing:
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "Back-off pulling image"}}}}
	default:
		if err := k.runPod(ctx, pod); err != nil {
			return err
		}
	}
	if equalStatus(before, pod) {
		return nil
	}
	return suite.client.Status().Patch(ctx, pod, client.MergeFrom(before))
}

// runPod starts, or starts again, the Pod's process, and puts what is known of it into the Pod's status.
func (k *kubelet) runPod(ctx context.Context, pod *corev1.Pod) error {
	run := k.runs[pod.UID]
	if run == nil {
		address, err := redistest.FreeAddress()
		if err != nil {
			return err
		}
		run = &podRun{dir: filepath.Join(k.dir, string(pod.UID)), ip: address.IP}
		k.runs[pod.UID] = run
	}
	if run.hasEnded() {
		run.restarts++
		run.last = &corev1.ContainerStateTerminated{
			ExitCode: int32(max(1, run.cmd.ProcessState.ExitCode())), Reason: "Error", Message: lastBytes(run.output.String(), 2048),
		}
		run.cmd = nil
	}
	if err := os.MkdirAll(filepath.Join(run.dir, "podinfo"), 0o755); err != nil {
		return err
	}
	gate := pod.Annotations[redisv1.AnnotationStartGate]
	if err := os.WriteFile(filepath.Join(run.dir, "podinfo", "start-gate"), []byte(gate), 0o600); err != nil {
		return err
	}
	if run.cmd == nil {
		if err := run.start(ctx, pod); err != nil {
			return err
		}
	}
	run.report(pod)
	return nil
}

// start runs the entry program with what the Pod's volumes would hold.
func (r *podRun) start(ctx context.Context, pod *corev1.Pod) error {
	var config corev1.ConfigMap
	key := client.ObjectKey{Namespace: pod.Namespace, Name: pod.Labels[redisv1.LabelCluster] + "-config"}
	if err := suite.client.Get(ctx, key, &config); err != nil {
		return err
	}
	for _, name := range []string{"data", "run"} {
		if err := os.MkdirAll(filepath.Join(r.dir, name), 0o755); err != nil {
			return err
		}
	}
	// On one host each node needs an address of its own to listen on.
	conf := config.Data["redis.conf"] + "bind " + r.ip + "\n"
	files := map[string]string{"redis.conf": conf, "entrypoint.sh": config.Data["entrypoint.sh"]}
	env := []string{"PATH=" + os.Getenv("PATH"), "POD_IP=" + r.ip,
		"DATA_DIR=" + filepath.Join(r.dir, "data"), "RUN_DIR=" + filepath.Join(r.dir, "run"),
		"CONFIG_FILE=" + filepath.Join(r.dir, "redis.conf"), "PASSWORD_FILE=" + filepath.Join(r.dir, "password"),
		"GATE_FILE=" + filepath.Join(r.dir, "podinfo", "start-gate")}
	for _, volume := range pod.Spec.Volumes {
		if volume.Secret == nil {
			continue
		}
		var secret corev1.Secret
		if err := suite.client.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: volume.Secret.SecretName}, &secret); err != nil {
			return err
		}
		files["password"] = string(secret.Data["password"])
		env = append(env, "PASSWORD_SECRET="+volume.Secret.SecretName)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	r.output, r.done = &bytes.Buffer{}, make(chan struct{})
	r.cmd = exec.Command("/bin/sh", filepath.Join(r.dir, "entrypoint.sh"))
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = env, r.output, r.output
	r.started = time.Now()
	if err := r.cmd.Start(); err != nil {
		return err
	}
	go func(cmd *exec.Cmd, done chan struct{}) {
		defer close(done)
		_ = cmd.Wait() // It ends by a signal more often than not.
	}(r.cmd, r.done)
	return nil
}

func (r *podRun) hasEnded() bool {
	if r.cmd == nil {
		return false
	}
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

func (r *podRun) kill() {
	if r.cmd != nil {
		_ = r.cmd.Process.Signal(syscall.SIGKILL)
		<-r.done
	}
}

// report fills in the status of a Pod whose process runs.
func (r *podRun) report(pod *corev1.Pod) {
	isReady := false
	port := strconv.Itoa(int(pod.Spec.Containers[0].Ports[0].ContainerPort))
	if conn, err := net.DialTimeout("tcp", net.JoinHostPort(r.ip, port), time.Second); err == nil {
		isReady = conn.Close() == nil
	}
	ready := corev1.ConditionFalse
	if isReady {
		ready = corev1.ConditionTrue
	}
	pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, r.ip
	pod.Status.PodIPs = []corev1.PodIP{{IP: r.ip}}
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: ready},
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: pod.Spec.Containers[0].Name, Ready: isReady, RestartCount: r.restarts, Started: ptr.To(true),
		State:                corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(r.started.Truncate(time.Second))}},
		LastTerminationState: corev1.ContainerState{Terminated: r.last},
	}}
}

// killContainer kills a Pod's process without a word, as the kernel does when memory runs out.
func (k *kubelet) killContainer(pod *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if run := k.runs[pod.UID]; run != nil {
		run.kill()
	}
}

// pause stops a Pod's process where it is: its sockets still take connections, and nobody answers.
func (k *kubelet) pause(pod *corev1.Pod) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	run := k.runs[pod.UID]
	if run == nil || run.cmd == nil {
		return fmt.Errorf("Pod %s has no process", pod.Name)
	}
	return run.cmd.Process.Signal(syscall.SIGSTOP)
}

func equalStatus(a, b *corev1.Pod) bool {
	// Conditions and container statuses are all that the kubelet of the tests writes.
	return fmt.Sprintf("%+v", a.Status.Conditions) == fmt.Sprintf("%+v", b.Status.Conditions) && a.Status.PodIP == b.Status.PodIP &&
		equalContainers(a.Status.ContainerStatuses, b.Status.ContainerStatuses)
}

func equalContainers(a, b []corev1.ContainerStatus) bool {
	if len(a) != len(b) || len(a) == 0 {
		return len(a) == len(b)
	}
	return a[0].Ready == b[0].Ready && a[0].RestartCount == b[0].RestartCount && (a[0].State.Running == nil) == (b[0].State.Running == nil)
}

func lastBytes(text string, n int) string {
	return text[max(0, len(text)-n):]
}
