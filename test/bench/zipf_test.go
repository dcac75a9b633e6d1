package bench

import (
	"fmt"
	"strings"
	"testing"
)

// TestZipf: what the design promises where few namespaces have most of the clusters.
func TestZipf(t *testing.T) {
	var out strings.Builder
	Zipf(&out)
	got := make(map[string]float64)
	for line := range strings.Lines(out.String()) {
		var metric, unit string
		var value float64
		if _, err := fmt.Sscanf(line, "bench zipf %s %f %s", &metric, &value, &unit); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		got[metric] = value
	}
	for metric, most := range map[string]float64{"max_over_bound": 1.15, "moves_per_shard_max": 2} {
		if value, ok := got[metric]; !ok || value > most {
			t.Errorf("%s is %v, at most %v is promised", metric, value, most)
		}
	}
	t.Log(out.String())
}

// TestZipfLoad: a load has as many clusters as it is to have, and depends on its seed alone.
func TestZipfLoad(t *testing.T) {
	a, b := newZipfLoad(7), newZipfLoad(7)
	for range 10 {
		a.churn()
		b.churn()
	}
	total, heaviest := 0, 0
	for shard, cost := range a.costs() {
		total += cost.Objects
		heaviest = max(heaviest, cost.Objects)
		if other := b.costs()[shard]; other != cost {
			t.Errorf("shard %d: %v and %v under one seed", shard, cost, other)
		}
	}
	if total != zipfClusters {
		t.Errorf("%d clusters, want %d", total, zipfClusters)
	}
	// The first rank alone has 18 percent of all.
	if heaviest < zipfClusters/8 || heaviest > zipfClusters/2 {
		t.Errorf("the heaviest shard has %d of %d clusters", heaviest, zipfClusters)
	}
}
