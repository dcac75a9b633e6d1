// Package rediscluster tests the controller of RedisClusters against a real API server, with real
// redis-server processes on loopback: the test plays the StatefulSet controller and the kubelet.
package rediscluster

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/controllers"
)

// suite is what all tests of the package share: one API server with one operator.
var suite struct {
	config   *rest.Config
	client   client.Client
	writes   sync.Map // namespace -> *atomic.Int64
	registry *prometheus.Registry
}

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctrl.SetLogger(zap.New(zap.UseDevMode(true), zap.Level(zapcore.InfoLevel)))
	server := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join("..", "..", "..", "deploy", "crd")},
		ErrorIfCRDPathMissing: true,
	}
	server.ControlPlane.Etcd = &envtest.Etcd{}
	server.ControlPlane.Etcd.Configure().Set("unsafe-no-fsync", "true") // a busy disk fails no test
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		server.BinaryAssetsDirectory = filepath.Join("..", "..", "..", "bin", "k8s")
	}
	// Also a start that failed half way leaves processes behind.
	defer func() {
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the API server:", err)
		}
	}()
	config, err := server.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the API server:", err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped, err := startOperator(ctx, config)
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the operator:", err)
		cancel()
		return 1
	}
	code := m.Run()
	cancel()
	<-stopped
	return code
}

// workers is how many clusters the operator of the tests works on at the same time.
const workers = 4

// startOperator runs the controllers as a single replica, every write to the API counted.
func startOperator(ctx context.Context, config *rest.Config) (stopped <-chan struct{}, err error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := redisv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	suite.config = rest.CopyConfig(config)
	suite.config.QPS = -1
	if suite.client, err = client.New(suite.config, client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	counted := rest.CopyConfig(suite.config)
	counted.Wrap(func(inner http.RoundTripper) http.RoundTripper { return writeCounter{inner} })
	mgr, err := ctrl.NewManager(counted, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return nil, err
	}
	suite.registry = prometheus.NewRegistry()
	if err := controllers.Add(mgr, controllers.Deps{Registerer: suite.registry, Workers: workers}); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := mgr.Start(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "running the operator:", err)
		}
	}()
	return done, nil
}

// writeCounter counts, by namespace, the requests that may change something in the API. Events do not
// count: they tell of what was done, and are sent later.
type writeCounter struct{ inner http.RoundTripper }

func (w writeCounter) RoundTrip(request *http.Request) (*http.Response, error) {
	if _, rest, found := strings.Cut(request.URL.Path, "/namespaces/"); found && request.Method != http.MethodGet {
		namespace, resource, _ := strings.Cut(rest, "/")
		if !strings.HasPrefix(resource, "events") {
			writes(namespace).Add(1)
		}
	}
	return w.inner.RoundTrip(request)
}

// writes counts the operator's writes in a namespace.
func writes(namespace string) *atomic.Int64 {
	count, _ := suite.writes.LoadOrStore(namespace, &atomic.Int64{})
	return count.(*atomic.Int64)
}

// passes is how many passes the controller has made.
func passes(t *testing.T) uint64 {
	t.Helper()
	families, err := suite.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "redis_operator_pass_duration_seconds" {
			return family.GetMetric()[0].GetHistogram().GetSampleCount()
		}
	}
	t.Fatal("no count of passes among the metrics")
	return 0
}

// newNamespace makes a namespace with a kubelet of its own.
func newNamespace(t *testing.T) (string, *kubelet) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := suite.client.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	kubelet := startKubelet(t, namespace.Name)
	t.Cleanup(func() {
		// What is left would go on being repaired under the next test.
		if err := suite.client.DeleteAllOf(context.Background(), &redisv1.RedisCluster{}, client.InNamespace(namespace.Name)); err != nil {
			t.Errorf("deleting the clusters: %v", err)
		}
	})
	return namespace.Name, kubelet
}

// newCluster is a RedisCluster that the test has not created yet.
func newCluster(namespace string, size, replicas int32) *redisv1.RedisCluster {
	return &redisv1.RedisCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cache"},
		Spec:       redisv1.RedisClusterSpec{Size: size, ReplicasPerPrimary: &replicas, Image: "redis:7.0"},
	}
}

func create(t *testing.T, object client.Object) {
	t.Helper()
	if err := suite.client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// change reads the object anew, changes it, and writes it back.
func change[T client.Object](t *testing.T, object T, edit func(T)) {
	t.Helper()
	if err := suite.client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	before := object.DeepCopyObject().(client.Object)
	edit(object)
	if err := suite.client.Patch(t.Context(), object, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// await reads the cluster again and again until the condition holds for it.
func await(t *testing.T, cluster *redisv1.RedisCluster, what string, isSo func(*redisv1.RedisCluster) bool) {
	t.Helper()
	const limit = 60 * time.Second
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if err := suite.client.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
			t.Fatal(err)
		}
		if isSo(cluster) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not after %s: %s; phase %s, conditions %+v, nodes %+v",
				limit, what, cluster.Status.Phase, cluster.Status.Conditions, cluster.Status.NodeStates)
		}
	}
}

func isReady(cluster *redisv1.RedisCluster) bool {
	return cluster.Status.Phase == redisv1.PhaseReady && cluster.Status.ObservedGeneration == cluster.Generation
}
