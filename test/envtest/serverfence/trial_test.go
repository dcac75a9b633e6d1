package serverfence_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/placement"
)

// I6: a process is stopped in the middle of a reconcile for longer than its Lease, another takes the shard
// over, and the process goes on. Either half of the fence keeps its writes out by itself; without both, the
// same trial sees them get in.
func TestStoppedInMidReconcile(t *testing.T) {
	cases := map[string]struct {
		guarded, fenced bool
		wantLine        string // what the process says of its writes after the stop
		wantStale       bool   // some of them got in
	}{
		"the server's half alone": {false, true, "refused by the server", false},
		"the guard's half alone":  {true, false, "refused by the guard", false},
		"both halves":             {true, true, "refused by the guard", false},
		"neither":                 {false, false, "accepted", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			result := newTrialStage(t, tc.fenced).stopAndGoOn(t, tc.guarded, tc.wantLine, 0)
			if (result.stale > 0) != tc.wantStale {
				t.Errorf("%d stale writes got in, want some: %t", result.stale, tc.wantStale)
			}
		})
	}
}

// trialResult is what became of a process's writes after it went on.
type trialResult struct {
	lines map[string]int // what it says, by line
	stale int            // writes that got in after the new owner's first
}

// stopAndGoOn has a process write, stops it after a while in which it may get on with its writes, has the
// shard taken over, and lets it go on until it has said often enough what becomes of its writes.
func (s *trialStage) stopAndGoOn(t *testing.T, guarded bool, wantLine string, after time.Duration) trialResult {
	t.Helper()
	old := s.start(t, guarded)
	eventually(t, "the process writes", 30*time.Second,
		func() bool { return old.counts()["accepted"] >= 3 }, func() any { return old.counts() })
	<-time.After(after)
	old.signal(t, syscall.SIGSTOP)
	s.takeOver(t)
	before := old.counts()
	old.signal(t, syscall.SIGCONT)
	eventually(t, "the process says "+wantLine, 30*time.Second, func() bool {
		now := old.counts()
		return now[wantLine] >= before[wantLine]+20 || now[exited] > 0 && guarded
	}, func() any { return old.counts() })
	result := trialResult{stale: s.staleWrites(t), lines: old.counts()}
	t.Logf("after the stop: %v before, %v now; %d stale writes got in", before, result.lines, result.stale)
	for line := range result.lines {
		if strings.HasPrefix(line, "failed") {
			t.Errorf("the process says: %s", line)
		}
	}
	return result
}

// trialStage is an installation with an object in a user's namespace, whose every state is kept.
type trialStage struct {
	*installation
	namespace string
	shard     placement.Shard
	object    *corev1.ConfigMap
	successor *actor

	mu      sync.Mutex // guards written
	written []string   // who wrote each state of the object, in order
}

func newTrialStage(t *testing.T, fenced bool) *trialStage {
	t.Helper()
	s := &trialStage{installation: install(t), namespace: newNamespace(t, "user-")}
	s.shard = settings.ShardOf(s.namespace)
	s.object = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.namespace, Name: "x", Labels: labels(int(s.shard)),
	}}
	create(t, s.object)
	s.successor = s.pod(t, "operator-1")
	if !fenced {
		err := suite.admin.DeleteAllOf(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{},
			client.MatchingLabels{claim.InstallationLabel: s.name})
		if err != nil {
			t.Fatal(err)
		}
	}
	s.record(t)
	return s
}

// record watches the object from now on.
func (s *trialStage) record(t *testing.T) {
	t.Helper()
	c, err := client.NewWithWatch(suite.config, client.Options{Scheme: suite.scheme})
	if err != nil {
		t.Fatal(err)
	}
	events, err := c.Watch(t.Context(), &corev1.ConfigMapList{}, client.InNamespace(s.namespace))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(events.Stop)
	go func() {
		for event := range events.ResultChan() {
			object, ok := event.Object.(*corev1.ConfigMap)
			if !ok || object.Name != s.object.Name || event.Type != watch.Modified {
				continue
			}
			s.mu.Lock()
			s.written = append(s.written, object.Data["by"])
			s.mu.Unlock()
		}
	}()
}

// takeOver claims the shard for the successor, which goes by the Lease alone, and has it write once it has
// settled.
func (s *trialStage) takeOver(t *testing.T) {
	t.Helper()
	acquired := make(chan claim.Event, 1)
	set, err := claim.NewSet(claim.Options{
		Client: s.successor.clientset.CoordinationV1(), Namespace: s.name, Installation: s.name,
		Settings: settings, Identity: s.successor.identity(), Timings: timings,
		OnEvent: func(e claim.Event) {
			if e.Type == claim.Acquired {
				acquired <- e
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = set.Run(ctx) // it answers nil
	}()
	t.Cleanup(func() {
		set.Stop()
		cancel()
		<-done
	})
	<-set.Synced()
	set.Claim(s.shard).Start(ctx)
	select {
	case e := <-acquired:
		if !e.Unclean {
			t.Error("taken over cleanly from a process that was stopped")
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the shard is not taken over")
	}
	<-time.After(settle)
	s.write(t)
}

func (s *trialStage) write(t *testing.T) {
	t.Helper()
	_, err := s.successor.clientset.CoreV1().ConfigMaps(s.namespace).Patch(t.Context(), s.object.Name, types.MergePatchType,
		writtenBy(string(s.successor.identity()), 0), metav1.PatchOptions{})
	if err != nil {
		t.Fatalf("the new owner's write: %v", err)
	}
}

// staleWrites counts the states of the object after the successor's first that another wrote. It has an
// administrator write a last one, to know that all have been seen.
func (s *trialStage) staleWrites(t *testing.T) int {
	t.Helper()
	end := client.RawPatch(types.MergePatchType, writtenBy("end", 0))
	if err := suite.admin.Patch(t.Context(), s.object.DeepCopy(), end); err != nil {
		t.Fatal(err)
	}
	stale := 0
	eventually(t, "the last state is seen", 20*time.Second, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		stale = 0
		isAfter := false
		for _, by := range s.written {
			switch {
			case by == string(s.successor.identity()):
				isAfter = true
			case by == "end":
				return isAfter
			case isAfter:
				stale++
			}
		}
		return false
	}, func() any { return s.written })
	return stale
}

// process is a process of the trial, and the lines that it printed.
type process struct {
	command *exec.Cmd

	mu    sync.Mutex // guards lines
	lines map[string]int
}

// start runs this test program again, as a replica in a Pod of its own.
func (s *trialStage) start(t *testing.T, guarded bool) *process {
	t.Helper()
	a := s.pod(t, "operator-0")
	told, err := json.Marshal(trial{
		Host: a.config.Host, Token: a.config.BearerToken, CA: a.config.CAData, Identity: a.identity(),
		Installation: s.name, Namespace: s.namespace, Object: s.object.Name, Guarded: guarded,
	})
	if err != nil {
		t.Fatal(err)
	}
	p := &process{command: exec.Command(os.Args[0]), lines: map[string]int{}}
	p.command.Env = append(os.Environ(), trialVariable+"="+string(told))
	p.command.Stderr = os.Stderr
	output, err := p.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.read(output)
	}()
	t.Cleanup(func() {
		_ = p.command.Process.Kill()
		<-done
		_ = p.command.Wait()
	})
	return p
}

func (p *process) read(output io.Reader) {
	for scanner := bufio.NewScanner(output); scanner.Scan(); {
		p.mu.Lock()
		p.lines[scanner.Text()]++
		p.mu.Unlock()
	}
}

func (p *process) counts() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.lines)
}

func (p *process) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := p.command.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}
