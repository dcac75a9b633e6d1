package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// fakeReplica is one operator Pod whose container can be replaced, and the log of which breaks off.
type fakeReplica struct {
	mu       sync.Mutex // guards the fields below
	id       string
	log      string
	previous string
	opened   []corev1.PodLogOptions
	breaks   int // how many of the next streams break off after their first line
}

func (f *fakeReplica) pods(context.Context) ([]corev1.Pod, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	status := corev1.ContainerStatus{ContainerID: f.id, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	if f.previous != "" {
		status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ContainerID: "before " + f.id}
	}
	pod := corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{status}}}
	pod.Name = "redis-operator-0"
	return []corev1.Pod{pod}, nil
}

// open gives what the log holds now; a stream that follows then stays open to the end of the test.
func (f *fakeReplica) open(ctx context.Context, _ string, options *corev1.PodLogOptions) (io.ReadCloser, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opened = append(f.opened, *options)
	switch {
	case options.Previous:
		return io.NopCloser(strings.NewReader(f.previous)), nil
	case f.breaks > 0:
		f.breaks--
		first, _, _ := strings.Cut(f.log, "\n")
		return io.NopCloser(io.MultiReader(strings.NewReader(first+"\n"), broken{})), nil
	}
	return io.NopCloser(io.MultiReader(strings.NewReader(f.log), untilDone{ctx})), nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("the stream broke") }

type untilDone struct{ ctx context.Context }

func (u untilDone) Read([]byte) (int, error) {
	<-u.ctx.Done()
	return 0, io.EOF
}

func line(message, identity string, shard, clock int) string {
	return fmt.Sprintf(`{"msg":%q,"shard":%d,"epoch":"5","identity":%q,"monotonicNanos":%d}`, message, shard, identity, clock) + "\n"
}

// collected runs a collector over the replica for a while, which takes no time in a bubble of synctest,
// and counts what it has by identity.
func collected(t *testing.T, f *fakeReplica, during func()) map[string]int {
	t.Helper()
	c := collect(&LogCollector{pods: f.pods, open: f.open})
	<-time.After(time.Second)
	during()
	<-time.After(time.Second)
	c.Stop()
	counts := map[string]int{}
	for _, transition := range c.Transitions() {
		if transition.Pod != "redis-operator-0" {
			t.Errorf("a line of Pod %q", transition.Pod)
		}
		counts[transition.Identity]++
	}
	return counts
}

func TestLogCollectorReopensBrokenStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeReplica{id: "one", breaks: 2}
		f.log = line(messageAdmitted, "a1", 1, 10) + line(messageReconciled, "a1", 1, 11) + line(messageStopped, "a1", 1, 12)
		got := collected(t, f, func() {})
		if got["a1"] != 3 {
			t.Errorf("%d lines, want the 3 that there are, each once", got["a1"])
		}
		if len(f.opened) != 3 {
			t.Errorf("opened %d times, want 3: two streams broke", len(f.opened))
		}
	})
}

// The container is replaced between the look at the Pod and the opening of the log: the stream is the
// new one's, and the end of the old one's log is in the previous log alone.
func TestLogCollectorReadsReplacedContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeReplica{id: "one", log: line(messageAdmitted, "a2", 1, 20)}
		got := collected(t, f, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.id = "two"
			f.previous = line(messageAdmitted, "a1", 1, 10) + line(messageStopped, "a1", 1, 12)
		})
		if got["a1"] != 2 || got["a2"] != 1 {
			t.Errorf("lines %v, want 2 of the old process and 1 of the new", got)
		}
	})
}
