package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	redisv1 "example.com/redis-operator/api/v1"
)

// scaleoutRun is one configuration of the operator. Each has a namespace, and with it Leases and a placement, of its own.
type scaleoutRun struct {
	name             string
	replicas, shards int
	workers          int // 0 means the default
	// patient is set for what is not measured: its Leases outlast a busy machine.
	patient bool
}

func (r scaleoutRun) namespace() string {
	return "operator-" + strings.ReplaceAll(r.name, "_", "-")
}

// arguments are the flags of the operator's program.
func (r scaleoutRun) arguments() []string {
	arguments := []string{"--shards=" + strconv.Itoa(r.shards)}
	if r.workers > 0 {
		arguments = append(arguments, "--workers="+strconv.Itoa(r.workers))
	}
	if r.patient {
		arguments = append(arguments, "--lease-duration=30s", "--renew-deadline=20s",
			"--graceful-shutdown-timeout=60s", "--pod-grace-period=90s")
	}
	return arguments
}

const (
	settlePatience = 15 * time.Minute
	// settledFor is how many looks in a row, one a second, have to find an installation settled.
	settledFor = 3
	// settleLimited is how long replicas run under their limit before the batch.
	settleLimited = 5 * time.Second
)

// The names of the operator's metrics that are looked at.
const (
	metricOwned  = "sharding_shards_owned"
	metricHome   = "sharding_shards_home"
	metricPasses = "controller_runtime_reconcile_total"
	metricDepth  = "workqueue_depth"
)

// installation is the processes of one run.
type scaleoutInstallation struct {
	run      scaleoutRun
	replicas []*replicaProcess
}

// install creates what the operator's manifests would, and starts all replicas at the same time.
func (b *scaleoutBench) install(ctx context.Context, run scaleoutRun) (*scaleoutInstallation, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: run.namespace()}}
	if err := b.client.Create(ctx, namespace); err != nil {
		return nil, err
	}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": redisv1.Operator}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "manager"}}},
	}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: run.namespace(), Name: redisv1.Operator},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To(int32(run.replicas)), Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template,
		},
	}
	if err := b.client.Create(ctx, set); err != nil {
		return nil, err
	}
	installed := &scaleoutInstallation{run: run}
	for ordinal := range run.replicas {
		pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		pod.Namespace, pod.Name = run.namespace(), redisv1.Operator+"-"+strconv.Itoa(ordinal)
		if err := b.client.Create(ctx, pod); err != nil {
			return installed, err
		}
		replica, err := startReplica(ctx, replicaSettings{
			Program: b.program, Kubeconfig: b.kubeconfig, Server: b.address,
			Namespace: run.namespace(), Pod: pod.Name, UID: string(pod.UID), Log: b.logOf(run, pod.Name),
			Arguments: run.arguments(),
		})
		if err != nil {
			return installed, err
		}
		installed.replicas = append(installed.replicas, replica)
	}
	return installed, nil
}

// stop kills all replicas.
func (i *scaleoutInstallation) stop() {
	if i == nil {
		return
	}
	var stopping sync.WaitGroup
	for _, replica := range i.replicas {
		stopping.Go(replica.stop)
	}
	stopping.Wait()
}

// prepare has an installation without a limit bring every cluster into order.
func (b *scaleoutBench) prepare(ctx context.Context, run scaleoutRun) error {
	started := time.Now()
	run.patient = true
	installed, err := b.install(ctx, run)
	defer installed.stop()
	if err == nil {
		err = b.settle(ctx, installed, b.options.Clusters)
	}
	if err != nil {
		return fmt.Errorf("preparing (%s): %w", run.name, err)
	}
	b.report.note("%s: every cluster is in order after %s", run.name, time.Since(started).Round(time.Second))
	return nil
}

// settle waits until every replica acts for its homes, has looked at the clusters in them and has nothing more to do, and
// every cluster is Ready.
func (b *scaleoutBench) settle(ctx context.Context, installed *scaleoutInstallation, clusters int) error {
	ctx, cancel := context.WithTimeout(ctx, settlePatience)
	defer cancel()
	missing, quiet := "", 0
	for tick := 0; quiet < settledFor; tick++ {
		if err := pause(ctx, time.Second); err != nil {
			return fmt.Errorf("waiting until the operator has settled: %w: %s", err, missing)
		}
		var err error
		if missing, err = b.unsettled(ctx, installed, clusters); err != nil {
			return err
		}
		quiet++
		if missing != "" {
			quiet = 0
		}
		if tick%15 == 14 && missing != "" {
			b.report.note("%s: %s", installed.run.name, missing)
		}
	}
	return nil
}

// unsettled says what is missing.
func (b *scaleoutBench) unsettled(ctx context.Context, installed *scaleoutInstallation, clusters int) (string, error) {
	sums := map[string]float64{}
	for _, replica := range installed.replicas {
		if err := replica.err(); err != nil {
			return "", err
		}
		figures, err := replica.figures(ctx, metricOwned, metricHome, metricPasses, metricDepth)
		if err != nil {
			return fmt.Sprintf("no metrics yet: %v", err), nil
		}
		if figures[metricOwned] != figures[metricHome] {
			return fmt.Sprintf("a replica owns %g shards and is home of %g", figures[metricOwned], figures[metricHome]), nil
		}
		for name, value := range figures {
			sums[name] += value
		}
	}
	settled := b.clusters.settled()
	switch {
	case sums[metricOwned] != float64(installed.run.shards):
		return fmt.Sprintf("%g of %d shards are owned", sums[metricOwned], installed.run.shards), nil
	case settled < clusters:
		return fmt.Sprintf("%d of %d clusters are in order", settled, clusters), nil
	case sums[metricPasses] < float64(clusters), sums[metricDepth] > 1+float64(clusters)/50:
		return fmt.Sprintf("%g passes, %g clusters in the queue", sums[metricPasses], sums[metricDepth]), nil
	}
	return "", nil
}

// measureIdle takes the resident set of a replica that has nothing to do.
func (b *scaleoutBench) measureIdle(ctx context.Context, run scaleoutRun) error {
	installed, err := b.install(ctx, run)
	defer installed.stop()
	if err == nil {
		err = errors.Join(b.settle(ctx, installed, 0), pause(ctx, settleLimited))
	}
	if err != nil {
		return fmt.Errorf("measuring a replica without objects: %w", err)
	}
	if b.idle, err = residentSet(installed.replicas[0].command.Process.Pid); err != nil {
		return err
	}
	b.report.figure("rss_bytes_idle", float64(b.idle), "bytes")
	return nil
}
