package serverfence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"example.com/redis-operator/sharding/placement"
)

const (
	// firstRetry is the time between two proofs after the start: the policies may be as new as the
	// process, and the Leases not made yet. firstTries of them may fail before that is worth a line.
	firstRetry = time.Second
	firstTries = 30
	// retry is the time between two proofs after a failure.
	retry = 5 * time.Second
	// proofBound bounds one proof.
	proofBound = 30 * time.Second
	// shardsARound are the shards that a proof after the first looks at, in turn: many replicas ask the
	// same server.
	shardsARound = 8
)

// MonitorOptions configure a Monitor. Proof is required.
type MonitorOptions struct {
	// Proof says what is proved.
	Proof ProofOptions
	// Interval is the time between two proofs; default one minute.
	Interval time.Duration
	// Registerer takes sharding_server_fence_active; nil means that it is not registered.
	Registerer prometheus.Registerer
	// Log is told of changes only. Default: nobody.
	Log logr.Logger
}

// Monitor proves the fence at the start, over all shards, and again and again afterwards. It is a
// manager.Runnable. That the fence is not in force stops nothing: it is logged once and exported.
type Monitor struct {
	o      MonitorOptions
	gauge  prometheus.Gauge
	prove  func(ctx context.Context, shards []placement.Shard) error
	tries  int
	proved bool // a full proof has succeeded since the last failure
	next   int  // the first shard of the next round
	said   string
}

// NewMonitor returns a monitor that does nothing before Start.
func NewMonitor(o MonitorOptions) (*Monitor, error) {
	if o.Proof.Client == nil || o.Proof.Namespace == "" || o.Proof.Shards < 1 {
		return nil, errors.New("watching the server's fence: Client, Namespace and Shards are required")
	}
	if o.Interval == 0 {
		o.Interval = time.Minute
	}
	if o.Log.GetSink() == nil {
		o.Log = logr.Discard()
	}
	m := &Monitor{o: o, gauge: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "sharding_server_fence_active",
		Help: "1 when the last proof that the API server refuses writes of other holders' shards succeeded.",
	})}
	m.prove = func(ctx context.Context, shards []placement.Shard) error { return Prove(ctx, o.Proof, shards) }
	if o.Registerer != nil {
		if err := o.Registerer.Register(m.gauge); err != nil {
			return nil, fmt.Errorf("registering the metric of the server's fence: %w", err)
		}
	}
	return m, nil
}

// NeedLeaderElection is false: every replica finds out for itself.
func (m *Monitor) NeedLeaderElection() bool { return false }

// Start proves until ctx ends. It never returns an error.
func (m *Monitor) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		_ = pause(ctx, m.round(ctx)) // that ctx has ended is seen above
	}
	return nil
}

// round makes one proof and returns the time until the next.
func (m *Monitor) round(ctx context.Context) time.Duration {
	bounded, cancel := context.WithTimeout(ctx, proofBound)
	defer cancel()
	err := m.prove(bounded, m.shards())
	if ctx.Err() != nil {
		return 0
	}
	m.tries++
	m.proved = err == nil
	if err == nil {
		m.gauge.Set(1)
		m.say("active", func() { m.o.Log.Info("Proving server fence active") })
		return m.o.Interval
	}
	m.gauge.Set(0)
	switch {
	case errors.Is(err, ErrUnsupported), errors.Is(err, ErrOutside):
		m.say(err.Error(), func() { m.o.Log.Info("Going on without server fence", "reason", err.Error()) })
		return m.o.Interval
	case m.tries <= firstTries:
		m.o.Log.V(1).Info("Waiting for server fence", "reason", err.Error())
		return firstRetry
	}
	m.say("inactive", func() { m.o.Log.Error(err, "Proving server fence") })
	return retry
}

// say logs what has changed since it was last said.
func (m *Monitor) say(what string, log func()) {
	if m.said != what {
		m.said = what
		log()
	}
}

// shards are those of the next proof: all of them until that has succeeded once, then some in turn.
func (m *Monitor) shards() []placement.Shard {
	n, count := m.o.Proof.Shards, shardsARound
	if !m.proved || count > n {
		count = n
	}
	shards := make([]placement.Shard, 0, count)
	for i := range count {
		shards = append(shards, placement.Shard((m.next+i)%n))
	}
	m.next = (m.next + count) % n
	return shards
}
