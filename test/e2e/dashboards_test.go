package e2e

import (
	"context"
	"errors"
	"testing"
	"time"

	"example.com/redis-operator/test/dashboards"
	"example.com/redis-operator/test/stage"
)

// Every query of every dashboard is asked of a Prometheus that scrapes the replicas, after shards were
// handed over and back: none may fail, and none may have nothing to draw.
func TestDashboardQueries(t *testing.T) {
	ctx := story(t)
	prometheus, err := dashboards.StartPrometheus(ctx, t.TempDir(), dashboards.Target{
		Config: env.Config, Namespace: stage.OperatorNamespace, Port: stage.MetricsPort,
		Pods: []string{"redis-operator-0", "redis-operator-1", "redis-operator-2"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(prometheus.Stop)
	// What happens before the first scrape of a replica is in no rate.
	awaitValue(ctx, t, prometheus, `count(count_over_time(sharding_ready[1m]) >= 2) == 3`)
	create(ctx, t, fleetOf("drawn", 2)...)
	moveShards(ctx, t)
	for _, dashboard := range dashboards.All() {
		for _, expression := range dashboard.Queries() {
			awaitValue(ctx, t, prometheus, expression)
		}
	}
}

// moveShards deletes one replica's Pod, which hands its shards over, and waits until they are home
// again.
func moveShards(ctx context.Context, t *testing.T) {
	t.Helper()
	settled(ctx, t, stage.OperatorReplicas)
	if _, err := env.Kubectl(ctx, "delete", "pod", "-n", stage.OperatorNamespace, "redis-operator-1"); err != nil {
		t.Fatal(err)
	}
	if err := env.WaitOperator(ctx, stage.OperatorReplicas); err != nil {
		t.Fatal(err)
	}
	settled(ctx, t, stage.OperatorReplicas)
}

// awaitValue asks until the query has a value: a rate needs two scrapes.
func awaitValue(ctx context.Context, t *testing.T, prometheus *dashboards.Prometheus, expression string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	var empty error // what the last answer lacked
	for {
		err := prometheus.Query(ctx, expression)
		switch {
		case err == nil:
			return
		case errors.Is(err, dashboards.ErrEmpty):
			empty = err
		default:
			t.Error(errors.Join(err, empty))
			return
		}
		select {
		case <-ctx.Done():
			t.Error(empty)
			return
		case <-tick.C:
		}
	}
}
