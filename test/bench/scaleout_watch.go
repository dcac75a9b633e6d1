package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "example.com/redis-operator/api/v1"
)

// clusterWatch follows the generations of every RedisCluster. It is safe for concurrent use.
type clusterWatch struct {
	mu     sync.Mutex // guards the fields below
	states map[client.ObjectKey]clusterState
	// missing are the clusters of the present batch whose status does not speak of the changed spec yet, doneAt is when
	// that of the others did, and done is closed with the last.
	missing map[client.ObjectKey]int64
	doneAt  map[client.ObjectKey]time.Time
	done    chan struct{}
}

type clusterState struct {
	generation, observed int64
	isReady              bool
}

// startClusterWatch watches until ctx ends.
func startClusterWatch(ctx context.Context, config *rest.Config) (*clusterWatch, error) {
	w := &clusterWatch{states: map[client.ObjectKey]clusterState{}}
	watched, err := cache.New(config, cache.Options{Scheme: cacheScheme(), DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return nil, fmt.Errorf("watching RedisClusters: %w", err)
	}
	go func() { _ = watched.Start(ctx) }() // it ends with ctx
	informer, err := watched.GetInformer(ctx, &redisv1.RedisCluster{})
	if err != nil {
		return nil, fmt.Errorf("watching RedisClusters: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: w.see, UpdateFunc: func(_, object any) { w.see(object) },
	})
	return w, err
}

func (w *clusterWatch) see(object any) {
	cluster, ok := object.(*redisv1.RedisCluster)
	if !ok {
		return
	}
	key := client.ObjectKeyFromObject(cluster)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.states[key] = clusterState{
		generation: cluster.Generation, observed: cluster.Status.ObservedGeneration,
		isReady: cluster.Status.Phase == redisv1.PhaseReady,
	}
	target, isMissing := w.missing[key]
	if !isMissing || cluster.Status.ObservedGeneration < target {
		return
	}
	w.doneAt[key] = time.Now()
	delete(w.missing, key)
	if len(w.missing) == 0 {
		close(w.done)
	}
}

// begin begins a batch that changes the spec of every cluster once. The channel is closed when all statuses speak of it.
func (w *clusterWatch) begin() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.missing, w.doneAt, w.done = map[client.ObjectKey]int64{}, map[client.ObjectKey]time.Time{}, make(chan struct{})
	for key, state := range w.states {
		w.missing[key] = state.generation + 1
	}
	return w.done
}

// ends is when the batch was done for each cluster for which it is.
func (w *clusterWatch) ends() map[client.ObjectKey]time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.doneAt
}

// left is how many clusters the batch is not done for.
func (w *clusterWatch) left() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.missing)
}

// settled is how many clusters are Ready as their spec has them.
func (w *clusterWatch) settled() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	count := 0
	for _, state := range w.states {
		if state.isReady && state.generation == state.observed {
			count++
		}
	}
	return count
}
