package serverfence_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/sharding/placement"
	"example.com/redis-operator/sharding/serverfence"
)

// The program itself, as deploy/default would run it, with the deployment's rights: it proves the fence,
// works behind it, and mends labels that a user has taken off.
func TestManagerBehindTheFence(t *testing.T) {
	i := &installation{name: "redis-operator-system", account: "redis-operator"}
	i.options = serverfence.Options{Installation: "redis-operator", Namespace: i.name, Shards: 64}
	m := startManager(t, i.pod(t, "redis-operator-0"))
	eventually(t, "the fence is proved", 60*time.Second, func() bool {
		return strings.Contains(m.metrics(t), "\nsharding_server_fence_active 1\n")
	}, func() any { return m.log.String() })

	t.Logf("proved %s after the start", time.Since(m.started))

	namespace := newNamespace(t, "user-")
	cluster := &redisv1.RedisCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "copied", Labels: labels(63)},
		Spec:       redisv1.RedisClusterSpec{Size: 1, Image: "none"},
	}
	create(t, cluster)
	wanted := int(placement.DefaultSettings().ShardOf(namespace))
	set := &appsv1.StatefulSet{}
	healed := func() bool {
		for object, name := range map[client.Object]string{cluster: "copied", set: "copied-0", &corev1.Service{}: "copied"} {
			err := suite.admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object)
			if err != nil || object.GetLabels()[shardLabel] != strconv.Itoa(wanted) {
				return false
			}
		}
		return true
	}
	eventually(t, "the cluster's objects are there, with the label of its shard", 30*time.Second, healed,
		func() any { return m.log.String() })
	began := time.Now()
	for _, kind := range []string{"redisclusters", "statefulsets", "services"} {
		if err := kubectl(t.Context(), "-n", namespace, "label", kind, "--all", shardLabel+"-"); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the labels are back", 60*time.Second, healed, func() any { return m.log.String() })
	t.Logf("labels mended after %s", time.Since(began))
	if log := m.log.String(); strings.Contains(log, "denied request") {
		t.Errorf("the fence has refused something:\n%s", log)
	}
}

// manager is a running operator.
type manager struct {
	address string
	started time.Time
	log     *buffer
}

// startManager builds the program and runs it as a Pod's process.
func startManager(t *testing.T, a *actor) *manager {
	t.Helper()
	folder := t.TempDir()
	binary := filepath.Join(folder, "manager")
	build := exec.Command("go", "build", "-o", binary, "./cmd/manager")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the manager: %v\n%s", err, output)
	}
	kubeconfig := filepath.Join(folder, "kubeconfig")
	writeKubeconfig(t, a, kubeconfig)
	m := &manager{address: freeAddress(t), log: &buffer{}}
	command := exec.Command(binary, "--kubeconfig", kubeconfig, "--metrics-bind-address", m.address,
		"--health-probe-bind-address", "127.0.0.1:0")
	command.Env = append(os.Environ(), "POD_NAME="+a.name, "POD_UID="+a.uid, "POD_NAMESPACE=redis-operator-system")
	command.Stdout, command.Stderr = m.log, m.log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	m.started = time.Now()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		for _, object := range []client.Object{&coordinationv1.Lease{}, &corev1.ConfigMap{}} {
			if err := suite.admin.DeleteAllOf(context.Background(), object, client.InNamespace("redis-operator-system")); err != nil {
				t.Error(err)
			}
		}
	})
	return m
}

func writeKubeconfig(t *testing.T, a *actor, file string) {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["x"] = &clientcmdapi.Cluster{Server: a.config.Host, CertificateAuthorityData: a.config.CAData}
	config.AuthInfos["x"] = &clientcmdapi.AuthInfo{Token: a.config.BearerToken}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "x", AuthInfo: "x"}
	config.CurrentContext = "x"
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// metrics are what the manager exports; empty while it does not answer.
func (m *manager) metrics(t *testing.T) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://%s/metrics", m.address), nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return ""
	}
	return string(content)
}

// buffer takes what a process prints.
type buffer struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
