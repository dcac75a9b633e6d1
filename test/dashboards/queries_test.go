package dashboards_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"example.com/redis-operator/test/dashboards"
	"example.com/redis-operator/test/stage"
)

// TestQueries runs every query of every dashboard against a Prometheus that scrapes the replicas of
// an installed operator, after shards were handed over and back: none may fail, and none may
// have nothing to draw.
func TestQueries(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	s := openStage(ctx, t)
	prometheus, err := dashboards.StartPrometheus(ctx, t.TempDir(), dashboards.Target{
		Config: s.Config, Namespace: stage.OperatorNamespace, Port: stage.MetricsPort,
		Pods: []string{"redis-operator-0", "redis-operator-1", "redis-operator-2"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(prometheus.Stop)
	// What happens before the first scrape of a replica is in no rate.
	awaitValue(ctx, t, prometheus, `count(count_over_time(sharding_ready[1m]) >= 2) == 3`)
	wishes := []stage.Wish{
		{Namespace: "dashboards-a", Name: "one", Size: 1},
		{Namespace: "dashboards-b", Name: "two", Size: 1},
	}
	for _, wish := range wishes {
		if err := s.Create(ctx, wish); err != nil {
			t.Fatal(err)
		}
	}
	moveShards(ctx, t, s)

	for _, dashboard := range dashboards.All() {
		for _, expression := range dashboard.Queries() {
			awaitValue(ctx, t, prometheus, expression)
		}
	}
}

func openStage(ctx context.Context, t *testing.T) *stage.Stage {
	t.Helper()
	s, err := stage.Open(ctx, stage.Options{Name: "dashboards", Log: func(line string) { t.Log(line) }})
	if s != nil {
		t.Cleanup(func() {
			if t.Failed() {
				s.Report(context.WithoutCancel(ctx), os.Stderr)
			}
			s.Close()
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Install(ctx); err != nil {
		t.Fatal(err)
	}
	return s
}

// moveShards deletes one replica's Pod, which hands its shards over, and waits until they are home
// again.
func moveShards(ctx context.Context, t *testing.T, s *stage.Stage) {
	t.Helper()
	if err := s.WaitSettled(ctx, stage.OperatorReplicas); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Kubectl(ctx, "delete", "pod", "-n", stage.OperatorNamespace, "redis-operator-1"); err != nil {
		t.Fatal(err)
	}
	if err := s.WaitOperator(ctx, stage.OperatorReplicas); err != nil {
		t.Fatal(err)
	}
	if err := s.WaitSettled(ctx, stage.OperatorReplicas); err != nil {
		t.Fatal(err)
	}
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
