package stage

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// LogCollector follows the logs of all operator replicas, also of those that end.
type LogCollector struct {
	stage  *Stage
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu          sync.Mutex // guards the fields below
	transitions []Transition
	kills       []Kill
	followed    map[string]bool // container ids
}

// CollectLogs begins to follow the operator's logs. The caller must Stop it.
func (s *Stage) CollectLogs() *LogCollector {
	ctx, cancel := context.WithCancel(context.Background())
	c := &LogCollector{stage: s, cancel: cancel, followed: map[string]bool{}}
	c.work.Go(func() { c.discover(ctx) })
	return c
}

// Stop ends the collection and waits for it.
func (c *LogCollector) Stop() {
	c.cancel()
	c.work.Wait()
}

// Transitions returns what the logs have told so far, in the order of the monotonic clock.
func (c *LogCollector) Transitions() []Transition {
	c.mu.Lock()
	defer c.mu.Unlock()
	sorted := slices.Clone(c.transitions)
	sortByClock(sorted)
	return sorted
}

// Killed tells the collector of a kill that the logs cannot tell of.
func (c *LogCollector) Killed(kill Kill) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kills = append(c.kills, kill)
}

// Overlaps are those of everything that was logged since the collection began. They take one clock for
// all replicas: on a cluster whose Nodes have one each, SharedEpochs stand in for them.
func (c *LogCollector) Overlaps() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stage.Local == nil {
		return SharedEpochs(c.transitions)
	}
	return Overlaps(c.transitions, c.kills)
}

// discover looks for containers whose log is not followed yet.
func (c *LogCollector) discover(ctx context.Context) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		pods, err := c.stage.OperatorPods(ctx)
		for i := 0; err == nil && i < len(pods); i++ {
			c.followPod(ctx, &pods[i])
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (c *LogCollector) followPod(ctx context.Context, pod *corev1.Pod) {
	for _, container := range pod.Status.ContainerStatuses {
		id := container.ContainerID
		if container.State.Running == nil || id == "" || !c.claim(id) {
			continue
		}
		c.work.Go(func() {
			if c.follow(ctx, pod.Name) != nil {
				c.forget(id) // the container may only just have started: try again
			}
		})
	}
}

func (c *LogCollector) claim(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	claimed := !c.followed[id]
	c.followed[id] = true
	return claimed
}

func (c *LogCollector) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.followed, id)
}

// follow reads the log of the Pod's present container to its end. An error means that it could not
// be opened.
func (c *LogCollector) follow(ctx context.Context, pod string) error {
	stream, err := c.stage.Kubernetes.CoreV1().Pods(OperatorNamespace).
		GetLogs(pod, &corev1.PodLogOptions{Follow: true}).Stream(ctx)
	if err != nil {
		return err
	}
	defer stream.Close()
	// A stream that breaks ends with its container or with the collection.
	_ = eachTransition(stream, func(transition Transition) {
		transition.Pod = pod
		c.mu.Lock()
		defer c.mu.Unlock()
		c.transitions = append(c.transitions, transition)
	})
	return nil
}
