// Package sharding tests the sharding library with several replicas in one process against a real
// API server.
package sharding

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

var config *rest.Config

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctrl.SetLogger(logr.Discard())
	environment := &envtest.Environment{}
	environment.ControlPlane.Etcd = &envtest.Etcd{}
	environment.ControlPlane.Etcd.Configure().Set("unsafe-no-fsync", "true") // a busy disk fails no test
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		environment.BinaryAssetsDirectory = filepath.Join("..", "..", "..", "bin", "k8s")
	}
	started, err := environment.Start()
	if err != nil {
		fmt.Fprintf(os.Stderr, "starting etcd and the API server: %v\n", err)
		return 1
	}
	defer func() {
		if err := environment.Stop(); err != nil {
			fmt.Fprintf(os.Stderr, "stopping etcd and the API server: %v\n", err)
		}
	}()
	config = started
	config.QPS = -1
	return m.Run()
}
