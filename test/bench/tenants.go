package bench

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/sharding/placement"
	"example.com/redis-operator/test/stage"
)

// spread returns names of namespaces, at least one in each of the shards.
func spread(namespaces int, settings placement.Settings) []string {
	empty := map[placement.Shard]bool{}
	for shard := range placement.Shard(settings.Shards) {
		empty[shard] = true
	}
	var names []string
	for number := 0; len(names) < namespaces; number++ {
		name := fmt.Sprintf("tenant-%03d", number)
		shard := settings.ShardOf(name)
		if !empty[shard] && namespaces-len(names) <= len(empty) {
			continue // what is left is needed for the shards without any
		}
		delete(empty, shard)
		names = append(names, name)
	}
	return names
}

// createPaused creates a paused RedisCluster in each of the namespaces, which has no nodes: the operator
// keeps its status. It returns when the operator has seen all of them.
func (o *ownership) createPaused(ctx context.Context, namespaces []string) ([]types.NamespacedName, error) {
	keys := make([]types.NamespacedName, 0, len(namespaces))
	for _, namespace := range namespaces {
		w := stage.Wish{Namespace: namespace, Name: "cache", Size: 1}
		if err := o.CreateNamespace(ctx, namespace); err != nil {
			return nil, err
		}
		cluster := w.Build(o.RedisImage)
		cluster.Spec.Paused = true
		if err := o.Client.Create(ctx, cluster); err != nil {
			return nil, fmt.Errorf("creating RedisCluster %s: %w", w.Key(), err)
		}
		keys = append(keys, w.Key())
	}
	return keys, o.Wait(ctx, "the operator to see every RedisCluster", func() (string, error) {
		var list redisv1.RedisClusterList
		if err := o.Client.List(ctx, &list); err != nil {
			return "", err
		}
		for i := range list.Items {
			if list.Items[i].Status.ObservedGeneration != list.Items[i].Generation {
				return list.Items[i].Namespace, nil
			}
		}
		return "", nil
	})
}
