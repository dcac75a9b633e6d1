package bench

import (
	"slices"
	"testing"

	"example.com/redis-operator/sharding/placement"
)

func TestSpread(t *testing.T) {
	settings := placement.DefaultSettings()
	for _, namespaces := range []int{settings.Shards, 300} {
		names := spread(namespaces, settings)
		shards := map[placement.Shard]bool{}
		for _, name := range names {
			shards[settings.ShardOf(name)] = true
		}
		if len(slices.Compact(slices.Sorted(slices.Values(names)))) != namespaces || len(shards) != settings.Shards {
			t.Errorf("%d names in %d shards, want %d different ones in all %d", len(names), len(shards), namespaces, settings.Shards)
		}
	}
}
