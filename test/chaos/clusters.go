package chaos

import (
	"context"
	"fmt"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/test/chaos/check"
	"example.com/redis-operator/test/stage"
)

// What the checker is told of the installation, as deploy/default makes it.
const (
	shards         = 64
	leasePrefix    = "redis-operator-shard-"
	leaseDuration  = 10 * time.Second
	clusterName    = "cache"
	observeBound   = 30 * time.Second
	takeoverMargin = 2 * time.Second
)

func checkOptions() check.Options {
	return check.Options{
		Namespace: stage.OperatorNamespace, Account: "system:serviceaccount:redis-operator-system:redis-operator",
		LeasePrefix: leasePrefix, Placement: "redis-operator-placement",
		RootResource: "redisclusters.cache.example.com", ConnectionPrefix: "redis-operator:",
		Shards: shards, ShardLabel: "cache.example.com/shard",
		LeaseDuration: leaseDuration, GapBound: leaseDuration + takeoverMargin, ObserveBound: observeBound,
	}
}

// churn carries out the changes. One that cannot be made, because the API server is away, is left out.
func (r *run) churn(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.options.Length)
	defer cancel()
	failed := 0
	for _, change := range Churn(r.options.Seed, r.options.Length) {
		if !r.waitUntil(ctx, change.At) || r.change(ctx, change) != nil {
			failed++
		}
	}
	r.say("the churn is over; %d changes could not be made", failed)
}

func (r *run) change(ctx context.Context, change Change) error {
	ctx, cancel := context.WithTimeout(ctx, tryFor)
	defer cancel()
	wish := stage.Wish{
		Namespace: change.Namespace, Name: clusterName, Size: 1, Replicas: change.Replicas,
		Config: map[string]redisv1.ConfigValue{
			"maxmemory": redisv1.ConfigValue(fmt.Sprintf("%dmb", change.Megabytes)),
			// The servers remember every command, with the connection that it came on.
			"slowlog-log-slower-than": "0", "slowlog-max-len": "8192",
		},
	}
	cluster := wish.Build(r.RedisImage)
	switch change.Verb {
	case Create:
		return r.Client.Create(ctx, cluster)
	case Delete:
		return client.IgnoreNotFound(r.Client.Delete(ctx, cluster))
	case Configure:
	}
	var present redisv1.RedisCluster
	if err := r.Client.Get(ctx, wish.Key(), &present); err != nil {
		return err
	}
	before := present.DeepCopy()
	present.Spec.Config = wish.Config
	return r.Client.Patch(ctx, &present, client.MergeFrom(before))
}

// waitObserved waits until the operator has seen every RedisCluster as it is.
func (r *run) waitObserved(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, settleLimit, fmt.Errorf("not within %s", settleLimit))
	defer cancel()
	return r.Wait(ctx, "every generation to be observed", func() (string, error) {
		var list redisv1.RedisClusterList
		if err := r.Client.List(ctx, &list); err != nil {
			return "", err
		}
		var missing []string
		for _, cluster := range list.Items {
			if cluster.Status.ObservedGeneration != cluster.Generation {
				missing = append(missing, fmt.Sprintf("%s has generation %d, observed is %d", cluster.Namespace,
					cluster.Generation, cluster.Status.ObservedGeneration))
			}
		}
		return strings.Join(missing, "; "), nil
	})
}

func (r *run) deleteAll(ctx context.Context) error {
	var list redisv1.RedisClusterList
	if err := r.Client.List(ctx, &list); err != nil {
		return fmt.Errorf("listing RedisClusters: %w", err)
	}
	for i := range list.Items {
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, &list.Items[i])); err != nil {
			return fmt.Errorf("deleting RedisCluster %s: %w", list.Items[i].Namespace, err)
		}
	}
	return nil
}

// processes looks at every replica.
func (r *run) processes(ctx context.Context) ([]check.Process, error) {
	pods, err := r.operatorPods(ctx)
	if err != nil {
		return nil, err
	}
	var processes []check.Process
	for i := range pods {
		families, err := r.Metrics(ctx, pods[i].Name)
		if err != nil {
			return nil, err
		}
		p := check.Process{Pod: pods[i].Name, PodUID: string(pods[i].UID), Figures: check.Figures{
			Goroutines: sum(families["go_goroutines"]), QueuedKeys: sum(families["workqueue_depth"]),
			Scopes: sum(families["sharding_scopes"]),
		}}
		for _, status := range pods[i].Status.ContainerStatuses {
			if status.State.Running != nil {
				p.Started = status.State.Running.StartedAt.Time
			}
		}
		processes = append(processes, p)
	}
	return processes, nil
}

func sum(family *dto.MetricFamily) int {
	total := 0.0
	for _, metric := range family.GetMetric() {
		total += metric.GetGauge().GetValue()
	}
	return int(total)
}

// waitDropped waits until no namespace is cached any more, and looks at the processes then, or at the
// end of its patience.
func (r *run) waitDropped(ctx context.Context) ([]check.Process, error) {
	patience, cancel := context.WithTimeout(ctx, dropLimit)
	defer cancel()
	var processes []check.Process
	err := r.Wait(patience, "all namespaces to be dropped", func() (string, error) {
		seen, err := r.processes(ctx)
		if err != nil {
			return "", err
		}
		processes = seen
		for _, p := range processes {
			if p.Figures.Scopes > 0 || p.Figures.QueuedKeys > 0 {
				return p.Pod + " caches some", nil
			}
		}
		return "", nil
	})
	if len(processes) > 0 && patience.Err() != nil && ctx.Err() == nil {
		return processes, nil // the checker says what is left
	}
	return processes, err
}
