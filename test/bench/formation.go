package bench

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/test/stage"
)

const (
	// redisFloor is how long a fresh primary stays in cluster_state:fail after its process started,
	// whoever assigns its slots (CLUSTER_WRITABLE_DELAY in cluster.c).
	redisFloor = 2 * time.Second
	// formationLimit bounds one formation.
	formationLimit = 3 * time.Minute
)

// Formation measures how fast a cluster of 3 primaries and 3 replicas is Ready, rounds times:
//
//   - ready_after_floor_ms: Ready minus (start of the last primary's server + 2 s, Redis's floor)
//   - ratio_to_redis_cli: from the last server's start to Ready, over the same with
//     `redis-cli --cluster create` and all replicas linked, on bare processes with the operator's
//     redis.conf that were started in the same second.
//   - container_to_server_ms: what neither of the two counts: from the creation of a container's
//     process by the runtime to the start of the server in it, in which the runtime and the
//     operator's entry program have their part.
//
// A server's start is the time in the first line of its log. The scenario needs the local
// Kubernetes: the start of a container's process is read from the kernel.
func Formation(ctx context.Context, out io.Writer, rounds int) error {
	s, err := openStage(ctx, out)
	if err != nil {
		return err
	}
	defer s.Close()
	r := report{out: out, scenario: "formation"}
	var afterFloor, operator, redisCLI, ratios, entry []float64
	for round := range rounds {
		result, err := formOnce(ctx, s, round)
		if err != nil {
			s.Report(ctx, out)
			return fmt.Errorf("round %d: %w", round, err)
		}
		afterFloor = append(afterFloor, millis(result.afterFloor))
		operator = append(operator, millis(result.operator))
		redisCLI = append(redisCLI, millis(result.redisCLI))
		entry = append(entry, millis(result.entry))
		ratios = append(ratios, result.operator.Seconds()/result.redisCLI.Seconds())
		r.note("round %d: Ready %.0f ms after the floor; from the last start %.0f ms, redis-cli %.0f ms; created -> Ready %.1f s",
			round, millis(result.afterFloor), millis(result.operator), millis(result.redisCLI), result.created.Seconds())
	}
	r.figure("ready_after_floor_ms_p50", median(afterFloor), "ms")
	r.figure("ready_after_floor_ms_max", slices.Max(afterFloor), "ms")
	r.figure("operator_ms_p50", median(operator), "ms")
	r.figure("redis_cli_ms_p50", median(redisCLI), "ms")
	r.figure("ratio_to_redis_cli", median(ratios), "ratio")
	r.figure("container_to_server_ms_p50", median(entry), "ms")
	return nil
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// formed is one round. operator and redisCLI count from the start of the last of six servers, created
// from the creation of the RedisCluster; entry is the longest time from a container to its server.
type formed struct {
	afterFloor, operator, redisCLI, created, entry time.Duration
}

func formOnce(ctx context.Context, s *stage.Stage, round int) (formed, error) {
	ctx, cancel := context.WithTimeout(ctx, formationLimit)
	defer cancel()
	w := stage.Wish{Namespace: fmt.Sprintf("formation-%d", round), Name: "cache", Size: 3, Replicas: 1}
	created := time.Now()
	if err := s.Create(ctx, w); err != nil {
		return formed{}, err
	}
	var (
		bare    time.Duration
		bareErr error
		work    sync.WaitGroup
	)
	defer work.Wait()
	if err := waitRunning(ctx, s, w); err != nil {
		return formed{}, err
	}
	conf, err := redisConf(ctx, s, w.Key())
	if err != nil {
		return formed{}, err
	}
	work.Go(func() { bare, bareErr = formBare(ctx, conf, w.Nodes()) })
	ready, err := watchReady(ctx, s, w.Key())
	if err != nil {
		return formed{}, err
	}
	starts, err := readStarts(ctx, s, w.Key())
	if err != nil {
		return formed{}, err
	}
	work.Wait()
	if bareErr != nil {
		return formed{}, fmt.Errorf("forming a cluster of bare processes: %w", bareErr)
	}
	_, err = s.Kubectl(ctx, "delete", "namespace", w.Namespace)
	return formed{
		afterFloor: ready.Sub(starts.primary) - redisFloor, operator: ready.Sub(starts.any), redisCLI: bare,
		created: ready.Sub(created), entry: starts.entry,
	}, err
}

func openStage(ctx context.Context, out io.Writer) (*stage.Stage, error) {
	if stage.OnCurrentContext() {
		return nil, fmt.Errorf("this scenario needs the local Kubernetes: unset CLUSTER")
	}
	s, err := stage.Open(ctx, stage.Options{Name: "bench", Log: func(line string) { fmt.Fprintln(out, "#", line) }})
	if err != nil {
		return nil, err
	}
	if err := s.Install(ctx); err != nil {
		s.Report(ctx, out)
		s.Close()
		return nil, err
	}
	return s, nil
}

// waitRunning waits until every Pod of the cluster has a running container.
func waitRunning(ctx context.Context, s *stage.Stage, w stage.Wish) error {
	return s.Wait(ctx, "running Pods", func() (string, error) {
		pods, err := s.RedisPods(ctx, w.Key())
		if err != nil {
			return "", err
		}
		running := 0
		for i := range pods {
			if pods[i].Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if running < w.Nodes() {
			return fmt.Sprintf("%d of %d run", running, w.Nodes()), nil
		}
		return "", nil
	})
}

// redisConf is the configuration that the operator gives the nodes of a cluster.
func redisConf(ctx context.Context, s *stage.Stage, key types.NamespacedName) (string, error) {
	var object corev1.ConfigMap
	if err := s.Client.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name + "-config"}, &object); err != nil {
		return "", fmt.Errorf("reading the nodes' configuration: %w", err)
	}
	return object.Data["redis.conf"], nil
}

// watchReady returns when a watch has told that the cluster is Ready.
func watchReady(ctx context.Context, s *stage.Stage, key types.NamespacedName) (time.Time, error) {
	list := &redisv1.RedisClusterList{}
	watcher, err := s.Client.Watch(ctx, list, client.InNamespace(key.Namespace))
	if err != nil {
		return time.Time{}, fmt.Errorf("watching %s: %w", key, err)
	}
	defer watcher.Stop()
	for {
		select {
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("waiting until %s is Ready: %w", key, ctx.Err())
		case event, open := <-watcher.ResultChan():
			if !open {
				return time.Time{}, fmt.Errorf("waiting until %s is Ready: the watch ended", key)
			}
			cluster, ok := event.Object.(*redisv1.RedisCluster)
			if !ok || cluster.Name != key.Name || !stage.IsReady(cluster) {
				continue
			}
			return time.Now(), nil
		}
	}
}

// starts is when the last primary's and the last node's server of a cluster started, and the longest
// time that any of them took from the creation of its container's process.
type starts struct {
	primary, any time.Time
	entry        time.Duration
}

func readStarts(ctx context.Context, s *stage.Stage, key types.NamespacedName) (starts, error) {
	cluster, err := s.Cluster(ctx, key)
	if err != nil {
		return starts{}, err
	}
	pods, err := s.RedisPods(ctx, key)
	if err != nil {
		return starts{}, err
	}
	var last starts
	for i := range pods {
		log, err := s.Kubectl(ctx, "logs", "-n", key.Namespace, pods[i].Name)
		if err != nil {
			return starts{}, err
		}
		started, err := serverStart(log)
		if err != nil {
			return starts{}, fmt.Errorf("reading the log of %s: %w", pods[i].Name, err)
		}
		created, err := podProcessStart(string(pods[i].UID), "redis-server")
		if err != nil {
			return starts{}, err
		}
		last.entry = max(last.entry, started.Sub(created))
		last.any = latest(last.any, started)
		for _, node := range cluster.Status.NodeStates {
			if node.Name == pods[i].Name && node.Role == "primary" {
				last.primary = latest(last.primary, started)
			}
		}
	}
	return last, nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
