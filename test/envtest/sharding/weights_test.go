package sharding

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/redis-operator/sharding"
	"example.com/redis-operator/sharding/membership"
)

// TestHeavyNamespacesMoveApart: three heavy namespaces in shards of one replica are measured,
// published and folded, and do not stay together.
func TestHeavyNamespacesMoveApart(t *testing.T) {
	i := newInstallation(t, 8)
	i.options.FoldWeights = 5 * time.Second
	i.scale(2)
	first := i.start(0)
	i.start(1)
	i.eventually("before", i.isServed)

	heavy := map[sharding.Shard]bool{}
	for n := 0; len(heavy) < 3; n++ {
		namespace := fmt.Sprintf("%s-heavy-%d", i.name, n)
		shard := first.sharding.ShardOf(namespace)
		if home := first.sharding.Snapshot().Shards[shard].Home; string(home) != first.member || heavy[shard] {
			continue
		}
		heavy[shard] = true
		i.createNamespace(namespace)
		for root := range 40 {
			i.createRoot(namespace, fmt.Sprintf("root-%d", root))
		}
	}
	i.eventually("a heavy shard moves", func() string {
		p := first.sharding.Snapshot().Placement
		for shard := range heavy {
			if home, _ := p.Home(shard); string(home) != first.member {
				return i.isServed()
			}
		}
		return fmt.Sprintf("weights are %v", p.Weights)
	})
	for shard := range heavy {
		if weight := first.sharding.Snapshot().Placement.Weights[shard]; weight < 36 {
			t.Errorf("shard %d of 40 objects or more weighs %d", shard, weight) // and the time beside
		}
	}
	// Whoever has just taken a heavy shard over measures it first.
	i.eventually("both publish their costs", func() string {
		leases, err := i.api.CoordinationV1().Leases(i.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: membership.PresenceLabel})
		if err != nil {
			return err.Error()
		}
		for _, lease := range leases.Items {
			if lease.Annotations[membership.CostsAnnotation] == "" {
				return fmt.Sprintf("%s publishes no costs: %v", lease.Name, lease.Annotations)
			}
		}
		return ""
	})
}
