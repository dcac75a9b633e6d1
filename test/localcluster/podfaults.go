package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"example.com/redis-operator/test/localcluster/internal/space"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// signalTimeout bounds how long the processes of a Pod may take to stop or to die.
const signalTimeout = 10 * time.Second

// onPod makes a table entry of a fault on one Pod: it reads the Pod and finds its Node.
func onPod(fault func(*supervisor, context.Context, *node, *corev1.Pod) error) func(*supervisor, context.Context, []string) error {
	return func(s *supervisor, ctx context.Context, args []string) error {
		client, err := kubernetes.NewForConfig(s.restConfig())
		if err != nil {
			return fmt.Errorf("making a client: %w", err)
		}
		pod, err := client.CoreV1().Pods(args[0]).Get(ctx, args[1], metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading Pod %s/%s: %w", args[0], args[1], err)
		}
		n, err := s.findNode(pod.Spec.NodeName)
		if err != nil {
			return fmt.Errorf("finding the Node of Pod %s/%s: %w", args[0], args[1], err)
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.space == nil {
			return fmt.Errorf("localcluster: %s, the Node of Pod %s/%s, is lost", n.name, args[0], args[1])
		}
		return fault(s, ctx, n, pod)
	}
}

func killContainer(s *supervisor, ctx context.Context, args []string) error {
	return onPod(func(s *supervisor, ctx context.Context, n *node, pod *corev1.Pod) error {
		for _, status := range pod.Status.ContainerStatuses {
			if status.Name == args[2] {
				_, id, _ := strings.Cut(status.ContainerID, "://")
				return s.signalContainers(ctx, n, pod, syscall.SIGKILL, func(container string) bool { return container == id })
			}
		}
		return fmt.Errorf("localcluster: Pod %s/%s has no container %s", args[0], args[1], args[2])
	})(s, ctx, args)
}

func (s *supervisor) killPod(ctx context.Context, n *node, pod *corev1.Pod) error {
	return s.signalContainers(ctx, n, pod, syscall.SIGKILL, anyContainer)
}

func (s *supervisor) pausePod(ctx context.Context, n *node, pod *corev1.Pod) error {
	return s.signalContainers(ctx, n, pod, syscall.SIGSTOP, anyContainer)
}

func (s *supervisor) resumePod(ctx context.Context, n *node, pod *corev1.Pod) error {
	return s.signalContainers(ctx, n, pod, syscall.SIGCONT, anyContainer)
}

func anyContainer(string) bool { return true }

// signalContainers sends a signal to every process of the wanted containers and repeats it until it
// has worked on all of them, since a process may fork meanwhile. The sandbox is spared. Containers
// that start meanwhile are not touched.
func (s *supervisor) signalContainers(
	ctx context.Context, n *node, pod *corev1.Pod, signal syscall.Signal, wanted func(container string) bool,
) error {
	containers, err := s.containers(n, pod)
	if err != nil {
		return err
	}
	containers = slices.DeleteFunc(containers, func(c string) bool { return !wanted(filepath.Base(c)) })
	if len(containers) == 0 {
		return fmt.Errorf("localcluster: Pod %s/%s has no running container to signal", pod.Namespace, pod.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, signalTimeout)
	defer cancel()
	return poll(ctx, fmt.Sprintf("the effect of signal %d on Pod %s/%s", signal, pod.Namespace, pod.Name),
		func(context.Context) (string, bool) {
			left, err := signalAll(containers, signal)
			return fmt.Sprintf("%d processes left, %v", left, err), left == 0 && err == nil
		})
}

// signalAll sends the signal where it has not worked yet, and counts those processes.
func signalAll(containers []string, signal syscall.Signal) (left int, problem error) {
	for _, container := range containers {
		pids, err := space.CgroupProcesses(container)
		problem = errors.Join(problem, err)
		for _, pid := range pids {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err != nil || hasWorked(string(stat), signal) {
				continue
			}
			left++
			problem = errors.Join(problem, ignoreGone(syscall.Kill(pid, signal)))
		}
	}
	return left, problem
}

// hasWorked reads a process's state from /proc/PID/stat: T is stopped, Z and X are dead.
func hasWorked(stat string, signal syscall.Signal) bool {
	rest, _ := afterLast(stat, ")")
	current := strings.TrimSpace(rest)
	switch {
	case current == "":
		return false
	case current[0] == 'Z' || current[0] == 'X':
		return true
	case signal == syscall.SIGSTOP:
		return current[0] == 'T'
	case signal == syscall.SIGCONT:
		return current[0] != 'T'
	}
	return false
}

// containers returns the cgroups, by their names from the root, of a Pod's containers but for its
// sandbox, whose program is the cluster's own.
func (s *supervisor) containers(n *node, pod *corev1.Pod) ([]string, error) {
	folder, err := s.podCgroup(n, pod)
	if err != nil {
		return nil, err
	}
	hierarchy, name := folder.hierarchy, folder.name
	entries, err := os.ReadDir(filepath.Join(hierarchy, name))
	if err != nil {
		return nil, fmt.Errorf("reading the containers of Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	var found []string
	for _, entry := range entries {
		container := filepath.Join(name, entry.Name())
		if !entry.IsDir() {
			continue
		}
		pids, err := space.CgroupProcesses(container)
		if err != nil {
			return nil, err
		}
		if len(pids) > 0 && !isSandbox(pids) {
			found = append(found, container)
		}
	}
	return found, nil
}

func isSandbox(pids []int) bool {
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pids[0]))
	return err == nil && program == "/pause"
}

type podFolder struct{ hierarchy, name string }

// podCgroup finds a Pod's cgroup under its class of service: kubepods, kubepods/burstable or
// kubepods/besteffort.
func (s *supervisor) podCgroup(n *node, pod *corev1.Pod) (podFolder, error) {
	hierarchies, err := space.Hierarchies()
	if err != nil {
		return podFolder{}, err
	}
	for _, hierarchy := range hierarchies {
		for _, class := range []string{"", "burstable", "besteffort"} {
			name := filepath.Join(s.cgroup(), n.name, "kubepods", class, "pod"+string(pod.UID))
			if info, err := os.Stat(filepath.Join(hierarchy, name)); err == nil && info.IsDir() {
				return podFolder{hierarchy, name}, nil
			}
		}
	}
	return podFolder{}, fmt.Errorf("localcluster: Pod %s/%s does not run on %s", pod.Namespace, pod.Name, n.name)
}

func (s *supervisor) cutPod(ctx context.Context, n *node, pod *corev1.Pod) error {
	return s.changeCut(ctx, n, pod, "add")
}

func (s *supervisor) reconnectPod(ctx context.Context, n *node, pod *corev1.Pod) error {
	// Deleting what is not there is an error to nft, adding what is there is none.
	return errors.Join(s.changeCut(ctx, n, pod, "add"), s.changeCut(ctx, n, pod, "delete"))
}

func (s *supervisor) reconnectPods(ctx context.Context) error {
	var problem error
	for _, n := range s.nodes {
		n.mu.Lock()
		if n.space != nil {
			_, err := n.space.Run(ctx, "", "nft", "flush", "set", "inet", "localcluster", "cut")
			problem = errors.Join(problem, err)
		}
		n.mu.Unlock()
	}
	return problem
}

// changeCut adds the Pod's address to the set of config/cut.nft, or deletes it.
func (s *supervisor) changeCut(ctx context.Context, n *node, pod *corev1.Pod, verb string) error {
	if pod.Status.PodIP == "" || pod.Spec.HostNetwork {
		return fmt.Errorf("localcluster: Pod %s/%s has no address of its own", pod.Namespace, pod.Name)
	}
	_, err := n.space.Run(ctx, "", "nft", verb, "element", "inet", "localcluster", "cut", "{", pod.Status.PodIP, "}")
	return err
}
