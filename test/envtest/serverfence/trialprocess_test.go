package serverfence_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/guard"
	"example.com/redis-operator/sharding/placement"
	"example.com/redis-operator/sharding/serverfence"
)

// trialVariable is set in the environment of a process of the trial: this test program, run again. Its
// value is a trial.
const trialVariable = "FENCE_TRIAL"

// exited is the line of a process that ends itself at its claim's deadline, since a call that it had begun
// before the stop is still in flight.
const exited = "exited with a call in flight"

// What a process says, besides what became of a call, when the call was sent although its claim's deadline
// had passed: by when the guard was asked.
const (
	caught = "sent past the deadline, which passed after the guard was asked"
	late   = "sent past the deadline, which had passed before the guard was asked"
)

// trial is what a process of the trial is told.
type trial struct {
	Host, Token, Installation, Namespace, Object string
	CA                                           []byte
	Identity                                     placement.Identity
	// Guarded says that writes pass through the guard.
	Guarded bool
}

// timings are as short as whole seconds allow.
var timings = claim.Timings{
	LeaseDuration: 3 * time.Second, RenewDeadline: 1500 * time.Millisecond,
	RetryPeriod: 300 * time.Millisecond, CancelLead: time.Second,
}

var settings = placement.Settings{Shards: shards, Hash: placement.HashFNV1aMix}

// runTrialProcess claims the shard and then is in one long reconcile, which writes to the object again and
// again, until it is killed. It prints a line for what became of each write.
func runTrialProcess() int {
	var t trial
	if err := json.Unmarshal([]byte(os.Getenv(trialVariable)), &t); err != nil {
		fmt.Println("failed", err)
		return 1
	}
	if err := t.run(context.Background()); err != nil {
		fmt.Println("failed", err)
	}
	return 1
}

func (t trial) run(ctx context.Context) error {
	config := &rest.Config{
		Host: t.Host, BearerToken: t.Token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: t.CA},
	}
	gate, err := guard.New(guard.Options{Settings: settings, CancelLead: timings.CancelLead})
	if err != nil {
		return err
	}
	leases, err := kubernetes.NewForConfig(claim.RESTConfig(config, timings))
	if err != nil {
		return err
	}
	admitted := make(chan struct{}, 1)
	set, err := claim.NewSet(claim.Options{
		Client: leases.CoordinationV1(), Namespace: t.Installation, Installation: t.Installation,
		Settings: settings, Identity: t.Identity, Timings: timings, InFlight: gate.MutatingUpTo,
		Exit: func(string) {
			fmt.Println(exited)
			os.Exit(1)
		},
		OnEvent: func(e claim.Event) {
			obey(gate, e)
			if e.Type == claim.Acquired {
				admitted <- struct{}{}
			}
		},
	})
	if err != nil {
		return err
	}
	go func() { _ = set.Run(ctx) }()
	<-set.Synced()
	shardClaim := set.Claim(settings.ShardOf(t.Namespace))
	shardClaim.Start(ctx)
	<-admitted
	return t.reconcile(ctx, config, gate, (&stopwatch{deadline: shardClaim.Deadline}).watch)
}

// stopwatch compares the clock with a claim's deadline, or the last that it had.
type stopwatch struct {
	deadline func() time.Time

	mu   sync.Mutex // guards last
	last time.Time
}

func (w *stopwatch) isOver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at := w.deadline(); !at.IsZero() {
		w.last = at
	}
	return !time.Now().Before(w.last)
}

// watch tells of calls that reach the wire past the deadline. It goes around the guard.
func (w *stopwatch) watch(guarded http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		wasOver := w.isOver()
		trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) {
			switch {
			case wasOver:
				fmt.Println(late)
			case w.isOver():
				fmt.Println(caught)
			}
		}}
		return guarded.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	})
}

// obey does with the guard what the coordinator does on the events of a claim.
func obey(gate *guard.Guard, e claim.Event) {
	switch e.Type {
	case claim.Acquired, claim.Recovered:
		gate.Admit(e.Shard, e.Epoch, e.Deadline)
	case claim.Stalled:
		gate.StopAdmitting(e.Shard)
	case claim.Expiring:
		gate.Cancel(e.Shard)
	case claim.Lost, claim.Released:
		gate.Revoke(e.Shard)
	case claim.Refused:
	}
}

// reconcile is admitted once and writes for ever, at a pace that leaves most stops between two writes; that
// its context ends does not stop it.
func (t trial) reconcile(
	ctx context.Context, config *rest.Config, gate *guard.Guard, watch func(http.RoundTripper) http.RoundTripper,
) error {
	ctx, done, err := gate.Enter(ctx, t.Namespace)
	if err != nil {
		return err
	}
	defer done()
	ctx = context.WithoutCancel(ctx)
	if t.Guarded {
		config = rest.CopyConfig(config)
		config.Wrap(gate.RoundTripper)
		config.Wrap(watch)
	}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		<-time.After(20 * time.Millisecond)
		_, err := c.CoreV1().ConfigMaps(t.Namespace).Patch(ctx, t.Object, types.MergePatchType,
			writtenBy(string(t.Identity), i), metav1.PatchOptions{})
		fmt.Println(outcomeOf(err, t.Installation))
	}
}

// outcomeOf is the line for a write.
func outcomeOf(err error, installation string) string {
	switch {
	case err == nil:
		return "accepted"
	case serverfence.IsRefusal(err, installation):
		return "refused by the server"
	case errors.Is(err, guard.ErrExpired), errors.Is(err, guard.ErrNotAdmitted), errors.Is(err, guard.ErrStaleEpoch):
		return "refused by the guard"
	}
	return "failed " + err.Error()
}

// writtenBy is a patch that changes something each time.
func writtenBy(who string, count int) []byte {
	patch, err := json.Marshal(corev1.ConfigMap{Data: map[string]string{"by": who, "count": fmt.Sprint(count)}})
	if err != nil {
		panic(err)
	}
	return patch
}
