package sharding

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"example.com/redis-operator/sharding/placement"
)

// gathered returns the series of a gauge, by the value of their label.
func gathered(t *testing.T, snapshot Snapshot, name string) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(newGauges(func() Snapshot { return snapshot }))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			label := ""
			for _, pair := range metric.GetLabel() {
				label = pair.GetValue()
			}
			series[label] = metric.GetGauge().GetValue()
		}
	}
	return series
}

// TestWeightGauges: the weight of a shard is told by who admits work of it, and by nobody else.
func TestWeightGauges(t *testing.T) {
	p := placement.New(Settings{Shards: 3, Hash: placement.HashFNV1aMix}, placement.Timings{})
	p.Expected, p.Homes = []Member{"x-0", "x-1"}, []Member{"x-0", "x-0", "x-1"}
	p.Weights = map[Shard]int64{0: 10, 1: 20, 2: 34}
	snapshot := Snapshot{Placement: p, Shards: []ShardSnapshot{
		{Shard: 0, State: stateAdmitting}, {Shard: 1, State: stateAdmitting}, {Shard: 2, State: stateWarm},
	}}
	if diff := cmp.Diff(map[string]float64{"0": 10, "1": 20}, gathered(t, snapshot, "sharding_shard_weight")); diff != "" {
		t.Errorf("weights (-want +got):\n%s", diff)
	}
	// Of 64 in all with two members, and a heaviest shard of 34.
	if got := gathered(t, snapshot, "sharding_weight_bound")[""]; got < 39.09 || got > 39.11 {
		t.Errorf("the bound is %v, want 1.15 x 34", got)
	}
	snapshot.Placement.Weights = nil
	if got := gathered(t, snapshot, "sharding_shard_weight"); len(got) != 0 {
		t.Errorf("weights %v where there are none", got)
	}
	if got := gathered(t, snapshot, "sharding_weight_bound")[""]; got != 0 {
		t.Errorf("a bound of %v where there are no weights", got)
	}
}
