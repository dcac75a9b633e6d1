package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "example.com/redis-operator/api/v1"
)

// loadWriters is how many changes are on their way at once.
const loadWriters = 32

// load changes RedisClusters one after another, each time to another value.
type load struct {
	cancel       context.CancelFunc
	work         sync.WaitGroup
	made, failed atomic.Int64
}

// startLoad begins to change so many RedisClusters a second, in turn. The caller stops it.
func (o *ownership) startLoad(ctx context.Context, clusters []types.NamespacedName, perSecond int) *load {
	ctx, cancel := context.WithCancel(ctx)
	l := &load{cancel: cancel}
	numbers := make(chan int)
	l.work.Go(func() { count(ctx, numbers, time.Second/time.Duration(perSecond)) })
	for range loadWriters {
		l.work.Go(func() {
			for number := range numbers {
				key := clusters[number%len(clusters)]
				err := changeMemory(ctx, o.Client, key, 64+number/len(clusters)%64)
				if err == nil {
					l.made.Add(1)
				} else if ctx.Err() == nil {
					l.failed.Add(1)
				}
			}
		})
	}
	return l
}

// count sends the numbers from 0 on, one at each tick, until ctx ends.
func count(ctx context.Context, numbers chan<- int, every time.Duration) {
	defer close(numbers)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for number := 0; ; number++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		select {
		case <-ctx.Done():
			return
		case numbers <- number:
		}
	}
}

// stop ends the changes and waits for the last.
func (l *load) stop() {
	l.cancel()
	l.work.Wait()
}

func changeMemory(ctx context.Context, c client.Client, key types.NamespacedName, megabytes int) error {
	cluster := &redisv1.RedisCluster{}
	cluster.Namespace, cluster.Name = key.Namespace, key.Name
	patch := fmt.Sprintf(`{"spec":{"config":{"maxmemory":"%dmb"}}}`, megabytes)
	return c.Patch(ctx, cluster, client.RawPatch(types.MergePatchType, []byte(patch)))
}
