package sharding

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"example.com/redis-operator/sharding"
	"example.com/redis-operator/sharding/guard"
)

var rootKinds = []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("ConfigMap")}

// replica is one operator process, in this process: a manager with a controller that counts.
type replica struct {
	i        *installation
	member   string
	link     *link
	sharding *sharding.Sharding
	client   client.Client
	guarded  reconcile.Reconciler // what the controller calls
	log      *logLines
	dead     atomic.Bool
	exited   atomic.Pointer[string]
	stopNow  context.CancelFunc
	done     chan struct{}
	err      error // of the manager's Start; valid once done is closed
}

// logLines collects what a replica logs.
type logLines struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (l *logLines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

// times are the monotonic times of the lines with this message, by shard.
func (l *logLines) times(message string) map[string][]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	times := map[string][]int64{}
	for _, line := range l.lines {
		if fields := transition.FindStringSubmatch(line); fields != nil && fields[1] == message {
			nanos, _ := strconv.ParseInt(fields[3], 10, 64)
			times[fields[2]] = append(times[fields[2]], nanos)
		}
	}
	return times
}

var transition = regexp.MustCompile(`"msg"="([^"]+)" "shard"=(\d+) .*"monotonicNanos"=(\d+)`)

// tail is the last lines.
func (l *logLines) tail(count int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return "\t" + strings.Join(l.lines[max(0, len(l.lines)-count):], "\n\t") + "\n"
}

func (l *logLines) contains(parts ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		all := true
		for _, part := range parts {
			all = all && strings.Contains(line, part)
		}
		if all {
			return true
		}
	}
	return false
}

// start makes the Pod of a member and runs a replica in it.
func (i *installation) start(ordinal int) *replica {
	i.t.Helper()
	i.createPod(ordinal)
	return i.startIn(ordinal)
}

// startIn runs a replica in the Pod that there is: a container of it was started.
func (i *installation) startIn(ordinal int) *replica {
	i.t.Helper()
	r := &replica{i: i, member: i.member(ordinal), link: &link{}, log: &logLines{}, done: make(chan struct{})}
	options := i.options
	options.Member = r.member
	options.TerminationLog = i.t.TempDir() + "/termination-log"
	options.Exit = func(reason string) { r.exited.Store(&reason) }
	cfg := r.link.wrap(config)
	var err error
	if r.sharding, err = sharding.New(cfg, options); err != nil {
		i.t.Fatal(err)
	}
	managerOptions := ctrl.Options{
		Metrics:    server.Options{BindAddress: "0"},
		Controller: controllerconfig.Controller{SkipNameValidation: ptr.To(true)},
		Logger:     funcr.New(func(prefix, args string) { r.log.add(prefix + " " + args) }, funcr.Options{}),
	}
	r.sharding.ManagerOptions(&managerOptions)
	mgr, err := ctrl.NewManager(cfg, managerOptions)
	if err != nil {
		i.t.Fatal(err)
	}
	if err := r.sharding.Attach(mgr); err != nil {
		i.t.Fatal(err)
	}
	r.client = mgr.GetClient()
	r.guarded = r.sharding.Reconciler(r)
	err = ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 8}).Complete(r.guarded)
	if err != nil {
		i.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(logr.NewContext(context.Background(), managerOptions.Logger))
	r.stopNow = stop
	i.replicas = append(i.replicas, r)
	go func() {
		defer close(r.done)
		r.err = mgr.Start(ctx)
	}()
	return r
}

// Reconcile makes one changing call for each root object.
func (r *replica) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	object := &corev1.ConfigMap{}
	if err := r.client.Get(ctx, request.NamespacedName, object); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if object.Labels["tenant-of"] != r.i.name || r.dead.Load() {
		return reconcile.Result{}, nil
	}
	shard, _ := guard.Shard(ctx)
	epoch, _ := guard.Epoch(ctx)
	done, err := r.sharding.Guard().Begin(ctx)
	defer done()
	if err != nil {
		return reconcile.Result{}, err
	}
	end := r.i.recorder.call(shard, epoch, r.sharding.Identity(), request.String())
	defer end()
	if object.Annotations["seen-by"] == r.member {
		return reconcile.Result{}, nil
	}
	patch := client.MergeFrom(object.DeepCopy())
	if object.Annotations == nil {
		object.Annotations = map[string]string{}
	}
	object.Annotations["seen-by"] = r.member
	return reconcile.Result{}, client.IgnoreNotFound(r.client.Patch(ctx, object, patch))
}

// stop ends the replica as SIGTERM does, and waits for it.
func (r *replica) stop() {
	r.i.t.Helper()
	r.stopNow()
	r.wait()
	r.dead.Store(true)
	if r.err != nil {
		r.i.t.Errorf("stopping %s: %v", r.member, r.err)
	}
}

func (r *replica) wait() { <-r.done }

// kill ends the replica without a word to anybody: nothing of it reaches the API any more.
func (r *replica) kill() {
	r.dead.Store(true)
	r.link.setCut(true)
	r.stopNow()
}

// identity waits until the replica is recorded as serving.
func (r *replica) identity(t *testing.T) sharding.Identity {
	t.Helper()
	r.i.eventually("registering "+r.member, func() string {
		if s := r.sharding.Snapshot(); s.State != "serving" {
			return "state is " + string(s.State)
		}
		return ""
	})
	return r.sharding.Identity()
}

// canRead tells whether a namespace is cached.
func (r *replica) canRead(namespace string) bool {
	err := r.client.List(context.Background(), &corev1.ConfigMapList{}, client.InNamespace(namespace))
	return err == nil
}
