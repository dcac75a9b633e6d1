package localcluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/redis-operator/test/localcluster"
	"example.com/redis-operator/test/localcluster/images"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
)

// story is a running cluster and what the steps need of it.
type story struct {
	cluster *localcluster.Cluster
	client  kubernetes.Interface
}

// TestLocalCluster starts one cluster as a library and one by the command, side by side, breaks
// everything that can be broken once, and looks for what is left at the end.
func TestLocalCluster(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a local cluster takes root")
	}
	before := observeHost(t)
	command := buildCommand(t)
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	var side sync.WaitGroup
	side.Go(func() { runByHand(t, command, other) })
	cluster, err := localcluster.Start(t.Context(), localcluster.Options{
		Name: "lctest", Dir: filepath.Join(dir, "c"), Log: func(line string) { t.Log(line) },
	})
	side.Wait()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	client, err := kubernetes.NewForConfig(cluster.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	s := &story{cluster, client}
	t.Run("TwelvePods", s.twelvePods)
	if t.Failed() {
		t.FailNow()
	}
	// One after the other: each needs the cluster as the one before has left it.
	t.Run("NetworkReachesPodsAndServices", s.network)
	t.Run("MissingImage", s.missingImage)
	t.Run("DeletedPodIsReplaced", s.deletePod)
	t.Run("KillPod", s.killPod)
	t.Run("PausePod", s.pausePod)
	t.Run("CutPod", s.cutPod)
	t.Run("CutNode", s.cutNode)
	t.Run("ClaimOutlivesItsPod", s.claim)
	t.Run("LoseNode", s.loseNode)
	t.Run("RestartControlPlane", s.restartControlPlane)
	t.Run("SideBySide", func(t *testing.T) { s.sideBySide(t, command, other) })

	namespaces := namespacesOf(t, "lctest", cluster.Dir())
	if len(namespaces) < 3*4+3*12 {
		t.Errorf("%d namespaces noted of a cluster with twelve Pods", len(namespaces))
	}
	if err := cluster.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	checkNothingLeft(t, "lctest", cluster.Dir(), namespaces)
	observeHost(t).sameAs(t, before)
}

func buildCommand(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "localcluster")
	if said, err := exec.Command("go", "build", "-o", path, "example.com/redis-operator/test/cmd/localcluster").CombinedOutput(); err != nil {
		t.Fatalf("building the command: %v: %s", err, said)
	}
	return path
}

// byHand runs the command for a cluster of one Node.
func byHand(command, dir, verb string, args ...string) (string, error) {
	said, err := exec.Command(command, append([]string{verb, "-name", "lcother", "-dir", dir, "-nodes", "1"}, args...)...).CombinedOutput()
	return string(said), err
}

// runByHand brings the other cluster up. It may run beside the test's goroutine.
func runByHand(t *testing.T, command, dir string) {
	t.Cleanup(func() {
		if said, err := byHand(command, dir, "down"); err != nil {
			t.Errorf("down: %v: %s", err, said)
		}
	})
	// An earlier run that was killed has left its cluster running, in a folder nobody knows any more.
	if said, err := byHand(command, "", "down"); err != nil {
		t.Errorf("down by name: %v: %s", err, said)
	}
	said, err := byHand(command, dir, "up")
	if err != nil || !strings.Contains(said, "export KUBECONFIG="+dir+"/kubeconfig\n") {
		t.Errorf("up: %v: %s", err, said)
	}
}

// newRedis is a StatefulSet of plain Redis servers that start and end at once.
func newRedis(name string, replicas int32) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	user, grace := int64(999), int64(1)
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: name, PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: &grace,
					SecurityContext:               &corev1.PodSecurityContext{RunAsUser: &user, FSGroup: &user},
					Containers: []corev1.Container{{
						Name: "redis", Image: images.RedisRef,
						Command: []string{"redis-server", "--appendonly", "yes", "--dir", "/data", "--protected-mode", "no"},
						ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
							TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(6379)},
						}},
					}},
				},
			},
		},
	}
}

func (s *story) twelvePods(t *testing.T) {
	image, err := images.Redis()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cluster.ImportImage(t.Context(), image, images.RedisRef); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	s.create(t, newRedis("redis", 12))
	s.waitReady(t, "redis", 12)
	t.Logf("12 Pods ready after %.1f s", time.Since(begun).Seconds())
	perNode := map[string]int{}
	for _, pod := range s.pods(t, "redis") {
		perNode[pod.Spec.NodeName]++
	}
	for _, name := range s.cluster.Nodes() {
		node, err := s.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"node-1": "zone-a", "node-2": "zone-b", "node-3": "zone-c"}[name]
		if zone := node.Labels[corev1.LabelTopologyZone]; zone != want || perNode[name] == 0 {
			t.Errorf("%s is in zone %q and has %d Pods, want zone %q and some", name, zone, perNode[name], want)
		}
	}
}

func (s *story) network(t *testing.T) {
	_, err := s.client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "redis"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "redis"}, Ports: []corev1.ServicePort{{Port: 6379}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range s.pods(t, "redis") {
		s.eventually(t, pod.Name+" on "+pod.Spec.NodeName, func(ctx context.Context) error { return s.ping(ctx, pod.Status.PodIP) })
	}
	service, err := s.client.CoreV1().Services("default").Get(t.Context(), "redis", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.eventually(t, "the Service from the control plane", func(ctx context.Context) error { return s.ping(ctx, service.Spec.ClusterIP) })
	script := "for i in 1 2 3 4 5 6; do timeout 2 redis-cli -h " + service.Spec.ClusterIP + " ping || exit 1; done"
	// From a Pod on every Node: to the Service, and so to Pods of its own and of other Nodes.
	for _, pod := range s.onEveryNode(t, "redis") {
		s.eventually(t, "the Service from "+pod.Spec.NodeName, func(ctx context.Context) error {
			said, err := s.kubectl(ctx, "exec", pod.Name, "--", "sh", "-c", script)
			if err != nil {
				return fmt.Errorf("%w: %s", err, said)
			}
			return nil
		})
	}
	if said, err := s.kubectl(t.Context(), "logs", "redis-0"); err != nil || !strings.Contains(said, "Ready to accept connections") {
		t.Errorf("logs: %v: %s", err, said)
	}
	if _, err := s.cluster.Dial(t.Context(), "tcp", "example.com:80"); err == nil {
		t.Error("a name was looked up")
	}
}

// An image that was not imported fails at once: there is no way out.
func (s *story) missingImage(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "missing"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nowhere.example.com/missing:1"}}},
	}
	if _, err := s.client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.eventually(t, "the failure to pull", func(ctx context.Context) error {
		pod := s.pod(ctx, "missing")
		for _, status := range pod.Status.ContainerStatuses {
			waiting := status.State.Waiting
			if waiting != nil && (waiting.Reason == "ErrImagePull" || waiting.Reason == "ImagePullBackOff") {
				return nil
			}
		}
		return fmt.Errorf("status %+v", pod.Status.ContainerStatuses)
	})
	if err := s.client.CoreV1().Pods("default").Delete(t.Context(), "missing", *metav1.NewDeleteOptions(0)); err != nil {
		t.Error(err)
	}
}

func (s *story) deletePod(t *testing.T) {
	old := s.pod(t.Context(), "redis-0")
	if err := s.client.CoreV1().Pods("default").Delete(t.Context(), "redis-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.eventually(t, "another redis-0", func(ctx context.Context) error {
		if pod := s.pod(ctx, "redis-0"); pod.UID == old.UID || !isReady(pod) {
			return fmt.Errorf("UID %s, ready %t", pod.UID, isReady(pod))
		}
		return nil
	})
}

// claim writes to a volume, loses the Pod, reads, and sees the volume go with its claim.
func (s *story) claim(t *testing.T) {
	set := newRedis("kept", 1)
	set.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}}
	s.create(t, set)
	s.waitReady(t, "kept", 1)
	if said, err := s.kubectl(t.Context(), "exec", "kept-0", "--", "redis-cli", "set", "key", "value"); err != nil || said != "OK" {
		t.Fatalf("set: %v: %s", err, said)
	}
	old := s.pod(t.Context(), "kept-0")
	if err := s.client.CoreV1().Pods("default").Delete(t.Context(), "kept-0", *metav1.NewDeleteOptions(0)); err != nil {
		t.Fatal(err)
	}
	s.eventually(t, "the key in another Pod", func(ctx context.Context) error {
		said, err := s.kubectl(ctx, "exec", "kept-0", "--", "redis-cli", "get", "key")
		if pod := s.pod(ctx, "kept-0"); err != nil || said != "value" || pod.UID == old.UID {
			return fmt.Errorf("UID %s: %w: %s", pod.UID, err, said)
		}
		return nil
	})
	folders := func() int {
		found, _ := filepath.Glob(filepath.Join(s.cluster.Dir(), "nodes", "*", "var", "lib", "volumes", "*"))
		return len(found)
	}
	if folders() != 1 {
		t.Errorf("%d folders for one claim", folders())
	}
	if said, err := s.kubectl(t.Context(), "delete", "statefulset/kept", "pvc/data-kept-0", "--wait=false"); err != nil {
		t.Fatalf("delete: %v: %s", err, said)
	}
	s.eventually(t, "the end of volume and folder", func(ctx context.Context) error {
		volumes, err := s.client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
		if err != nil || len(volumes.Items) > 0 || folders() > 0 {
			return fmt.Errorf("%d volumes, %d folders: %w", len(volumes.Items), folders(), err)
		}
		return nil
	})
}

func (s *story) restartControlPlane(t *testing.T) {
	for name, restart := range map[string]func(context.Context) error{
		"API server": s.cluster.RestartAPIServer, "etcd": s.cluster.RestartEtcd,
	} {
		if err := restart(t.Context()); err != nil {
			t.Fatalf("restarting %s: %v", name, err)
		}
		s.waitReady(t, "redis", 12)
	}
	if err := s.cluster.StopAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := s.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); err == nil {
		t.Error("a stopped API server answers")
	}
	if err := s.cluster.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(s.cluster.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	levels := map[string]bool{}
	for line := range bytes.Lines(log) {
		for _, kind := range []string{"leases", "statefulsets"} {
			for _, level := range []string{"Metadata", "RequestResponse"} {
				if bytes.Contains(line, []byte(`"resource":"`+kind+`"`)) && bytes.Contains(line, []byte(`"level":"`+level+`"`)) {
					levels[kind+" "+level] = true
				}
			}
		}
	}
	if !levels["leases RequestResponse"] || !levels["statefulsets Metadata"] || len(levels) != 2 {
		t.Errorf("the audit log has %v, want all of leases and the metadata of StatefulSets", levels)
	}
}

// sideBySide looks at the other cluster, kills the process that supervises it, and cleans up by name.
func (s *story) sideBySide(t *testing.T, command, dir string) {
	said, err := byHand(command, dir, "status")
	if err != nil || !strings.Contains(said, "1 of 1 Nodes Ready") {
		t.Fatalf("status: %v: %s", err, said)
	}
	if said, err := byHand(command, dir, "up"); err != nil || !strings.Contains(said, "runs already") {
		t.Errorf("a second up: %v: %s", err, said)
	}
	other, err := localcluster.Attach(dir)
	if err != nil {
		t.Fatal(err)
	}
	if ready, err := other.ReadyNodes(t.Context()); err != nil || ready != 1 {
		t.Errorf("%d Nodes ready: %v", ready, err)
	}
	if other.RESTConfig().Host == s.cluster.RESTConfig().Host {
		t.Errorf("both clusters are at %s", other.RESTConfig().Host)
	}
	if err := other.LoseNode(t.Context(), "node-2"); err == nil || !strings.Contains(err.Error(), "no Node is called") {
		t.Errorf("losing a Node that is only in the first cluster: %v", err)
	}
	if err := errors.Join(other.LoseNode(t.Context(), "node-1"), other.RestoreNode(t.Context(), "node-1")); err != nil {
		t.Errorf("a fault on an attached cluster: %v", err)
	}
	namespaces := namespacesOf(t, "lcother", dir)
	supervisor, err := os.FindProcess(other.Supervisor())
	if err != nil {
		t.Fatal(err)
	}
	if err := supervisor.Kill(); err != nil {
		t.Fatal(err)
	}
	s.eventually(t, "the end of everything without its supervisor", func(context.Context) error {
		if left := processesOf(t, "lcother", dir, namespaces); len(left) > 0 {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
	if said, err := byHand(command, dir, "down"); err != nil {
		t.Errorf("down: %v: %s", err, said)
	}
	checkNothingLeft(t, "lcother", dir, namespaces)
	if said, err := byHand(command, dir, "status"); err == nil || !strings.Contains(said, "no cluster runs in") {
		t.Errorf("status of nothing: %v: %s", err, said)
	}
	s.waitReady(t, "redis", 12)
}

// ping asks a Redis server for a PONG, from outside the cluster, within half a second.
func (s *story) ping(ctx context.Context, ip string) error {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	conn, err := s.cluster.Dial(ctx, "tcp", net.JoinHostPort(ip, "6379"))
	if err != nil {
		return err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	answer := make([]byte, 16)
	n, err := conn.Read(answer)
	if err == nil && string(answer[:n]) != "+PONG\r\n" {
		err = fmt.Errorf("answered %q", answer[:n])
	}
	return err
}
