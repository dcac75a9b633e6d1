package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/redis-operator/test/stage"
)

const (
	// tryFor bounds one attempt at something on a cluster whose API server may be away.
	tryFor = 10 * time.Second
	// mendFor bounds the mending of what was broken, by attempts every mendEvery.
	mendFor, mendEvery = 40 * time.Second, time.Second
	// changeFor bounds how long a change of the members is taken for a disturbance.
	changeFor = 40 * time.Second
	// slowStop and slowGo are how a slow API server stands still and goes on in turn.
	slowStop, slowGo = 500 * time.Millisecond, 200 * time.Millisecond
)

var errNoPod = errors.New("no Pod of the operator runs")

// effects are what is done for each kind. Each returns when it is over.
var effects = map[Kind]func(*run, context.Context, Disturbance) error{
	Kill:        (*run).kill,
	ForceDelete: (*run).forceDelete,
	Pause:       (*run).pausePod,
	Cut:         (*run).cutPod,
	Scale:       (*run).scale,
	Roll:        (*run).roll,
	LoseNode:    (*run).loseNode,
	SlowAPI:     (*run).slowAPI,
	RestartAPI:  (*run).restartAPI,
	RestartEtcd: (*run).restartEtcd,
	DeleteLease: (*run).deleteLease,
}

func (r *run) perform(ctx context.Context, d Disturbance) {
	if err := effects[d.Kind](r, ctx, d); err != nil && ctx.Err() == nil {
		r.say("%s: not done: %v", d.Kind, err)
	}
}

// operatorPods lists the operator's Pods that are not on their way out.
func (r *run) operatorPods(ctx context.Context) ([]corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, tryFor)
	defer cancel()
	pods, err := r.OperatorPods(ctx)
	var running []corev1.Pod
	for _, pod := range pods {
		if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			running = append(running, pod)
		}
	}
	return running, err
}

// pod counts out one of the operator's Pods.
func (r *run) pod(ctx context.Context, pick int) (*corev1.Pod, error) {
	pods, err := r.operatorPods(ctx)
	if err == nil && len(pods) == 0 {
		err = errNoPod
	}
	if err != nil {
		return nil, err
	}
	return &pods[pick%len(pods)], nil
}

// mend tries until it works: the API server may be away, by another disturbance.
func (r *run) mend(ctx context.Context, what string, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, mendFor)
	defer cancel()
	for {
		err := try(ctx)
		if err == nil || client.IgnoreNotFound(err) == nil {
			return nil
		}
		if !pause(ctx, mendEvery) {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}

func (r *run) kill(ctx context.Context, d Disturbance) error {
	pod, err := r.pod(ctx, d.Pick)
	if err != nil {
		return err
	}
	r.say("kill %s", pod.Name)
	r.open("kill "+pod.Name, false)
	ctx, cancel := context.WithTimeout(ctx, tryFor)
	defer cancel()
	return r.Local.KillPod(ctx, pod.Namespace, pod.Name)
}

func (r *run) forceDelete(ctx context.Context, d Disturbance) error {
	pod, err := r.pod(ctx, d.Pick)
	if err != nil {
		return err
	}
	r.say("delete %s by force", pod.Name)
	r.open("delete "+pod.Name, false)
	ctx, cancel := context.WithTimeout(ctx, tryFor)
	defer cancel()
	return r.Client.Delete(ctx, pod, client.GracePeriodSeconds(0))
}

func (r *run) pausePod(ctx context.Context, d Disturbance) error {
	pod, err := r.pod(ctx, d.Pick)
	if err != nil {
		return err
	}
	r.say("pause %s for %.1f s", pod.Name, d.For.Seconds())
	defer r.open("pause "+pod.Name, false)()
	defer r.hold(pod.Name)()
	try, cancel := context.WithTimeout(ctx, tryFor)
	defer cancel()
	// A signal may take effect later than it is waited for: whatever the answer, the Pod is resumed.
	err = r.Local.PausePod(try, pod.Namespace, pod.Name)
	if err == nil {
		pause(ctx, d.For)
		r.say("resume %s", pod.Name)
	}
	return errors.Join(err, r.mend(ctx, "resuming "+pod.Name, func(ctx context.Context) error {
		var present corev1.Pod
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(pod), &present); err != nil || present.UID != pod.UID {
			return err // of a Pod that was replaced nothing is left to resume
		}
		err := r.Local.ResumePod(ctx, pod.Namespace, pod.Name)
		if err != nil && isRestarted(&present, pod) {
			return nil
		}
		return err
	}))
}

// isRestarted reports whether another container runs in the Pod than at an earlier moment, or none.
func isRestarted(now, before *corev1.Pod) bool {
	id := func(pod *corev1.Pod) string {
		if isRunning(pod) {
			return pod.Status.ContainerStatuses[0].ContainerID
		}
		return ""
	}
	return id(now) != id(before)
}

func (r *run) cutPod(ctx context.Context, d Disturbance) error {
	pod, err := r.pod(ctx, d.Pick)
	if err != nil {
		return err
	}
	r.say("cut off %s for %.1f s", pod.Name, d.For.Seconds())
	defer r.open("cut off "+pod.Name, false)()
	defer r.hold(pod.Name)()
	try, cancel := context.WithTimeout(ctx, tryFor)
	defer cancel()
	if err = r.Local.CutPod(try, pod.Namespace, pod.Name); err == nil {
		pause(ctx, d.For)
		r.say("reconnect %s", pod.Name)
	}
	return errors.Join(err, r.mend(ctx, "reconnecting "+pod.Name, r.Local.ReconnectPods))
}

func (r *run) setReplicas(ctx context.Context, replicas int32) error {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: stage.OperatorNamespace, Name: stage.OperatorStatefulSet}}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	return r.mend(ctx, "scaling", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, tryFor)
		defer cancel()
		return r.Client.Patch(ctx, set, patch)
	})
}

func (r *run) scale(ctx context.Context, d Disturbance) error {
	r.say("scale to %d", d.Replicas)
	defer r.open(fmt.Sprintf("scale to %d", d.Replicas), false)()
	if err := r.setReplicas(ctx, d.Replicas); err != nil {
		return err
	}
	r.awaitRollout(ctx)
	return nil
}

func (r *run) roll(ctx context.Context, _ Disturbance) error {
	r.say("roll")
	defer r.open("roll", false)()
	err := r.mend(ctx, "rolling", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, tryFor)
		defer cancel()
		_, err := r.Kubectl(ctx, "rollout", "restart", "-n", stage.OperatorNamespace, "statefulset/"+stage.OperatorStatefulSet)
		return err
	})
	if err == nil {
		r.awaitRollout(ctx)
	}
	return err
}

// awaitRollout waits until the StatefulSet is as it should be, or for so long that it is not counted as
// being changed any more.
func (r *run) awaitRollout(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, changeFor)
	defer cancel()
	err := r.Wait(ctx, "the rollout", func() (string, error) {
		var set appsv1.StatefulSet
		key := client.ObjectKey{Namespace: stage.OperatorNamespace, Name: stage.OperatorStatefulSet}
		if err := r.Client.Get(ctx, key, &set); err != nil {
			return "", err
		}
		status, replicas := set.Status, *set.Spec.Replicas
		if status.ObservedGeneration == set.Generation && status.Replicas == replicas &&
			status.UpdatedReplicas == replicas && status.ReadyReplicas == replicas {
			return "", nil
		}
		return "not all are ready", nil
	})
	if err != nil && ctx.Err() != nil {
		r.say("the members have not come to rest within %s", changeFor)
	}
}

func (r *run) loseNode(ctx context.Context, d Disturbance) error {
	nodes := r.Local.Nodes()
	node := nodes[d.Pick%len(nodes)]
	r.say("lose %s for %.1f s", node, d.For.Seconds())
	defer r.open("lose "+node, false)()
	defer r.hold(node)()
	if err := r.Local.LoseNode(ctx, node); err != nil {
		return err
	}
	pause(ctx, d.For)
	r.say("restore %s", node)
	return r.mend(ctx, "restoring "+node, func(ctx context.Context) error { return r.Local.RestoreNode(ctx, node) })
}

func (r *run) slowAPI(ctx context.Context, d Disturbance) error {
	r.say("slow API server for %.1f s", d.For.Seconds())
	defer r.open("slow API", true)()
	for end := time.Now().Add(d.For); time.Now().Before(end) && ctx.Err() == nil; {
		if err := r.Local.PauseAPIServer(ctx); err != nil {
			return err
		}
		pause(ctx, slowStop)
		if err := r.Local.ResumeAPIServer(ctx); err != nil {
			return err
		}
		pause(ctx, slowGo)
	}
	return nil
}

func (r *run) restartAPI(ctx context.Context, d Disturbance) error {
	r.say("API server away for %.1f s", d.For.Seconds())
	defer r.open("API server away", true)()
	err := r.Local.StopAPIServer(ctx)
	r.restartedAPI()
	if err != nil {
		return err
	}
	pause(ctx, d.For)
	err = r.mend(ctx, "starting the API server", r.Local.StartAPIServer)
	r.say("API server back")
	return err
}

func (r *run) restartEtcd(ctx context.Context, _ Disturbance) error {
	r.say("restart etcd")
	defer r.open("restart etcd", true)()
	return r.Local.RestartEtcd(ctx)
}

func (r *run) deleteLease(ctx context.Context, d Disturbance) error {
	name := fmt.Sprintf("%s%d", leasePrefix, d.Pick%shards)
	r.say("delete Lease %s", name)
	r.open("delete Lease "+name, false)
	ctx, cancel := context.WithTimeout(ctx, tryFor)
	defer cancel()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: stage.OperatorNamespace, Name: name}}
	return client.IgnoreNotFound(r.Client.Delete(ctx, lease))
}
