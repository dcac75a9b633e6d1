package serverfence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes/fake"

	"example.com/redis-operator/sharding/placement"
)

// monitored is a monitor whose proofs answer what the test says.
type monitored struct {
	*Monitor
	registry *prometheus.Registry

	answer error
	asked  [][]placement.Shard
	at     []time.Duration
	lines  []string
}

func newMonitored(t *testing.T, shards int) *monitored {
	t.Helper()
	m := &monitored{registry: prometheus.NewRegistry()}
	log := funcr.New(func(_, args string) { m.lines = append(m.lines, args) }, funcr.Options{})
	monitor, err := NewMonitor(MonitorOptions{
		Proof: ProofOptions{Client: fake.NewClientset(), Namespace: "operators", Shards: shards},
		Log:   log, Registerer: m.registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	m.Monitor = monitor
	begin := time.Now()
	monitor.prove = func(_ context.Context, shards []placement.Shard) error {
		m.asked, m.at = append(m.asked, shards), append(m.at, time.Since(begin))
		return m.answer
	}
	return m
}

// active is what is exported.
func (m *monitored) active(t *testing.T) float64 {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "sharding_server_fence_active" {
		t.Fatalf("gathered %v, %v", families, err)
	}
	return families[0].GetMetric()[0].GetGauge().GetValue()
}

// run lets the monitor run for a time that takes no time.
func (m *monitored) run(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := m.Start(ctx); err != nil {
		t.Errorf("Start = %v", err)
	}
}

// All shards at first, then each in turn, once a minute; it is logged once.
func TestMonitorProves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMonitored(t, 20)
		if got := m.active(t); got != 0 {
			t.Errorf("the gauge is %v before the first proof", got)
		}
		m.run(t, 200*time.Second)
		if diff := cmp.Diff([]time.Duration{0, time.Minute, 2 * time.Minute, 3 * time.Minute}, m.at); diff != "" {
			t.Fatalf("proofs at (-want +got):\n%s", diff)
		}
		if len(m.asked[0]) != 20 {
			t.Errorf("the first proof is of %d shards", len(m.asked[0]))
		}
		seen := slices.Concat(m.asked[1:]...)
		slices.Sort(seen)
		if n := len(slices.Compact(seen)); n != 20 {
			t.Errorf("the next three proofs are of %d different shards, want all", n)
		}
		if got := m.active(t); got != 1 {
			t.Errorf("the gauge is %v", got)
		}
		if len(m.lines) != 1 {
			t.Errorf("logged %q, want one line", m.lines)
		}
	})
}

// What stops nothing is said once, and looked at again a minute later.
func TestMonitorGoesOnWithout(t *testing.T) {
	for _, reason := range []error{ErrUnsupported, ErrOutside} {
		synctest.Test(t, func(t *testing.T) {
			m := newMonitored(t, 4)
			m.answer = fmt.Errorf("asking: %w", reason)
			m.run(t, 150*time.Second)
			if len(m.asked) != 3 || len(m.lines) != 1 || m.active(t) != 0 {
				t.Errorf("%d proofs, lines %q, gauge %v", len(m.asked), m.lines, m.active(t))
			}
		})
	}
}

// A fence that is new is waited for in silence, one that stays away or goes is an error, said once; when it
// is back all shards are proved again.
func TestMonitorTellsOfChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMonitored(t, 20)
		m.answer = ErrInactive
		m.run(t, 4500*time.Millisecond)
		if len(m.lines) != 0 || len(m.asked) != 5 {
			t.Errorf("%d proofs, lines %q in the first seconds", len(m.asked), m.lines)
		}
		m.run(t, time.Minute)
		if len(m.lines) != 1 || m.active(t) != 0 {
			t.Errorf("lines %q, gauge %v after a minute", m.lines, m.active(t))
		}
		m.answer = nil
		m.run(t, time.Second)
		m.answer = errors.New("no answer")
		m.run(t, time.Second)
		if len(m.lines) != 3 || m.active(t) != 0 {
			t.Errorf("lines %q, gauge %v after it came and went", m.lines, m.active(t))
		}
		m.answer = nil
		m.run(t, time.Second)
		if last := m.asked[len(m.asked)-1]; len(last) != 20 || m.active(t) != 1 {
			t.Errorf("%d shards proved when it is back, gauge %v", len(last), m.active(t))
		}
	})
}

func TestNewMonitorRefuses(t *testing.T) {
	if _, err := NewMonitor(MonitorOptions{Proof: ProofOptions{Namespace: "operators", Shards: 1}}); err == nil {
		t.Error("accepted without a client")
	}
	registry := prometheus.NewRegistry()
	o := MonitorOptions{Proof: ProofOptions{Client: fake.NewClientset(), Namespace: "operators", Shards: 1}, Registerer: registry}
	if _, err := NewMonitor(o); err != nil {
		t.Fatal(err)
	}
	if _, err := NewMonitor(o); err == nil {
		t.Error("registered twice")
	}
}
