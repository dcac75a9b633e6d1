package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	redisv1 "example.com/redis-operator/api/v1"
)

const (
	batchPatience = 20 * time.Minute
	// saturated is the share of the host's cores from which on it is not the replicas alone that wait; limitUsed is what
	// one replica has to use of its limit, or else it was not the limit that held it back.
	saturated, limitUsed = 0.85, 0.9
	// directive is what a batch changes, to one policy after the other.
	directive = "maxmemory-policy"
)

// policy is the value of the directive after so many batches.
func policy(batch int) redisv1.ConfigValue {
	policies := []redisv1.ConfigValue{"noeviction", "allkeys-lru", "allkeys-lfu", "volatile-lru", "volatile-lfu", "volatile-ttl"}
	return policies[batch%len(policies)]
}

// batchResult is what one batch came to.
type batchResult struct {
	lasted          time.Duration
	queueP99        time.Duration
	rss, received   float64 // of a replica, mean
	limitUsed       float64 // of the replica that used the least
	hostUsed        float64
	apiServerCores  float64
	simulationCores float64
}

// measure starts an installation, lets it settle, holds its replicas to their limit, and changes every cluster.
func (b *scaleoutBench) measure(ctx context.Context, run scaleoutRun) (batchResult, error) {
	started := time.Now()
	installed, err := b.install(ctx, run)
	defer installed.stop()
	if err == nil {
		err = b.settle(ctx, installed, b.options.Clusters)
	}
	if err != nil {
		return batchResult{}, fmt.Errorf("measuring (%s): %w", run.name, err)
	}
	for _, replica := range installed.replicas {
		if err := replica.group.limit(float64(b.options.MilliCores) / 1000); err != nil {
			return batchResult{}, err
		}
	}
	if err := pause(ctx, settleLimited); err != nil {
		return batchResult{}, err
	}
	b.report.note("%s: settled after %s, changing every cluster", run.name, time.Since(started).Round(time.Second))
	result, err := b.change(ctx, installed)
	if err != nil {
		return batchResult{}, fmt.Errorf("measuring (%s): %w", run.name, err)
	}
	return result, nil
}

// change runs a batch.
func (b *scaleoutBench) change(ctx context.Context, installed *scaleoutInstallation) (batchResult, error) {
	ctx, cancel := context.WithTimeout(ctx, batchPatience)
	defer cancel()
	before, err := b.readUsage(installed)
	if err != nil {
		return batchResult{}, err
	}
	started := time.Now()
	done := b.clusters.begin()
	changed, err := b.patchAll(ctx)
	if err != nil {
		return batchResult{}, err
	}
	b.report.note("%s: all changes written after %s", installed.run.name, time.Since(started).Round(100*time.Millisecond))
	if err := b.await(ctx, installed, done); err != nil {
		return batchResult{}, err
	}
	after, err := b.readUsage(installed)
	if err != nil {
		return batchResult{}, err
	}
	result := before.until(after, float64(b.options.MilliCores)/1000)
	var waits []time.Duration
	for key, end := range b.clusters.ends() {
		result.lasted = max(result.lasted, end.Sub(started))
		waits = append(waits, end.Sub(changed[key]))
	}
	slices.Sort(waits)
	result.queueP99 = waits[(len(waits)*99+99)/100-1]
	for _, replica := range installed.replicas {
		rss, err := residentSet(replica.command.Process.Pid)
		if err != nil {
			return batchResult{}, err
		}
		result.rss += float64(rss) / float64(len(installed.replicas))
		result.received += float64(replica.link.received.Load()) / float64(len(installed.replicas))
	}
	return result, nil
}

// patchAll changes every cluster's directive, and returns when each change was written.
func (b *scaleoutBench) patchAll(ctx context.Context) (map[client.ObjectKey]time.Time, error) {
	b.batches++
	patch := fmt.Appendf(nil, `{"spec":{"config":{%q:%q}}}`, directive, policy(b.batches))
	times := make([]time.Time, b.options.Clusters)
	key := func(i int) client.ObjectKey {
		return client.ObjectKey{Namespace: name(tenantPrefix, i%b.options.Namespaces), Name: clusterName(i)}
	}
	err := inParallel(ctx, b.options.Clusters, func(ctx context.Context, i int) error {
		cluster := &redisv1.RedisCluster{ObjectMeta: metav1.ObjectMeta{Namespace: key(i).Namespace, Name: key(i).Name}}
		err := b.client.Patch(ctx, cluster, client.RawPatch(types.MergePatchType, patch))
		times[i] = time.Now()
		return err
	})
	changed := map[client.ObjectKey]time.Time{}
	for i, at := range times {
		changed[key(i)] = at
	}
	return changed, err
}

// await waits for the end of a batch and tells how it goes.
func (b *scaleoutBench) await(ctx context.Context, installed *scaleoutInstallation, done <-chan struct{}) error {
	ticker := time.NewTicker(15 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("waiting for the end of the batch, %d clusters are left: %w", b.clusters.left(), context.Cause(ctx))
		case <-ticker.C:
		}
		b.report.note("%s: %d clusters are left", installed.run.name, b.clusters.left())
		for _, replica := range installed.replicas {
			if err := replica.err(); err != nil {
				return err
			}
		}
	}
}

// usage is processor time used so far.
type usage struct {
	at                   time.Time
	busy, total          time.Duration // of the host
	apiServer, simulated time.Duration
	replicas             []time.Duration
}

func (b *scaleoutBench) readUsage(installed *scaleoutInstallation) (usage, error) {
	u := usage{at: time.Now()}
	var err error
	if u.busy, u.total, err = hostTime(); err != nil {
		return usage{}, err
	}
	mine, err := children()
	if err != nil {
		return usage{}, err
	}
	for _, command := range []string{"kube-apiserver", "etcd"} {
		used, err := processorTime(mine[command])
		if err != nil {
			return usage{}, fmt.Errorf("looking at %s: %w", command, err)
		}
		u.apiServer += used
	}
	if u.simulated, err = processorTime(b.redis.command.Process.Pid); err != nil {
		return usage{}, err
	}
	for _, replica := range installed.replicas {
		used, err := processorTime(replica.command.Process.Pid)
		if err != nil {
			return usage{}, err
		}
		u.replicas = append(u.replicas, used)
	}
	return u, nil
}

// until is what was used between two readings, by replicas that are held to so many cores.
func (u usage) until(later usage, limit float64) batchResult {
	lasted := later.at.Sub(u.at)
	result := batchResult{
		hostUsed:        (later.busy - u.busy).Seconds() / (later.total - u.total).Seconds(),
		apiServerCores:  (later.apiServer - u.apiServer).Seconds() / lasted.Seconds(),
		simulationCores: (later.simulated - u.simulated).Seconds() / lasted.Seconds(),
	}
	for i, used := range u.replicas {
		share := (later.replicas[i] - used).Seconds() / lasted.Seconds() / limit
		if i == 0 || share < result.limitUsed {
			result.limitUsed = share
		}
	}
	return result
}

// print prints the figures of a batch, compared with the baseline if there is one, and reports whether it is valid.
func (b *scaleoutBench) print(run scaleoutRun, result, baseline batchResult) bool {
	figure := func(metric string, value float64, unit string) { b.report.figure(metric+"_"+run.name, value, unit) }
	figure("seconds", result.lasted.Seconds(), "s")
	if baseline.lasted > 0 {
		figure("time_ratio", baseline.lasted.Seconds()/result.lasted.Seconds(), "ratio")
		figure("received_ratio", result.received/baseline.received, "ratio")
	}
	figure("queue_seconds_p99", result.queueP99.Seconds(), "s")
	figure("rss_bytes_per_replica", result.rss, "bytes")
	figure("received_bytes", result.received, "bytes")
	figure("limit_used", result.limitUsed, "ratio")
	figure("host_used", result.hostUsed, "ratio")
	figure("api_server_cores", result.apiServerCores, "cores")
	figure("simulation_cores", result.simulationCores, "cores")
	valid := true
	if result.hostUsed > saturated {
		valid = false
		b.report.note("%s is INVALID: the host was saturated", run.name)
	}
	if run.replicas == 1 && result.limitUsed < limitUsed {
		valid = false
		b.report.note("%s is INVALID: the one replica used less than %g of its limit", run.name, limitUsed)
	}
	return valid
}

// compareMemory prints how the memory of a replica of eight compares with what it may be.
func (b *scaleoutBench) compareMemory(results map[int]batchResult) {
	one, hasOne := results[1]
	eight, hasEight := results[8]
	if !hasOne || !hasEight {
		return
	}
	grown := one.rss - float64(b.idle)
	b.report.figure("rss_bytes_over_idle_1", grown, "bytes")
	b.report.figure("rss_over_bound_8", (eight.rss-float64(b.idle))/(grown/8*1.25+10<<20), "ratio")
}
