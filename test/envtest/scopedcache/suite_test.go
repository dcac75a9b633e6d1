// Package scopedcache_test drives the scoped cache and the directory against a real API server.
package scopedcache_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"example.com/redis-operator/sharding/scopedcache"
)

const (
	// patience bounds every wait of the tests.
	patience = time.Minute
	// startPatience bounds the start and the stop of etcd and of kube-apiserver.
	startPatience = 2 * time.Minute
)

// config is that of the suite's API server, direct a client that reads from it without a cache.
var (
	config *rest.Config
	direct client.Client
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

// run starts the API server, runs the tests and stops it.
func run(m *testing.M) int {
	ctrl.SetLogger(zap.New(zap.UseDevMode(true), zap.WriteTo(os.Stderr)))
	environment := &envtest.Environment{ControlPlaneStartTimeout: startPatience, ControlPlaneStopTimeout: startPatience}
	environment.ControlPlane.Etcd = &envtest.Etcd{}
	environment.ControlPlane.Etcd.Configure().Set("unsafe-no-fsync", "true") // a busy disk fails no test
	var err error
	if config, err = environment.Start(); err != nil {
		fmt.Fprintf(os.Stderr, "starting the API server: %v (KUBEBUILDER_ASSETS must hold etcd and kube-apiserver)\n", err)
		return 1
	}
	defer func() {
		if err := environment.Stop(); err != nil {
			fmt.Fprintf(os.Stderr, "stopping the API server: %v\n", err)
		}
	}()
	config.QPS = -1
	if direct, err = client.New(config, client.Options{}); err != nil {
		fmt.Fprintf(os.Stderr, "building a client: %v\n", err)
		return 1
	}
	return m.Run()
}

// newNamespace creates a namespace whose name begins with the test's.
func newNamespace(t *testing.T) string {
	t.Helper()
	prefix := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name())) + "-"
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}
	mustCreate(t, namespace)
	return namespace.Name
}

// mustCreate creates an object.
func mustCreate(t *testing.T, obj client.Object) {
	t.Helper()
	if err := direct.Create(t.Context(), obj); err != nil {
		t.Fatalf("creating %T %s: %v", obj, client.ObjectKeyFromObject(obj), err)
	}
}

// mustDelete deletes an object.
func mustDelete(t *testing.T, obj client.Object) {
	t.Helper()
	if err := direct.Delete(t.Context(), obj); err != nil {
		t.Fatalf("deleting %T %s: %v", obj, client.ObjectKeyFromObject(obj), err)
	}
}

// configMap returns a ConfigMap, not yet created.
func configMap(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"name": name}},
		Data:       map[string]string{"color": name},
	}
}

// startCache builds and starts a cache that ends with the test.
func startCache(t *testing.T, config *rest.Config, options scopedcache.Options) *scopedcache.Cache {
	t.Helper()
	cache, err := scopedcache.New(config, options)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- cache.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Start: %v", err)
			}
		case <-time.After(patience):
			t.Error("Start has not returned")
		}
	})
	if !cache.WaitForCacheSync(t.Context()) {
		t.Fatal("WaitForCacheSync: false")
	}
	return cache
}

// mustAddScope adds a scope and waits for it.
func mustAddScope(t *testing.T, cache *scopedcache.Cache, namespace string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := cache.AddScope(ctx, namespace); err != nil {
		t.Fatalf("AddScope(%s): %v", namespace, err)
	}
}

// eventually polls until holds returns an empty string, and fails with the last one otherwise.
func eventually(t *testing.T, holds func() string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		problem := holds()
		if problem == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %s", patience, problem)
		}
		<-ticker.C
	}
}
