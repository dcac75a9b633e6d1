package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/ptr"

	"example.com/redis-operator/sharding/placement"
	"example.com/redis-operator/test/stage"
)

// Failover kills operator replicas and takes, for each of their shards, the time until another process
// reconciles in it. Each trial has a fresh Pod, and each shard a RedisCluster.
//
// Of three replicas one is killed twice: the kubelet restarts the container at once after the first kill, and
// only after 10 s after the second, which is how it is kept from restarting. Then Nodes are lost, each with a
// replica. Then there is one replica alone, so that only its Pod's next container can take the shards: where
// there are others they are nearly always faster.
//
//   - kill_gap_s_p99: from the second kill
//   - confirmed_gap_s_p99: of the same, from when the kubelet's report of the death was seen on a watch
//   - unconfirmed_gap_s_max: from the loss of a Node
//   - restart_gap_s_p99: from the kill of the single replica
//   - lease_writes_per_second: what the Leases of the shards and of three replicas cost at rest
func Failover(ctx context.Context, out io.Writer, trials, nodes int) (err error) {
	o, err := openOwnership(ctx, out, "failover", placement.DefaultShards)
	if err != nil {
		return err
	}
	defer func() { o.close(ctx, err) }()
	if err := o.leaseWrites(ctx); err != nil {
		return err
	}
	f := &failover{ownership: o, victim: stage.OperatorStatefulSet + "-1", replicas: stage.OperatorReplicas}
	if err := repeat(ctx, "kill", trials, f.killTwice); err != nil {
		return err
	}
	o.figure("confirmed_gap_s_p99", percentile(f.confirmed, 0.99), "s")
	o.figure("confirmed_gap_s_max", percentile(f.confirmed, 1), "s")
	o.figure("kill_gap_s_p99", percentile(f.killed, 0.99), "s")
	if err := repeat(ctx, "lost Node", nodes, f.loseNode); err != nil {
		return err
	}
	o.figure("unconfirmed_gap_s_max", percentile(f.unconfirmed, 1), "s")
	f.victim, f.replicas = stage.OperatorStatefulSet+"-0", 1
	if err := o.ScaleOperator(ctx, f.replicas); err != nil {
		return err
	}
	if err := repeat(ctx, "restart", trials, f.killAlone); err != nil {
		return err
	}
	o.figure("restart_gap_s_p99", percentile(f.restarted, 0.99), "s")
	o.overlaps()
	return nil
}

// repeat runs one kind of trial so many times.
func repeat(ctx context.Context, what string, times int, trial func(context.Context) error) error {
	for number := range times {
		if err := trial(ctx); err != nil {
			return fmt.Errorf("%s %d of %d: %w", what, number+1, times, err)
		}
	}
	return nil
}

type failover struct {
	*ownership
	victim                                    string
	replicas                                  int32
	confirmed, killed, restarted, unconfirmed []float64 // seconds
}

// killTwice replaces the victim by a fresh Pod and kills its process, and then the process after that.
func (f *failover) killTwice(ctx context.Context) error {
	if err := f.renew(ctx); err != nil {
		return err
	}
	first, err := f.kill(ctx)
	if err != nil {
		return err
	}
	if err := f.settled(ctx, f.replicas); err != nil {
		return err
	}
	crash, err := f.kill(ctx)
	if err != nil {
		return err
	}
	own, _ := f.split(first)
	again, lengths := f.split(crash)
	if again > 0 {
		return fmt.Errorf("%d shards were taken by the same Pod, whose container was to rest", again)
	}
	f.killed = append(f.killed, lengths...)
	for _, gap := range crash.gaps {
		f.confirmed = append(f.confirmed, (gap.End() - crash.reported).Seconds())
	}
	f.note("killed: %d of %d shards taken by the next container; killed again: reported after %.2f s, %d shards reconciled, the last after %.2f s",
		own, len(first.gaps), (crash.reported - crash.at).Seconds(), len(lengths), percentile(lengths, 1))
	return f.settled(ctx, f.replicas)
}

// killAlone replaces the only replica by a fresh Pod and kills its process.
func (f *failover) killAlone(ctx context.Context) error {
	if err := f.renew(ctx); err != nil {
		return err
	}
	crash, err := f.kill(ctx)
	if err != nil {
		return err
	}
	_, lengths := f.split(crash)
	f.restarted = append(f.restarted, lengths...)
	f.note("killed alone: %d shards reconciled by the next container, the last after %.2f s", len(lengths), percentile(lengths, 1))
	return nil
}

// renew replaces the victim by a fresh Pod.
func (f *failover) renew(ctx context.Context) error {
	old, err := f.operatorPod(ctx, f.victim)
	if err != nil {
		return err
	}
	return f.replaced(ctx, old, metav1.DeleteOptions{})
}

// replaced deletes a Pod and waits until the one after it has settled.
func (f *failover) replaced(ctx context.Context, old *corev1.Pod, options metav1.DeleteOptions) error {
	if err := f.Kubernetes.CoreV1().Pods(stage.OperatorNamespace).Delete(ctx, old.Name, options); err != nil {
		return fmt.Errorf("deleting Pod %s: %w", old.Name, err)
	}
	limited, cancel := context.WithTimeoutCause(ctx, roundLimit, fmt.Errorf("not within %s", roundLimit))
	defer cancel()
	if err := f.WaitReplaced(limited, old); err != nil {
		return err
	}
	return f.settled(ctx, f.replicas)
}

// split returns how many shards of a death the victim's own Pod took, and how long all of them waited, in
// seconds.
func (f *failover) split(d death) (own int, lengths []float64) {
	for _, gap := range d.gaps {
		if gap.ToPod == f.victim {
			own++
		}
		lengths = append(lengths, gap.Length().Seconds())
	}
	return own, lengths
}

// death is one kill: when it was, when the kubelet's report of it came, and the gaps that followed.
type death struct {
	at, reported time.Duration
	gaps         []stage.Gap
}

// kill kills the victim's process and waits until all its shards are taken.
func (f *failover) kill(ctx context.Context) (death, error) {
	shards, identity := f.held(f.victim)
	if len(shards) == 0 {
		return death{}, errors.New(f.victim + " has no shard")
	}
	report := make(chan time.Duration, 1)
	watching, cancel := context.WithTimeout(ctx, roundLimit)
	defer cancel()
	ready := make(chan error, 1)
	go f.awaitReport(watching, identity, ready, report)
	if err := <-ready; err != nil {
		return death{}, err
	}
	at, err := stage.MonotonicNow()
	if err != nil {
		return death{}, err
	}
	f.log.Killed(stage.Kill{Pod: f.victim, At: at})
	if err := f.Local.KillPod(ctx, stage.OperatorNamespace, f.victim); err != nil {
		return death{}, err
	}
	gaps, err := f.waitGaps(ctx, shards, identity)
	if err != nil {
		return death{}, err
	}
	select {
	case reported := <-report:
		return death{at: at, reported: reported, gaps: gaps}, nil
	case <-watching.Done():
		return death{}, fmt.Errorf("waiting for the kubelet's report of the end of %s: %w", identity, watching.Err())
	}
}

// awaitReport watches the victim's Pod and tells when its status confirms the end of a process. It says
// ready once it watches.
func (f *failover) awaitReport(ctx context.Context, identity string, ready chan<- error, report chan<- time.Duration) {
	watcher, err := f.Kubernetes.CoreV1().Pods(stage.OperatorNamespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", f.victim).String(),
	})
	ready <- err
	if err != nil {
		return
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		if pod, ok := event.Object.(*corev1.Pod); ok && confirmsEnd(pod, identity) {
			if now, err := stage.MonotonicNow(); err == nil {
				report <- now
			}
			return
		}
	}
}

// confirmsEnd tells whether a Pod's status has the identity in the message of a container that has ended.
func confirmsEnd(pod *corev1.Pod, identity string) bool {
	for _, container := range pod.Status.ContainerStatuses {
		for _, ended := range []*corev1.ContainerStateTerminated{container.State.Terminated, container.LastTerminationState.Terminated} {
			if ended != nil && strings.Contains(ended.Message, identity) {
				return true
			}
		}
	}
	return false
}

// loseNode loses the Node of the victim, and has it back once its shards are taken.
func (f *failover) loseNode(ctx context.Context) error {
	pod, err := f.operatorPod(ctx, f.victim)
	if err != nil {
		return err
	}
	shards, identity := f.held(f.victim)
	at, err := stage.MonotonicNow()
	if err != nil {
		return err
	}
	f.log.Killed(stage.Kill{Pod: f.victim, At: at})
	if err := f.Local.LoseNode(ctx, pod.Spec.NodeName); err != nil {
		return err
	}
	gaps, err := f.waitGaps(ctx, shards, identity)
	if err != nil {
		return err
	}
	last := 0.0
	for _, gap := range gaps {
		last = max(last, gap.Length().Seconds())
	}
	f.unconfirmed = append(f.unconfirmed, last)
	f.note("Node %s lost: %d shards taken, the last after %.2f s", pod.Spec.NodeName, len(gaps), last)
	if err := f.Local.RestoreNode(ctx, pod.Spec.NodeName); err != nil {
		return err
	}
	// What ran on the Node does not run any more; its Pod would be counted as running for minutes.
	return f.replaced(ctx, pod, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
}
