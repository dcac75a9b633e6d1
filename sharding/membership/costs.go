package membership

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"example.com/redis-operator/sharding/placement"
)

// formatCosts writes costs as shard=objects/milliseconds, in the order of the shards.
func formatCosts(costs map[placement.Shard]placement.Cost) string {
	fields := make([]string, 0, len(costs))
	for _, shard := range slices.Sorted(maps.Keys(costs)) {
		fields = append(fields, fmt.Sprintf("%d=%d/%d", shard, costs[shard].Objects, costs[shard].Milliseconds))
	}
	return strings.Join(fields, ",")
}

// parseCosts is the reverse of formatCosts. What cannot be read is left out: it counts as not
// measured.
func parseCosts(text string) map[placement.Shard]placement.Cost {
	var costs map[placement.Shard]placement.Cost
	for field := range strings.SplitSeq(text, ",") {
		name, cost, _ := strings.Cut(field, "=")
		first, second, _ := strings.Cut(cost, "/")
		shard, shardErr := strconv.Atoi(name)
		objects, objectsErr := strconv.Atoi(first)
		milliseconds, millisecondsErr := strconv.Atoi(second)
		if shardErr != nil || objectsErr != nil || millisecondsErr != nil || min(shard, objects, milliseconds) < 0 {
			continue
		}
		if costs == nil {
			costs = make(map[placement.Shard]placement.Cost)
		}
		costs[placement.Shard(shard)] = placement.Cost{Objects: objects, Milliseconds: milliseconds}
	}
	return costs
}
