package stage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/test/localcluster"
	"example.com/redis-operator/test/localcluster/images"
)

// Names of what deploy/ installs and of the images it expects.
const (
	OperatorNamespace   = "redis-operator-system"
	OperatorStatefulSet = "redis-operator"
	OperatorReplicas    = 3
	OperatorImage       = "redis-operator:dev"
	localRedisImage     = "redis:7.0"
)

// Options says where the stage is set up. The zero value is a local Kubernetes named "stage" whose
// log is thrown away.
type Options struct {
	// Name of the local Kubernetes; two with different names can run side by side. Default "stage".
	// Its folder follows from the name, so that the next Open removes what a killed process has left.
	Name string
	// Root is the checkout that deploy/ and bin/ are taken from. Default: found from the working
	// directory upwards.
	Root string
	// Shards is the operator's number of shards on a local Kubernetes. Default: that of deploy/, which is
	// also what a current context gets.
	Shards int
	// Log receives one line for each thing done. Default: nothing is said.
	Log func(string)
}

// Stage is one Kubernetes with, after Install, the operator in it.
type Stage struct {
	Config     *rest.Config
	Client     client.WithWatch
	Kubernetes kubernetes.Interface
	// Kubeconfig is the path that kubectl is given.
	Kubeconfig string
	// Local is the local Kubernetes, nil on the current context: faults need it.
	Local *localcluster.Cluster
	// RedisImage is the image that RedisClusters of the stage name.
	RedisImage string

	root   string
	shards int
	log    func(string)
}

// OnCurrentContext reports whether the environment asks for the current kubeconfig context.
func OnCurrentContext() bool { return os.Getenv("CLUSTER") == "current" }

// Open starts a local Kubernetes, or connects to the current context, and imports the images. The
// caller must Close it, also after an error in a later step.
func Open(ctx context.Context, opts Options) (*Stage, error) {
	s, err := newStage(opts)
	if err != nil {
		return nil, err
	}
	if OnCurrentContext() {
		err = s.useCurrentContext()
	} else {
		err = s.startLocal(ctx, opts)
	}
	if err == nil {
		err = s.connect()
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func newStage(opts Options) (*Stage, error) {
	s := &Stage{root: opts.Root, log: opts.Log}
	if s.log == nil {
		s.log = func(string) {}
	}
	if s.root == "" {
		root, err := findRoot()
		if err != nil {
			return nil, err
		}
		s.root = root
	}
	return s, nil
}

func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the checkout: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "deploy", "default")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("finding the checkout: no deploy/default above the working directory")
		}
		dir = parent
	}
}

func (s *Stage) useCurrentContext() error {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return fmt.Errorf("loading the current kubeconfig context: %w", err)
	}
	s.Config = config
	s.Kubeconfig = rules.GetDefaultFilename()
	s.RedisImage = "redis:7.0"
	if image := os.Getenv("REDIS_IMAGE"); image != "" {
		s.RedisImage = image
	}
	return nil
}

func (s *Stage) startLocal(ctx context.Context, opts Options) error {
	name := opts.Name
	if name == "" {
		name = "stage"
	}
	s.shards = opts.Shards
	started := time.Now()
	cluster, err := localcluster.Start(ctx, localcluster.Options{Name: name, Log: s.log})
	if err != nil {
		return fmt.Errorf("starting the local Kubernetes: %w", err)
	}
	s.Local = cluster
	s.Config = cluster.RESTConfig()
	s.Kubeconfig = cluster.Kubeconfig()
	s.RedisImage = localRedisImage
	s.say("local Kubernetes up in %.1f s", time.Since(started).Seconds())
	return s.importImages(ctx)
}

func (s *Stage) importImages(ctx context.Context) error {
	operator, err := images.Operator(filepath.Join(s.root, "bin", "manager"))
	if err != nil {
		return fmt.Errorf("building the operator's image: %w", err)
	}
	redis, err := images.Redis()
	if err != nil {
		return fmt.Errorf("building the Redis image: %w", err)
	}
	if err := s.Local.ImportImage(ctx, operator, OperatorImage); err != nil {
		return fmt.Errorf("importing the operator's image: %w", err)
	}
	if err := s.Local.ImportImage(ctx, redis, localRedisImage); err != nil {
		return fmt.Errorf("importing the Redis image: %w", err)
	}
	s.say("images imported into every Node: %s, %s", OperatorImage, localRedisImage)
	return nil
}

// NewScheme knows every kind that the stage reads or writes.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, redisv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("building the scheme: %w", err)
		}
	}
	return scheme, nil
}

func (s *Stage) connect() error {
	scheme, err := NewScheme()
	if err != nil {
		return err
	}
	s.Config.QPS, s.Config.Burst = 200, 400
	if s.Client, err = client.NewWithWatch(s.Config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("building the client: %w", err)
	}
	if s.Kubernetes, err = kubernetes.NewForConfig(s.Config); err != nil {
		return fmt.Errorf("building the clientset: %w", err)
	}
	return nil
}

// Close takes the local Kubernetes down, and on the current context removes nothing: Uninstall is
// for that. It may be called more than once.
func (s *Stage) Close() {
	if s.Local == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Local.Stop(ctx); err != nil {
		s.say("taking the local Kubernetes down: %v", err)
	}
}

func (s *Stage) say(format string, args ...any) { s.log(fmt.Sprintf(format, args...)) }
