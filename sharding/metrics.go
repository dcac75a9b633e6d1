package sharding

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/guard"
	"example.com/redis-operator/sharding/placement"
)

// The metrics of this package, all of them on Options.Registerer. Every replica exports its own
// view; what a panel should sum and what it should take the maximum of is said with each.
//
//	sharding_members{state}                 gauge: processes in P by state: joining, serving, leaving, dead (max over replicas)
//	sharding_expected_members               gauge: members that P expects to work (max)
//	sharding_shards{state}                  gauge: shards of this replica by state: warming, warm, held, admitting, stalled, draining, releasing
//	sharding_shards_owned                   gauge: shards that this replica admits work of (sum; by instance for "shards by owner")
//	sharding_shards_home                    gauge: shards whose home is this replica's member (sum)
//	sharding_shards_unowned                 gauge: shards whose Lease nobody holds who is known to act, as seen here (max)
//	sharding_shard_weight{shard}            gauge: weight in P of each shard that this replica admits work of, where P records weights (sum; by instance for "weight by owner")
//	sharding_weight_bound                   gauge: what no member's homes are to weigh more than, by P; 0 where it records no weights (max)
//	sharding_unowned_seconds_total          counter: shard-seconds for which nobody admitted work of a shard that this replica then took (sum)
//	sharding_handovers_total{role}          counter: planned handovers, role winner or loser (sum)
//	sharding_failovers_total{cause}         counter: takeovers from a process that did not release: confirmed, expired (sum)
//	sharding_claims_lost_total{reason}      counter: claims that ended without a release: deadline, taken, emptied, abandoned
//	sharding_gap_seconds{kind}              histogram: kind handover or failover; from when the shard was last owned as seen here to the admission
//	sharding_drain_seconds                  histogram: from the end of admission to the last call's end
//	sharding_drain_overruns_total           counter: drains that overran their bound and were tried again
//	sharding_warm_seconds                   histogram: loading all scopes of one shard
//	sharding_warm_stuck_scopes              gauge: namespaces that have not synced for 10 s (sum)
//	sharding_scopes                         gauge: namespaces cached on this replica (sum)
//	sharding_placement_version              gauge: resourceVersion of P as seen here
//	sharding_placement_changes_total        counter: versions of P seen here
//	sharding_placement_writes_total{result} counter: writes of P by this replica: ok, conflict, error
//	sharding_guard_refusals_total{reason}   counter: calls that the guard refused: not_admitted, draining, expired, stale_epoch
//	sharding_queue_drops_total              counter: keys dropped when taken from the queue, since their shard is not held
//	sharding_ready                          gauge: 1 when /readyz passes

// metrics are what a replica counts. Gauges are collected from the last snapshot.
type metrics struct {
	unownedSeconds   prometheus.Counter
	handovers        *prometheus.CounterVec
	failovers        *prometheus.CounterVec
	claimsLost       *prometheus.CounterVec
	gap              *prometheus.HistogramVec
	drainSeconds     prometheus.Histogram
	drainOverruns    prometheus.Counter
	warmSeconds      prometheus.Histogram
	placementChanges prometheus.Counter
	placementWrites  *prometheus.CounterVec
	refusals         *prometheus.CounterVec
	drops            prometheus.Counter

	lastVersion string // of P; touched by the coordinator alone
}

func newMetrics() *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "sharding_" + name, Help: help})
	}
	counters := func(name, help, label string, values ...string) *prometheus.CounterVec {
		vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sharding_" + name, Help: help}, []string{label})
		for _, value := range values {
			vec.WithLabelValues(value) // present from the start, so that a rate can be taken of the first
		}
		return vec
	}
	histogram := func(name, help string) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{
			Name: "sharding_" + name, Help: help,
			Buckets: []float64{.005, .01, .025, .05, .1, .175, .25, .5, 1, 2, 5, 10, 15, 30, 60},
		}
	}
	m := &metrics{
		unownedSeconds: counter("unowned_seconds_total", "Shard-seconds for which nobody admitted work of a shard that this replica then took."),
		handovers:      counters("handovers_total", "Planned handovers, by the part that this replica had.", "role", "winner", "loser"),
		failovers:      counters("failovers_total", "Shards taken from a process that did not release them.", "cause", "confirmed", "expired"),
		claimsLost:     counters("claims_lost_total", "Claims that ended without a release.", "reason", "deadline", "taken", "emptied", "abandoned"),
		gap: prometheus.NewHistogramVec(histogram("gap_seconds",
			"From when the shard was last owned, as seen here, to its admission."), []string{"kind"}),
		drainSeconds:     prometheus.NewHistogram(histogram("drain_seconds", "From the end of admission to the end of the last call.")),
		drainOverruns:    counter("drain_overruns_total", "Drains that overran their bound and were tried again."),
		warmSeconds:      prometheus.NewHistogram(histogram("warm_seconds", "Loading all scopes of one shard.")),
		placementChanges: counter("placement_changes_total", "Versions of the placement seen."),
		placementWrites:  counters("placement_writes_total", "Writes of the placement.", "result", "ok", "conflict", "error"),
		refusals:         counters("guard_refusals_total", "Calls that the guard refused.", "reason", "not_admitted", "draining", "expired", "stale_epoch"),
		drops:            counter("queue_drops_total", "Keys dropped when taken from the queue, since their shard is not held."),
	}
	m.gap.WithLabelValues("handover")
	m.gap.WithLabelValues("failover")
	return m
}

func (m *metrics) register(registerer prometheus.Registerer, gauges prometheus.Collector) error {
	for _, collector := range []prometheus.Collector{
		m.unownedSeconds, m.handovers, m.failovers, m.claimsLost, m.gap, m.drainSeconds, m.drainOverruns,
		m.warmSeconds, m.placementChanges, m.placementWrites, m.refusals, m.drops, gauges,
	} {
		if err := registerer.Register(collector); err != nil {
			return fmt.Errorf("registering the sharding metrics: %w", err)
		}
	}
	return nil
}

func (m *metrics) claimChanged(event claim.Event) {
	if event.Type == claim.Lost {
		reason := map[claim.Reason]string{
			claim.ReasonDeadline: "deadline", claim.ReasonTaken: "taken",
			claim.ReasonEmptied: "emptied", claim.ReasonAbandoned: "abandoned",
		}[event.Reason]
		m.claimsLost.WithLabelValues(reason).Inc()
	}
}

func (m *metrics) placementSeen(p placement.Placement) {
	if p.Version != m.lastVersion {
		m.lastVersion = p.Version
		m.placementChanges.Inc()
	}
}

func (m *metrics) placementWritten(err error) {
	result := "ok"
	switch {
	case errors.Is(err, placement.ErrConflict):
		result = "conflict"
	case err != nil:
		result = "error"
	}
	m.placementWrites.WithLabelValues(result).Inc()
}

func (m *metrics) drained(took time.Duration, overran bool) {
	if overran {
		m.drainOverruns.Inc()
		return
	}
	m.drainSeconds.Observe(took.Seconds())
}

// Dropped counts a key that was dropped.
func (m *metrics) Dropped(Shard) { m.drops.Inc() }

// Refused counts a call that was refused.
func (m *metrics) Refused(_ Shard, reason error) {
	label := "not_admitted"
	switch {
	case errors.Is(reason, guard.ErrDraining):
		label = "draining"
	case errors.Is(reason, guard.ErrExpired):
		label = "expired"
	case errors.Is(reason, guard.ErrStaleEpoch):
		label = "stale_epoch"
	}
	m.refusals.WithLabelValues(label).Inc()
}

// gauges collects what a snapshot says at the moment of a scrape.
type gauges struct {
	snapshot func() Snapshot
	descs    map[string]*prometheus.Desc
}

func newGauges(snapshot func() Snapshot) *gauges {
	g := &gauges{snapshot: snapshot, descs: map[string]*prometheus.Desc{}}
	desc := func(name, help string, labels ...string) {
		g.descs[name] = prometheus.NewDesc("sharding_"+name, help, labels, nil)
	}
	desc("members", "Processes recorded in the placement, by state.", "state")
	desc("expected_members", "Members that the placement expects to work.")
	desc("shards", "Shards of this replica, by state.", "state")
	desc("shards_owned", "Shards that this replica admits work of.")
	desc("shards_home", "Shards whose home is this replica's member.")
	desc("shards_unowned", "Shards whose Lease is free, or held by a process that is dead, unknown or has let it run out, as seen here.")
	desc("shard_weight", "Weight in the placement of a shard that this replica admits work of.", "shard")
	desc("weight_bound", "What no member's homes are to weigh more than, by the placement; 0 where it records no weights.")
	desc("warm_stuck_scopes", "Namespaces that have not synced for 10 s.")
	desc("scopes", "Namespaces cached on this replica.")
	desc("placement_version", "resourceVersion of the placement as seen here.")
	desc("ready", "1 when the readiness check passes.")
	return g
}

// Describe implements prometheus.Collector.
func (g *gauges) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range g.descs {
		out <- desc
	}
}

// Collect implements prometheus.Collector.
func (g *gauges) Collect(out chan<- prometheus.Metric) {
	s := g.snapshot()
	set := func(name string, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(g.descs[name], prometheus.GaugeValue, value, labels...)
	}
	members := map[placement.State]int{}
	for _, process := range s.Placement.Processes {
		members[process.State]++
	}
	for _, state := range []placement.State{placement.Joining, placement.Serving, placement.Leaving, placement.Dead} {
		set("members", float64(members[state]), string(state))
	}
	states, owned, home, unowned, scopes := map[string]int{}, 0, 0, 0, 0
	for _, shard := range s.Shards {
		states[shard.State]++
		scopes += shard.Scopes
		owned += count(shard.State == stateAdmitting)
		home += count(shard.Home == s.Identity.Member() && shard.Home != "")
		unowned += count(shard.Unowned)
		if weight, ok := s.Placement.Weights[shard.Shard]; ok && shard.State == stateAdmitting {
			set("shard_weight", float64(weight), strconv.Itoa(int(shard.Shard)))
		}
	}
	set("weight_bound", s.Placement.BoundOfWeights())
	for _, state := range shardStates {
		set("shards", float64(states[state]), state)
	}
	set("expected_members", float64(len(s.Placement.Expected)))
	set("shards_owned", float64(owned))
	set("shards_home", float64(home))
	set("shards_unowned", float64(unowned))
	set("scopes", float64(scopes))
	set("warm_stuck_scopes", float64(s.Stuck))
	set("ready", float64(count(s.Ready)))
	version, err := strconv.ParseFloat(s.Placement.Version, 64)
	if err == nil {
		set("placement_version", version)
	}
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}
