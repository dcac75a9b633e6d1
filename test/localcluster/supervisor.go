package localcluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"example.com/redis-operator/test/localcluster/internal/space"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// startTimeout bounds Start as a whole. Two cores need 12 s when nothing else uses them.
const startTimeout = 3 * time.Minute

// supervisor owns every process of a running cluster.
type supervisor struct {
	layout
	options   Options
	addresses addresses
	forwarder string // the API server's address on the host
	listener  net.Listener
	plane     *plane
	nodes     []*node

	ctx    context.Context // ends with the cluster; for what runs in this process
	cancel context.CancelFunc
	group  sync.WaitGroup // what runs in this process

	stateLock sync.Mutex // guards state and its file
	state     state

	faultLock sync.Mutex // one fault on the control plane at a time
	stopOnce  sync.Once
	stopErr   error
}

// start brings a cluster up, or leaves nothing behind.
func start(ctx context.Context, options Options) (*supervisor, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := options.checkHost(); err != nil {
		return nil, err
	}
	// What this process has inherited, a lock's file say, must not stay open in the cluster's programs.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return nil, fmt.Errorf("keeping open files to this process: %w", err)
	}
	if err := takeFolder(ctx, options); err != nil {
		return nil, err
	}
	s := &supervisor{layout: layout{options.Dir}, options: options}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := s.bringUp(ctx); err != nil {
		if interrupted := context.Cause(outer); interrupted != nil {
			err = fmt.Errorf("localcluster: starting %s: %w", options.Name, interrupted)
		} else {
			err = errors.Join(err, s.lastWords())
		}
		return nil, errors.Join(err, s.stop(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// takeFolder makes the folder this cluster's own, after removing what an earlier one left in it.
func takeFolder(ctx context.Context, options Options) error {
	found, err := readState(options.Dir)
	switch {
	case err == nil && found.Supervisor.isAlive():
		return fmt.Errorf("localcluster: %s runs already in %s, supervised by process %d",
			found.Name, options.Dir, found.Supervisor.Pid)
	case err == nil && found.Name != options.Name:
		return fmt.Errorf("localcluster: folder %s belongs to cluster %s", options.Dir, found.Name)
	case errors.Is(err, fs.ErrNotExist):
		entries, err := os.ReadDir(options.Dir)
		if len(entries) > 0 && !options.ownDir {
			return fmt.Errorf("localcluster: folder %s is not empty and not a cluster's", options.Dir)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("reading the cluster's folder: %w", err)
		}
		if pids, err := space.CgroupProcesses(cgroupOf(options.Name)); err != nil || len(pids) > 0 {
			return errors.Join(err, fmt.Errorf("localcluster: a cluster named %s runs already, in another folder (%d processes)",
				options.Name, len(pids)))
		}
	case err != nil:
		return err
	}
	if err := cleanRemains(ctx, options); err != nil {
		return err
	}
	if err := os.MkdirAll(options.Dir, 0o755); err != nil {
		return fmt.Errorf("making the cluster's folder: %w", err)
	}
	return nil
}

// bringUp does the work of start.
func (s *supervisor) bringUp(ctx context.Context) error {
	begun := time.Now()
	self, err := identify(os.Getpid())
	if err != nil {
		return err
	}
	// The folder is a cluster's from here on: whatever fails now, stop removes it.
	err = s.changeState(func(current *state) {
		*current = state{Name: s.options.Name, Nodes: s.options.Nodes, Supervisor: self, Inits: map[string]process{}}
	})
	if err != nil {
		return err
	}
	if err := s.claimBlock(); err != nil {
		return err
	}
	if err := s.changeState(func(current *state) { current.Block = s.options.Block }); err != nil {
		return err
	}
	for i := range s.options.Nodes {
		s.nodes = append(s.nodes, &node{name: nodeName(i), index: i, imported: map[string]bool{}})
	}
	s.say(fmt.Sprintf("starting cluster %s on %s, API server at https://%s", s.options.Name, s.addresses.block(), s.forwarder))
	if err := s.writeFiles(); err != nil {
		return err
	}
	if err := s.writePauseImage(); err != nil {
		return err
	}
	if err := s.startPlane(); err != nil {
		return err
	}
	s.group.Go(s.forward)
	if err := s.serveControl(); err != nil {
		return err
	}
	if err := s.startHosts(ctx); err != nil {
		return err
	}
	if err := s.waitForNodes(ctx); err != nil {
		return err
	}
	s.say(fmt.Sprintf("cluster %s is ready after %.1f s", s.options.Name, time.Since(begun).Seconds()))
	return s.changeState(func(current *state) { current.Ready = true })
}

// startHosts starts the Nodes while the API server comes up, and then what needs the API server.
func (s *supervisor) startHosts(ctx context.Context) error {
	begun := time.Now()
	problems := make(chan error, len(s.nodes)+1)
	for _, n := range s.nodes {
		go func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			problems <- s.startNode(ctx, n)
		}()
	}
	go func() {
		err := s.waitForAPIServer(ctx)
		if err == nil {
			s.say(fmt.Sprintf("API server ready after %.1f s", time.Since(begun).Seconds()))
			err = s.startOthers(ctx)
		}
		problems <- err
	}()
	var problem error
	for range len(s.nodes) + 1 {
		problem = errors.Join(problem, <-problems)
	}
	return problem
}

func (s *supervisor) startOthers(ctx context.Context) error {
	for _, other := range s.plane.others {
		if err := other.start(); err != nil {
			return err
		}
	}
	return s.setUpStorage(ctx)
}

// waitForNodes returns when every Node is Ready and Pods can be created.
func (s *supervisor) waitForNodes(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(s.restConfig())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	err = poll(ctx, "the Nodes", func(ctx context.Context) (string, bool) {
		ready, err := countReady(ctx, client)
		if err != nil {
			return err.Error(), false
		}
		return fmt.Sprintf("%d of %d Ready", ready, len(s.nodes)), ready == len(s.nodes)
	})
	if err != nil {
		return err
	}
	return poll(ctx, "the service account controller", func(ctx context.Context) (string, bool) {
		_, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return fmt.Sprint(err), err == nil
	})
}

func countReady(ctx context.Context, client kubernetes.Interface) (int, error) {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("listing Nodes: %w", err)
	}
	ready := 0
	for i := range nodes.Items {
		if isReady(&nodes.Items[i]) {
			ready++
		}
	}
	return ready, nil
}

func isReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// stop ends everything; the first caller does it, the others wait for the same result.
func (s *supervisor) stop(ctx context.Context) error {
	s.stopOnce.Do(func() {
		s.cancel()
		if s.listener != nil {
			s.listener.Close()
		}
		for _, n := range s.nodes {
			n.mu.Lock()
			if n.space != nil {
				n.space.Kill()
			}
			n.mu.Unlock()
		}
		if s.plane != nil {
			s.plane.space.Kill()
		}
		s.group.Wait()
		s.stopErr = cleanRemains(ctx, s.options)
	})
	return s.stopErr
}

// nodeName takes the index of a Node, from 0.
func nodeName(index int) string { return fmt.Sprintf("node-%d", index+1) }

func (s *supervisor) say(line string) { s.options.Log(line) }

func (s *supervisor) cgroup() string { return cgroupOf(s.options.Name) }

func (s *supervisor) nodeNames() []string {
	names := make([]string, 0, len(s.nodes))
	for _, n := range s.nodes {
		names = append(names, n.name)
	}
	return names
}

func (s *supervisor) restConfig() *rest.Config {
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig())
	if err != nil {
		panic(fmt.Sprintf("reading the kubeconfig written by this process: %v", err))
	}
	config.QPS, config.Burst = 500, 1000
	return config
}

// lastWords is the last line of every log, as an error: after a failed start the folder is removed.
func (s *supervisor) lastWords() error {
	paths, err := filepath.Glob(s.log("*"))
	if err != nil {
		return err
	}
	var words []error
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(content)), "\n")
		if last := lines[len(lines)-1]; last != "" {
			words = append(words, fmt.Errorf("%s: %.300s", filepath.Base(path), last))
		}
	}
	return errors.Join(words...)
}
