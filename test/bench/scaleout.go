package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"golang.org/x/sys/unix"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/sharding"
)

// ScaleoutOptions configure Scaleout. Zero values are the defaults.
type ScaleoutOptions struct {
	// Root is the repository's folder, with bin/k8s, bin/manager and deploy/crd. Default: the parent folder.
	Root string
	// Clusters is how many RedisClusters are changed, default 2000, in so many Namespaces, default 200.
	Clusters, Namespaces int
	// MilliCores is what each replica may use of the processors, in thousandths of a core. Default 100.
	MilliCores int
	// Replicas are the sizes of the installation that are measured. Default 1, 2, 4 and 8.
	Replicas []int
	// Workers are the worker counts of the single leader that are tried beside the default one. Default 8 and 128.
	Workers []int
}

// withDefaults fills in what is not set.
func (o ScaleoutOptions) withDefaults() ScaleoutOptions {
	if o.Root == "" {
		o.Root = ".."
	}
	if o.Clusters == 0 {
		o.Clusters = 2000
	}
	if o.Namespaces == 0 {
		o.Namespaces = min(200, o.Clusters)
	}
	if o.MilliCores == 0 {
		o.MilliCores = 100
	}
	if o.Replicas == nil {
		o.Replicas = []int{1, 2, 4, 8}
	}
	if o.Workers == nil {
		o.Workers = []int{8, 128}
	}
	return o
}

// Validate reports the first option that cannot be used.
func (o ScaleoutOptions) Validate() error {
	if o.Clusters < o.Namespaces || o.Namespaces < 1 {
		return fmt.Errorf("Namespaces is %d: it must be between 1 and Clusters, %d", o.Namespaces, o.Clusters)
	}
	if o.MilliCores < 10 || o.MilliCores > 1000 {
		return fmt.Errorf("MilliCores is %d: it must be between 10 and 1000", o.MilliCores)
	}
	return nil
}

const (
	tenantPrefix = "tenant"
	// spareFiles is how many files a replica may open beside a connection to every node.
	spareFiles = 2000
)

// scaleoutBench is one run.
type scaleoutBench struct {
	options ScaleoutOptions
	report  report
	*apiServer
	redis    *runningRedis
	clusters *clusterWatch
	program  string
	logs     string
	batches  int   // changes of every cluster so far
	idle     int64 // resident set of a replica without objects, in bytes
}

// Scaleout changes the spec of every RedisCluster at once, and takes the time until every status speaks of it, with
// the real operator as one classic leader (one shard) and as 1, 2, 4 and 8 replicas, each process held to the same small
// processor limit. The API server is real; Pods exist in it only, and a program that passes the contract test of
// redis-server simulates Redis behind the wire protocol.
//
// The baseline is the single leader with the worker count that is best for it. N is the number of replicas; figures of
// the single leader end in single in its place.
//
//   - seconds_N: from the first change to the last status
//   - time_ratio_N: seconds of the baseline over seconds_N
//   - queue_seconds_p99_N: over the clusters, from the change to the status: the wait in the queue and the pass
//   - rss_bytes_per_replica_N: the mean resident set at the end of the batch; rss_bytes_idle that of a replica without objects
//   - rss_over_bound_8: growth of the resident set over its aim, an eighth of that of one replica x 1.25 + 10 MiB
//   - received_bytes_N: what a replica got from the API server from its start to the end of the batch, on the wire, mean
//   - received_ratio_N: received_bytes_N over that of the baseline
//   - limit_used_N, host_used_N, api_server_cores_N: the share of their limit that the replicas used (the least), that of
//     the host's cores used by anybody, and what etcd and kube-apiserver used
//   - valid: 0 when the host was saturated in any batch, or the single leader or the one replica used less than 90 % of
//     its limit
func Scaleout(ctx context.Context, out io.Writer, options ScaleoutOptions) error {
	options = options.withDefaults()
	if err := options.Validate(); err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	b := &scaleoutBench{options: options, report: report{out: out, scenario: "scaleout"}}
	err := b.open(ctx, fail)
	if err == nil {
		err = b.measureAll(ctx)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = errors.Join(cause, err)
	}
	b.close(err != nil)
	return err
}

// open sets the stage: API server, simulated Redis, and what plays the kubelet.
func (b *scaleoutBench) open(ctx context.Context, fail context.CancelCauseFunc) error {
	var files unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files)
	if err != nil {
		return fmt.Errorf("reading how many files may be open: %w", err)
	}
	if needed := uint64(b.options.Clusters*scaleoutNodes + spareFiles); files.Max < needed {
		return fmt.Errorf("a process may open %d files, and one replica needs %d: raise the hard limit (ulimit -Hn)", files.Max, needed)
	}
	if b.program, err = managerPath(b.options.Root); err != nil {
		return err
	}
	if b.logs, err = os.MkdirTemp("", "bench-scaleout-"); err != nil {
		return err
	}
	b.report.note("%d RedisClusters of %d nodes in %d namespaces; %d thousandths of a core a replica",
		b.options.Clusters, scaleoutNodes, b.options.Namespaces, b.options.MilliCores)
	port, err := freePort()
	if err != nil {
		return err
	}
	if b.redis, err = startRedis(ctx, redisChild{Clusters: b.options.Clusters, Port: port}); err != nil {
		return err
	}
	if b.apiServer, err = startAPIServer(b.options.Root); err != nil {
		return err
	}
	if b.clusters, err = startClusterWatch(ctx, b.environment.Config); err != nil {
		return err
	}
	pods := &podMaker{client: b.client, redis: b.redis, port: port, fail: fail}
	if err := pods.start(ctx, b.environment.Config); err != nil {
		return err
	}
	if err := b.createNamespaces(ctx, tenantPrefix, b.options.Namespaces); err != nil {
		return fmt.Errorf("creating namespaces: %w", err)
	}
	return b.fill(ctx, port)
}

// fill measures a replica without objects, creates the clusters, and lets a single leader without a limit form them.
func (b *scaleoutBench) fill(ctx context.Context, port int) error {
	idle := scaleoutRun{name: "idle", replicas: 1, shards: sharding.DefaultShards}
	if err := b.measureIdle(ctx, idle); err != nil {
		return err
	}
	started := time.Now()
	err := inParallel(ctx, b.options.Clusters, func(ctx context.Context, i int) error {
		return b.client.Create(ctx, &redisv1.RedisCluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: name(tenantPrefix, i%b.options.Namespaces), Name: clusterName(i)},
			Spec: redisv1.RedisClusterSpec{
				Size: scaleoutPrimaries, Image: "redis:7.0", Port: int32(port),
				Config: map[string]redisv1.ConfigValue{directive: policy(0)},
			},
		})
	})
	if err != nil {
		return fmt.Errorf("creating RedisClusters: %w", err)
	}
	b.report.note("%d RedisClusters created in %s", b.options.Clusters, time.Since(started).Round(time.Second))
	return b.prepare(ctx, scaleoutRun{name: "form", replicas: 1, shards: 1})
}

// measureSingle measures the classic leader with each worker count, and returns the best.
func (b *scaleoutBench) measureSingle(ctx context.Context) (best batchResult, valid bool, err error) {
	valid = true
	for _, workers := range append([]int{0}, b.options.Workers...) {
		run := scaleoutRun{name: "single", replicas: 1, shards: 1, workers: workers}
		if workers > 0 {
			run.name = fmt.Sprintf("single_workers_%d", workers)
		}
		result, err := b.measure(ctx, run)
		if err != nil {
			return batchResult{}, false, err
		}
		valid = b.print(run, result, batchResult{}) && valid
		if best.lasted == 0 || result.lasted < best.lasted {
			best = result
		}
	}
	return best, valid, nil
}

// measureAll measures the single leader, then all sizes of the installation.
func (b *scaleoutBench) measureAll(ctx context.Context) error {
	baseline, valid, err := b.measureSingle(ctx)
	if err != nil {
		return err
	}
	// The objects bear the single leader's shard; the replicas to be measured find theirs on them.
	if err := b.prepare(ctx, scaleoutRun{name: "stamp", replicas: 1, shards: sharding.DefaultShards}); err != nil {
		return err
	}
	results := map[int]batchResult{}
	for _, replicas := range b.options.Replicas {
		run := scaleoutRun{name: fmt.Sprint(replicas), replicas: replicas, shards: sharding.DefaultShards}
		result, err := b.measure(ctx, run)
		if err != nil {
			return err
		}
		valid = b.print(run, result, baseline) && valid
		results[replicas] = result
	}
	b.compareMemory(results)
	if valid {
		b.report.figure("valid", 1, "")
	} else {
		b.report.figure("valid", 0, "")
		b.report.note("INVALID: see above")
	}
	return nil
}

// close ends everything. The logs stay when something failed.
func (b *scaleoutBench) close(failed bool) {
	if b.redis != nil {
		b.redis.end()
	}
	if b.apiServer != nil {
		if err := b.stop(); err != nil {
			b.report.note("%v", err)
		}
	}
	if failed {
		b.report.note("logs of the replicas: %s", b.logs)
		return
	}
	_ = os.RemoveAll(b.logs) // in the temporary folder anyway
}

// logOf is the log of a replica.
func (b *scaleoutBench) logOf(run scaleoutRun, pod string) string {
	return filepath.Join(b.logs, strings.Join([]string{run.name, pod, "log"}, "."))
}
