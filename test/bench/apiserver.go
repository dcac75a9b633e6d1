package bench

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	redisv1 "example.com/redis-operator/api/v1"
)

const (
	// startPatience bounds the start and the stop of etcd and of kube-apiserver.
	startPatience = 2 * time.Minute
	// writers is how many objects are written at the same time while the stage is set.
	writers = 16
)

// apiServer is a bare etcd and kube-apiserver that know RedisClusters: no controllers and no Nodes.
type apiServer struct {
	environment *envtest.Environment
	client      client.Client
	kubeconfig  string
	address     string // host and port, as in the kubeconfig
}

// cacheScheme knows the kinds that are cached.
func cacheScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, redisv1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // the types of this module cannot clash
		}
	}
	return scheme
}

// startAPIServer starts the servers of bin/k8s, or of $KUBEBUILDER_ASSETS.
func startAPIServer(root string) (*apiServer, error) {
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = filepath.Join(root, "bin", "k8s")
	}
	s := &apiServer{environment: &envtest.Environment{
		BinaryAssetsDirectory: assets,
		CRDDirectoryPaths:     []string{filepath.Join(root, "deploy", "crd", "cache.example.com_redisclusters.yaml")},
		ErrorIfCRDPathMissing: true,
		// The machine may be busy.
		ControlPlaneStartTimeout: startPatience,
		ControlPlaneStopTimeout:  startPatience,
	}}
	config, err := s.environment.Start()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting etcd and kube-apiserver: %w", err), s.environment.Stop())
	}
	config.QPS = -1
	where, err := url.Parse(config.Host)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading the API server's address: %w", err), s.stop())
	}
	s.address = where.Host
	if s.client, err = client.New(config, client.Options{Scheme: cacheScheme()}); err != nil {
		return nil, errors.Join(fmt.Errorf("building a client of %s: %w", config.Host, err), s.stop())
	}
	if s.kubeconfig, err = writeTemporary("bench-kubeconfig-", s.environment.KubeConfig); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// writeTemporary writes a file of a name that begins so, and returns its path.
func writeTemporary(prefix string, content []byte) (string, error) {
	file, err := os.CreateTemp("", prefix)
	if err != nil {
		return "", err
	}
	_, err = file.Write(content)
	return file.Name(), errors.Join(err, file.Close())
}

// stop stops the servers.
func (s *apiServer) stop() error {
	if s.kubeconfig != "" {
		_ = os.Remove(s.kubeconfig) // in the temporary folder anyway
	}
	if err := s.environment.Stop(); err != nil {
		return fmt.Errorf("stopping etcd and kube-apiserver: %w", err)
	}
	return nil
}

// name names the i-th namespace of a kind.
func name(prefix string, i int) string { return fmt.Sprintf("%s-%04d", prefix, i) }

// createNamespaces creates namespaces.
func (s *apiServer) createNamespaces(ctx context.Context, prefix string, count int) error {
	return inParallel(ctx, count, func(ctx context.Context, i int) error {
		err := s.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name(prefix, i)}})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// inParallel calls work with 0 to count-1, a few at a time, and joins the errors.
func inParallel(ctx context.Context, count int, work func(context.Context, int) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	indexes := make(chan int)
	results := make(chan error, writers)
	var working sync.WaitGroup
	for range writers {
		working.Go(func() {
			var first error
			for i := range indexes {
				if err := work(ctx, i); err != nil && first == nil {
					first = err
					cancel()
				}
			}
			results <- first
		})
	}
	for i := range count {
		select {
		case indexes <- i:
		case <-ctx.Done():
		}
	}
	close(indexes)
	working.Wait()
	close(results)
	var errs []error
	for err := range results {
		errs = append(errs, err)
	}
	return errors.Join(append(errs, context.Cause(ctx))...)
}
