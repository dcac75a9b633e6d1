package stage

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// LogCollector follows the logs of all operator replicas, also of those that end.
//
// A log is opened by the Pod's name and so may be that of a container that has just taken the place of
// the one that was meant, and a stream may break. So each log is read again from its beginning for as
// long as its container runs, a container that was replaced once more, and every line counts once.
type LogCollector struct {
	pods   func(context.Context) ([]corev1.Pod, error)
	open   func(ctx context.Context, pod string, options *corev1.PodLogOptions) (io.ReadCloser, error)
	cancel context.CancelFunc
	work   sync.WaitGroup
	// oneClock: the replicas' monotonic clocks are the same.
	oneClock bool

	mu          sync.Mutex // guards the fields below
	transitions []Transition
	known       map[lineKey]bool
	kills       []Kill
	followed    map[string]bool // container ids
}

// lineKey tells the lines of all logs apart: an identity belongs to one process.
type lineKey struct {
	identity  string
	shard     int
	step      Step
	monotonic time.Duration
}

// CollectLogs begins to follow the operator's logs. The caller must Stop it.
func (s *Stage) CollectLogs() *LogCollector {
	return collect(&LogCollector{pods: s.OperatorPods, open: s.openLog, oneClock: s.Local != nil})
}

func collect(c *LogCollector) *LogCollector {
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel, c.known, c.followed = cancel, map[lineKey]bool{}, map[string]bool{}
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
	if !c.oneClock {
		return SharedEpochs(c.transitions)
	}
	return Overlaps(c.transitions, c.kills)
}

// Gaps are those of everything that was logged since the collection began.
func (c *LogCollector) Gaps() []Gap {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Gaps(c.transitions, c.kills)
}

// discover looks for containers whose log is not being read.
func (c *LogCollector) discover(ctx context.Context) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		pods, err := c.pods(ctx)
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
		if ended := container.LastTerminationState.Terminated; ended != nil && c.claim("ended "+ended.ContainerID) {
			c.work.Go(func() {
				if c.read(ctx, pod.Name, &corev1.PodLogOptions{Previous: true}) != nil {
					c.forget(ctx, "ended "+ended.ContainerID)
				}
			})
		}
		id := container.ContainerID
		if container.State.Running == nil || id == "" || !c.claim(id) {
			continue
		}
		c.work.Go(func() {
			// Whatever ended it: if the container still runs, the log is read again.
			_ = c.read(ctx, pod.Name, &corev1.PodLogOptions{Follow: true})
			c.forget(ctx, id)
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

// forget lets a log be read again, unless it was Stop that ended the reading.
func (c *LogCollector) forget(ctx context.Context, id string) {
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.followed, id)
}

// read takes in a log to its end.
func (c *LogCollector) read(ctx context.Context, pod string, options *corev1.PodLogOptions) error {
	stream, err := c.open(ctx, pod, options)
	if err != nil {
		return err
	}
	defer stream.Close()
	return eachTransition(stream, func(transition Transition) {
		transition.Pod = pod
		c.note(transition)
	})
}

// note keeps a line that was not read before.
func (c *LogCollector) note(t Transition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := lineKey{t.Identity, t.Shard, t.Step, t.Monotonic}
	if c.known[key] {
		return
	}
	c.known[key] = true
	c.transitions = append(c.transitions, t)
}
