package stage

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// Step is what an operator's log says of a shard.
type Step int

// The steps of a shard on one replica.
const (
	Admitted        Step = iota + 1 // work is admitted from here on
	FirstReconciled                 // the first reconcile since the admission has begun
	Stopped                         // nothing is admitted from here on
)

// Transition is one line of an operator's log about a shard.
type Transition struct {
	Pod      string
	Step     Step
	Shard    int
	Epoch    string
	Identity string
	Cause    string
	// Monotonic is the replica's CLOCK_MONOTONIC: comparable between processes of one kernel only.
	Monotonic time.Duration
}

// MonotonicNow is CLOCK_MONOTONIC of this host, which Transitions of a local Kubernetes share.
func MonotonicNow() (time.Duration, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, fmt.Errorf("reading the monotonic clock: %w", err)
	}
	return time.Duration(now.Nano()), nil
}

type logLine struct {
	Message        string `json:"msg"`
	Shard          *int   `json:"shard"`
	Epoch          string `json:"epoch"`
	Identity       string `json:"identity"`
	Cause          string `json:"cause"`
	MonotonicNanos int64  `json:"monotonicNanos"`
}

// The messages of package sharding that a gap is measured by.
const (
	messageAdmitted   = "Admitted shard"
	messageStopped    = "Stopped admitting shard"
	messageReconciled = "Reconciled first request of shard"
)

var stepOf = map[string]Step{
	messageAdmitted: Admitted, messageStopped: Stopped, messageReconciled: FirstReconciled,
}

// Transitions reads the log of an operator's Pod, that of its present container.
func (s *Stage) Transitions(ctx context.Context, pod string) ([]Transition, error) {
	stream, err := s.openLog(ctx, pod, &corev1.PodLogOptions{})
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	transitions, err := parseTransitions(stream)
	for i := range transitions {
		transitions[i].Pod = pod
	}
	return transitions, err
}

func (s *Stage) openLog(ctx context.Context, pod string, options *corev1.PodLogOptions) (io.ReadCloser, error) {
	stream, err := s.Kubernetes.CoreV1().Pods(OperatorNamespace).GetLogs(pod, options).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the log of %s: %w", pod, err)
	}
	return stream, nil
}

func parseTransitions(log io.Reader) ([]Transition, error) {
	var transitions []Transition
	err := eachTransition(log, func(t Transition) { transitions = append(transitions, t) })
	return transitions, err
}

// eachTransition calls use for every line about a shard, as it is read.
func eachTransition(log io.Reader, use func(Transition)) error {
	scanner := bufio.NewScanner(log)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var line logLine
		if json.Unmarshal(scanner.Bytes(), &line) != nil || line.Shard == nil {
			continue
		}
		step, ok := stepOf[line.Message]
		if !ok {
			continue
		}
		use(Transition{
			Step: step, Shard: *line.Shard, Epoch: line.Epoch, Identity: line.Identity, Cause: line.Cause,
			Monotonic: time.Duration(line.MonotonicNanos),
		})
	}
	return scanner.Err()
}

// AllTransitions reads the present log of every operator Pod, those of Pods that are just starting
// left out.
func (s *Stage) AllTransitions(ctx context.Context) ([]Transition, error) {
	pods, err := s.OperatorPods(ctx)
	if err != nil {
		return nil, err
	}
	var all []Transition
	for i := range pods {
		if pods[i].Status.Phase != corev1.PodRunning {
			continue
		}
		transitions, err := s.Transitions(ctx, pods[i].Name)
		if err != nil {
			return nil, err
		}
		all = append(all, transitions...)
	}
	return all, nil
}
