// Package envtest runs the programs of the example, as processes, against a real API server.
package envtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	cachev1alpha1 "example.com/redis-operator/examples/memcached/api/v1alpha1"
)

// bound is how long a test waits for anything: several Lease durations.
const bound = 90 * time.Second

// programs is the folder of the built programs.
var programs string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctrl.SetLogger(logr.Discard())
	utilruntime.Must(cachev1alpha1.AddToScheme(scheme.Scheme))
	var err error
	if programs, err = os.MkdirTemp("", "memcached-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(programs) }() // what is left of it is in the folder for such things
	build := exec.Command("go", "build", "-o", programs+string(filepath.Separator), "./cmd/...")
	build.Dir, build.Env = "..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the programs: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// world is an API server of one test's own, with the example's manifests applied.
type world struct {
	t       *testing.T
	config  *rest.Config
	client  client.Client
	gateway *gateway
}

func newWorld(t *testing.T) *world {
	t.Helper()
	environment := &envtest.Environment{
		CRDDirectoryPaths: []string{filepath.Join("..", "deploy", "crd")}, ErrorIfCRDPathMissing: true,
	}
	environment.ControlPlane.Etcd = &envtest.Etcd{}
	environment.ControlPlane.Etcd.Configure().Set("unsafe-no-fsync", "true") // a busy disk fails no test
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		environment.BinaryAssetsDirectory = filepath.Join("..", "..", "..", "bin", "k8s")
	}
	config, err := environment.Start()
	if err != nil {
		t.Fatalf("starting etcd and the API server: %v", err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Errorf("stopping etcd and the API server: %v", err)
		}
	})
	config.QPS = -1
	w := &world{t: t, config: config, gateway: newGateway()}
	if w.client, err = client.New(config, client.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"namespace.yaml", "rbac/role.yaml", "rbac/bindings.yaml", "rbac/sharding.yaml", "statefulset.yaml"} {
		w.apply(filepath.Join("..", "deploy", file))
	}
	return w
}

// apply creates every object of a manifest.
func (w *world) apply(path string) {
	w.t.Helper()
	file, err := os.Open(path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer file.Close()
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			w.t.Fatalf("reading %s: %v", path, err)
		}
		if len(object.Object) > 0 {
			w.create(object)
		}
	}
}

func (w *world) create(object client.Object) {
	w.t.Helper()
	if err := w.client.Create(w.t.Context(), object); err != nil {
		w.t.Fatalf("creating %T %s: %v", object, object.GetName(), err)
	}
}

// eventually polls until missing answers an empty string, which otherwise says what is missing.
func (w *world) eventually(what string, missing func(context.Context) string) {
	w.t.Helper()
	start := time.Now()
	deadline := time.NewTimer(bound)
	defer deadline.Stop()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		lacks := missing(w.t.Context())
		if lacks == "" {
			w.t.Logf("%s: after %s", what, time.Since(start).Round(time.Millisecond))
			return
		}
		select {
		case <-deadline.C:
			w.t.Fatalf("%s: after %s still: %s", what, bound, lacks)
		case <-ticker.C:
		}
	}
}
