// Package serverfence_test tries the server's half of the fence on a real API server: real tokens bound to
// Pods, the deployment as it is applied, and every way of writing that the operator or a user has.
package serverfence_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	redisv1 "example.com/redis-operator/api/v1"
)

// suite is what all tests of the package share: one API server, with deploy/default applied to it.
var suite struct {
	config     *rest.Config
	admin      client.Client
	kubeconfig string
	scheme     *runtime.Scheme
}

func TestMain(m *testing.M) {
	if os.Getenv(trialVariable) != "" {
		os.Exit(runTrialProcess())
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "KUBEBUILDER_ASSETS is not set: it names the folder with etcd and kube-apiserver")
		return 1
	}
	ctrl.SetLogger(logr.Discard())
	server := &envtest.Environment{}
	server.ControlPlane.Etcd = &envtest.Etcd{}
	server.ControlPlane.Etcd.Configure().Set("unsafe-no-fsync", "true") // a busy disk fails no test
	// Also a start that failed half way leaves processes behind.
	defer func() {
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the API server:", err)
		}
	}()
	var err error
	if suite.config, err = server.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "starting the API server:", err)
		return 1
	}
	suite.config.QPS = -1
	folder, err := os.MkdirTemp("", "fence-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	suite.kubeconfig = filepath.Join(folder, "kubeconfig")
	suite.scheme = runtime.NewScheme()
	for _, prepare := range []func() error{
		func() error { return os.WriteFile(suite.kubeconfig, server.KubeConfig, 0o600) },
		func() error { return clientgoscheme.AddToScheme(suite.scheme) },
		func() error { return redisv1.AddToScheme(suite.scheme) },
		func() (err error) {
			suite.admin, err = client.New(suite.config, client.Options{Scheme: suite.scheme})
			return err
		},
		func() error {
			return kubectl(context.Background(), "apply", "--server-side", "-k", filepath.Join(root, "deploy", "default"))
		},
	} {
		if err := prepare(); err != nil {
			fmt.Fprintln(os.Stderr, "preparing the API server:", err)
			return 1
		}
	}
	return m.Run()
}

const root = "../../.."

// kubectl runs kubectl as the administrator.
func kubectl(ctx context.Context, arguments ...string) error {
	_, err := kubectlOutput(ctx, arguments...)
	return err
}

func kubectlOutput(ctx context.Context, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), arguments...)
	command.Env = append(os.Environ(), "KUBECONFIG="+suite.kubeconfig)
	output, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl %v: %w: %s", arguments, err, output)
	}
	return string(output), nil
}

// roundTripper lets a test stand in the way of requests.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
