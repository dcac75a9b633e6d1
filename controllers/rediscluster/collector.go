package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/controllers/rediscluster/plan"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// listTimeout bounds the reading of the clusters for one scrape. The cache answers from memory.
const listTimeout = 5 * time.Second

// phases are all values of the label phase.
var phases = []redisv1.Phase{
	redisv1.PhasePending, redisv1.PhaseCreating, redisv1.PhaseReady, redisv1.PhaseUpdating, redisv1.PhaseDegraded,
	redisv1.PhaseFailed,
}

var (
	perCluster   = []string{"namespace", "name"}
	clustersDesc = prometheus.NewDesc("redis_operator_clusters", "RedisClusters that this replica owns, by phase.", []string{"phase"}, nil)
	readyDesc    = prometheus.NewDesc("redis_operator_cluster_ready", "Whether the cluster is Ready (1) or not (0).", perCluster, nil)
	nodesDesc    = prometheus.NewDesc("redis_operator_cluster_nodes", "Nodes that the cluster has.", perCluster, nil)
	workingDesc  = prometheus.NewDesc("redis_operator_cluster_ready_nodes", "Nodes of the cluster that work.", perCluster, nil)
	slotsDesc    = prometheus.NewDesc("redis_operator_cluster_slots_assigned", "Slots of the cluster that have an owner, of 16384.", perCluster, nil)
)

// collector lists the owned clusters at the time of a scrape, so that the series of a cluster move with
// it to the process that owns it.
type collector struct{ reader client.Reader }

// Describe implements prometheus.Collector.
func (c *collector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, description := range []*prometheus.Desc{clustersDesc, readyDesc, nodesDesc, workingDesc, slotsDesc} {
		descriptions <- description
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
	defer cancel()
	var clusters redisv1.RedisClusterList
	if err := c.reader.List(ctx, &clusters); err != nil {
		metrics <- prometheus.NewInvalidMetric(clustersDesc, fmt.Errorf("listing RedisClusters: %w", err))
		return
	}
	gauge := func(description *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, value, labels...)
	}
	counts := map[redisv1.Phase]int{}
	for i := range clusters.Items {
		cluster := &clusters.Items[i]
		status := &cluster.Status
		phase := status.Phase
		if phase == "" {
			phase = redisv1.PhasePending
		}
		counts[phase]++
		ready := 0.0
		if meta.IsStatusConditionTrue(status.Conditions, redisv1.ConditionReady) {
			ready = 1
		}
		gauge(readyDesc, ready, cluster.Namespace, cluster.Name)
		gauge(nodesDesc, float64(len(status.Nodes)), cluster.Namespace, cluster.Name)
		gauge(workingDesc, float64(status.ReadyNodes), cluster.Namespace, cluster.Name)
		gauge(slotsDesc, float64(status.SlotsAssigned), cluster.Namespace, cluster.Name)
	}
	for _, phase := range phases {
		gauge(clustersDesc, float64(counts[phase]), string(phase))
	}
}

// passMetrics count what passes do.
type passMetrics struct {
	steps    *prometheus.CounterVec
	duration prometheus.Histogram
}

// newPassMetrics registers the metrics of passes.
func newPassMetrics(registerer prometheus.Registerer) (*passMetrics, error) {
	m := &passMetrics{
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "redis_operator_steps_total", Help: "Steps of the planner that were run, by kind and result.",
		}, []string{"kind", "result"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "redis_operator_pass_duration_seconds", Help: "Time that one pass over one cluster takes.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}),
	}
	for _, kind := range []plan.Kind{
		plan.SetConfigEpoch, plan.AddSlots, plan.Meet, plan.Replicate, plan.Forget, plan.Takeover, plan.OpenGate,
		plan.Failover, plan.Replace, plan.Restart,
	} {
		for _, result := range []string{"done", "failed"} {
			m.steps.WithLabelValues(string(kind), result)
		}
	}
	if err := errors.Join(registerer.Register(m.steps), registerer.Register(m.duration)); err != nil {
		return nil, fmt.Errorf("registering the metrics of passes: %w", err)
	}
	return m, nil
}

// countStep counts one step by its result.
func (m *passMetrics) countStep(kind plan.Kind, err error) {
	result := "done"
	if err != nil {
		result = "failed"
	}
	m.steps.WithLabelValues(string(kind), result).Inc()
}

// time starts a clock; the function that it returns observes the time since.
func (m *passMetrics) time() func() {
	start := time.Now()
	return func() { m.duration.Observe(time.Since(start).Seconds()) }
}
