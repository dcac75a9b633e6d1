package sharding

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"example.com/redis-operator/sharding"
)

// bound is how long a test waits for anything.
const bound = 40 * time.Second

var installations atomic.Int32

// installation is one operator: its namespace, its StatefulSet, and the replicas that run in this
// process. There is no StatefulSet controller and no kubelet here; the tests make the Pods.
type installation struct {
	t         *testing.T
	api       *kubernetes.Clientset
	name      string
	namespace string
	recorder  *recorder
	options   sharding.Options // of every replica that is started from now on
	replicas  []*replica
	tenants   []string
}

func newInstallation(t *testing.T, shards int) *installation {
	t.Helper()
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("op%d", installations.Add(1))
	i := &installation{t: t, api: api, name: name, namespace: name + "-system", recorder: newRecorder()}
	i.options = sharding.Options{
		Installation: name, Namespace: i.namespace, StatefulSet: name, Shards: shards,
		RootKinds:     rootKinds,
		LeaseDuration: 5 * time.Second, RenewDeadline: 3500 * time.Millisecond, RetryPeriod: 500 * time.Millisecond,
		HandoverBound: 8 * time.Second, ManagerGrace: 14 * time.Second, PodGrace: 20 * time.Second,
		DrainBound: 2 * time.Second,
	}
	i.createNamespace(i.namespace)
	_, err = api.AppsV1().StatefulSets(i.namespace).Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}}, Spec: podSpec()},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.close)
	return i
}

func podSpec() corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "manager"}}}
}

// close ends what still runs and reports what the recorder saw.
func (i *installation) close() {
	for _, r := range i.replicas {
		r.kill()
	}
	for _, problem := range i.recorder.problems {
		i.t.Error("I1: ", problem)
	}
	// The replicas of other tests cache these namespaces too.
	for _, namespace := range i.tenants {
		err := i.api.CoreV1().ConfigMaps(namespace).DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{})
		if err != nil {
			i.t.Errorf("emptying %s: %v", namespace, err)
		}
	}
}

func (i *installation) createNamespace(name string) {
	i.t.Helper()
	i.tenants = append(i.tenants, name)
	_, err := i.api.CoreV1().Namespaces().Create(i.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		i.t.Fatal(err)
	}
}

// fill creates namespaces with one root object each.
func (i *installation) fill(count int) []string {
	i.t.Helper()
	var namespaces []string
	for n := range count {
		namespace := fmt.Sprintf("%s-tenant-%d", i.name, n)
		i.createNamespace(namespace)
		i.createRoot(namespace, "root")
		namespaces = append(namespaces, namespace)
	}
	return namespaces
}

func (i *installation) createRoot(namespace, name string) {
	i.t.Helper()
	_, err := i.api.CoreV1().ConfigMaps(namespace).Create(i.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"tenant-of": i.name}},
	}, metav1.CreateOptions{})
	if err != nil {
		i.t.Fatal(err)
	}
}

func (i *installation) scale(replicas int) {
	i.t.Helper()
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
	_, err := i.api.AppsV1().StatefulSets(i.namespace).Patch(i.t.Context(), i.name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
	if err != nil {
		i.t.Fatal(err)
	}
}

func (i *installation) member(ordinal int) string { return fmt.Sprintf("%s-%d", i.name, ordinal) }

// createPod makes the Pod of a member, with a new UID.
func (i *installation) createPod(ordinal int) {
	i.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: i.member(ordinal), Labels: map[string]string{"app": i.name}}, Spec: podSpec()}
	if _, err := i.api.CoreV1().Pods(i.namespace).Create(i.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		i.t.Fatal(err)
	}
}

// deletePod removes the Pod object at once, as a force deletion does.
func (i *installation) deletePod(ordinal int) {
	i.t.Helper()
	err := i.api.CoreV1().Pods(i.namespace).Delete(context.Background(), i.member(ordinal), metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))})
	if err != nil {
		i.t.Fatal(err)
	}
}

// reportDeath is the kubelet's status after the container of a process has ended.
func (i *installation) reportDeath(ordinal int, identity sharding.Identity) {
	i.t.Helper()
	pods := i.api.CoreV1().Pods(i.namespace)
	pod, err := pods.Get(i.t.Context(), i.member(ordinal), metav1.GetOptions{})
	if err != nil {
		i.t.Fatal(err)
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "manager", Image: "manager", ImageID: "manager",
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Message: string(identity) + "\n"}},
	}}
	if _, err := pods.UpdateStatus(i.t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		i.t.Fatal(err)
	}
}

// eventually polls until ok answers an empty string, which otherwise says what is missing.
func (i *installation) eventually(what string, missing func() string) {
	i.t.Helper()
	deadline := time.NewTimer(bound)
	defer deadline.Stop()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		lacks := missing()
		if lacks == "" {
			return
		}
		select {
		case <-deadline.C:
			i.t.Fatalf("%s: after %s still: %s\n%s", what, bound, lacks, i.describe())
		case <-ticker.C:
		}
	}
}

// describe says who holds what.
func (i *installation) describe() string {
	var out strings.Builder
	for _, r := range i.replicas {
		s := r.sharding.Snapshot()
		states := map[string][]sharding.Shard{}
		for _, shard := range s.Shards {
			states[shard.State] = append(states[shard.State], shard.Shard)
		}
		fmt.Fprintf(&out, "%s %s dead=%v state=%s ready=%v P=%s shards=%v\n%s", r.member, s.Identity, r.dead.Load(),
			s.State, s.Ready, s.Placement.Version, states, r.log.tail(15))
	}
	return out.String()
}

// isServed says what is missing until every shard is admitted by exactly its home, among the
// replicas that run.
func (i *installation) isServed() string {
	admitted := map[sharding.Shard]string{}
	var homes map[sharding.Shard]string
	for _, r := range i.replicas {
		if r.dead.Load() {
			continue
		}
		s := r.sharding.Snapshot()
		homes = map[sharding.Shard]string{}
		for _, shard := range s.Shards {
			homes[shard.Shard] = string(shard.Home)
			if shard.State == "admitting" {
				admitted[shard.Shard] = r.member
			}
		}
	}
	for shard := range sharding.Shard(i.options.Shards) {
		if admitted[shard] == "" || admitted[shard] != homes[shard] {
			return fmt.Sprintf("shard %d of home %q is admitted by %q", shard, homes[shard], admitted[shard])
		}
	}
	return ""
}

// balance returns how many shards each running replica admits.
func (i *installation) balance() map[string]int {
	counts := map[string]int{}
	for _, r := range i.replicas {
		if !r.dead.Load() {
			counts[r.member] = len(r.sharding.Snapshot().Admitted())
		}
	}
	return counts
}

func sorted[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
