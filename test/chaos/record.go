package chaos

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"example.com/redis-operator/test/chaos/check"
)

// lifeEvery is how often it is looked whether any replica lives.
const lifeEvery = 300 * time.Millisecond

// record is what is noted of a run while it goes on.
type record struct {
	rested   []check.Process // the processes when nothing had moved for a while, at restedAt
	restedAt time.Time

	mu       sync.Mutex // guards the fields below
	out      io.Writer
	begun    time.Time
	windows  []*check.Window
	restarts []time.Time
	held     map[string]int // Pods that are paused or cut off, Nodes that are lost
	problems map[string]int // what could not be done, by what it was
}

func newRecord(out io.Writer) *record {
	return &record{out: out, begun: time.Now(), held: map[string]int{}, problems: map[string]int{}}
}

func (r *record) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun = time.Now()
}

func (r *record) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, "%6.1f s  %s\n", time.Since(r.begun).Seconds(), fmt.Sprintf(format, args...))
}

// waitUntil waits for a moment of the schedule, and answers false if ctx ends first.
func (r *record) waitUntil(ctx context.Context, at time.Duration) bool {
	r.mu.Lock()
	begun := r.begun
	r.mu.Unlock()
	return pause(ctx, time.Until(begun.Add(at)))
}

// open notes that something is broken from now on until end is called.
func (r *record) open(what string, outage bool) (end func()) {
	now := time.Now()
	window := &check.Window{What: what, From: now, To: now, Outage: outage}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.windows = append(r.windows, window)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		window.To = time.Now()
	}
}

// hold notes that what is named cannot work until release is called.
func (r *record) hold(name string) (release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[name]++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.held[name]--
	}
}

func (r *record) restartedAPI() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.restarts = append(r.restarts, time.Now())
}

func (r *record) restartsOfAPI() []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.restarts)
}

func (r *record) disturbed() []check.Window {
	r.mu.Lock()
	defer r.mu.Unlock()
	var windows []check.Window
	for _, w := range r.windows {
		windows = append(windows, *w)
	}
	return windows
}

// watchLife notes when no replica can be expected to work: no container runs, by the kubelet's word, but
// for those that are paused, cut off, or on a lost Node.
func (r *run) watchLife(ctx context.Context) {
	var end func()
	for pause(ctx, lifeEvery) {
		pods, err := r.operatorPods(ctx)
		if err != nil {
			continue
		}
		alive := slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return isRunning(&pod) && !r.isHeld(&pod) })
		switch {
		case !alive && end == nil:
			end = r.open("no replica runs", true)
		case alive && end != nil:
			end()
			end = nil
		}
	}
	if end != nil {
		end()
	}
}

func (r *record) isHeld(pod *corev1.Pod) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held[pod.Name] > 0 || r.held[pod.Spec.NodeName] > 0
}
