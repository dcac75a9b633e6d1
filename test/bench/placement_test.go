package bench

import (
	"fmt"
	"strings"
	"testing"
)

// TestPlacement: the figures that the design promises, which do not depend on the machine.
func TestPlacement(t *testing.T) {
	var out strings.Builder
	if err := Placement(&out); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for line := range strings.Lines(out.String()) {
		var metric, value, unit string
		if _, err := fmt.Sscanf(line, "bench placement %s %s %s", &metric, &value, &unit); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		got[metric] = value
	}
	for metric, want := range map[string]string{
		"moved_over_optimal_max":      "1",
		"shards_above_mean_max":       "1",
		"moves_per_shard_in_roll_max": "2",
	} {
		if got[metric] != want {
			t.Errorf("%s is %s, want %s", metric, got[metric], want)
		}
		if got["plain_ring_"+metric] == "" {
			t.Errorf("no plain_ring_%s", metric)
		}
	}
	t.Log(out.String())
}
