package bench

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"example.com/redis-operator/sharding/placement"
)

const (
	zipfNamespaces = 1000
	zipfClusters   = 5000
	zipfExponent   = 1.1

	// What changes in a minute of churn: namespaces that vanish with all in them, others with as
	// many clusters coming in their place, and clusters that are deleted, as many being created in
	// namespaces drawn anew. After an hour about a quarter of the namespaces are others, and most
	// of the clusters.
	churnNamespaces = 5
	churnClusters   = 50
)

// zipfLoad is a set of namespaces by rank, and the clusters in each: a cluster is in the namespace
// of rank k with a probability in proportion to k^-1.1. It depends on the seed alone.
type zipfLoad struct {
	random     *rand.Rand
	names      []string
	clusters   []int
	cumulative []float64 // of the weights of the ranks
}

func newZipfLoad(seed uint64) *zipfLoad {
	l := &zipfLoad{
		random:   rand.New(rand.NewPCG(seed, 0)), //nolint:gosec // G404: a load that can be repeated
		clusters: make([]int, zipfNamespaces),
	}
	sum := 0.0
	for rank := range zipfNamespaces {
		sum += math.Pow(float64(rank+1), -zipfExponent)
		l.cumulative = append(l.cumulative, sum)
		l.names = append(l.names, l.name())
	}
	for range zipfClusters {
		l.clusters[l.draw()]++
	}
	return l
}

// name makes a new name of one of the kinds that clusters have.
func (l *zipfLoad) name() string {
	number := l.random.IntN(1_000_000)
	switch l.random.IntN(4) {
	case 0:
		return fmt.Sprintf("tenant-%06d", number)
	case 1:
		return fmt.Sprintf("team-%d-prod", number)
	case 2:
		return fmt.Sprintf("pr-%d", number)
	}
	return fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", l.random.Uint32(), l.random.IntN(1<<16),
		l.random.IntN(1<<12), l.random.IntN(1<<12), l.random.Uint64()>>16)
}

// draw picks the rank of a namespace.
func (l *zipfLoad) draw() int {
	at := l.random.Float64() * l.cumulative[zipfNamespaces-1]
	rank, _ := slices.BinarySearchFunc(l.cumulative, at, func(c, at float64) int { return cmp.Compare(c, at) })
	return min(rank, zipfNamespaces-1)
}

// costs are what the owners of the shards count.
func (l *zipfLoad) costs() map[placement.Shard]placement.Cost {
	settings := zipfSettings()
	objects := make([]int, settings.Shards)
	for rank, name := range l.names {
		objects[settings.ShardOf(name)] += l.clusters[rank]
	}
	costs := make(map[placement.Shard]placement.Cost, settings.Shards)
	for shard, n := range objects {
		costs[placement.Shard(shard)] = placement.Cost{Objects: n}
	}
	return costs
}

// churn lets a minute pass.
func (l *zipfLoad) churn() {
	for range churnNamespaces {
		l.names[l.random.IntN(zipfNamespaces)] = l.name()
	}
	for range churnClusters {
		l.remove(l.random.IntN(zipfClusters))
		l.clusters[l.draw()]++
	}
}

// remove deletes one cluster, counted through all namespaces.
func (l *zipfLoad) remove(cluster int) {
	for rank, n := range l.clusters {
		if cluster < n {
			l.clusters[rank]--
			return
		}
		cluster -= n
	}
}
