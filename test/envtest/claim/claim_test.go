// Package claim_test runs the claims against a real API server: the contract that the Leases in memory
// pass too, and the stories where a server's own behaviour decides.
package claim_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/guard"
	"example.com/redis-operator/sharding/placement"
	"example.com/redis-operator/sharding/shardingtest"
)

var config *rest.Config

func TestMain(m *testing.M) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "KUBEBUILDER_ASSETS is not set: it names the folder with etcd and kube-apiserver")
		os.Exit(1)
	}
	env := &envtest.Environment{}
	env.ControlPlane.Etcd = &envtest.Etcd{}
	env.ControlPlane.Etcd.Configure().Set("unsafe-no-fsync", "true") // a busy disk fails no test
	var err error
	if config, err = env.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "starting the API server:", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := env.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the API server:", err)
		code = 1
	}
	os.Exit(code)
}

// timings are as short as whole seconds allow.
var timings = claim.Timings{
	LeaseDuration: 3 * time.Second, RenewDeadline: 1500 * time.Millisecond,
	RetryPeriod: 300 * time.Millisecond, CancelLead: time.Second,
}

func client(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(claim.RESTConfig(config, timings))
	if err != nil {
		t.Fatalf("building a client: %v", err)
	}
	return c
}

func newNamespace(t *testing.T) string {
	t.Helper()
	ns, err := client(t).CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "claim-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating a namespace: %v", err)
	}
	return ns.Name
}

func TestLeasesContract(t *testing.T) {
	shardingtest.LeasesContract(t, func(t *testing.T) (coordinationv1client.LeasesGetter, string) {
		return client(t).CoordinationV1(), newNamespace(t)
	})
}

// process is one process with a set and a guard.
type process struct {
	t      *testing.T
	set    *claim.Set
	cancel context.CancelFunc

	mu     sync.Mutex // guards events
	events []claim.Event
}

func options(t *testing.T, namespace string, id placement.Identity) claim.Options {
	t.Helper()
	return claim.Options{
		Client: client(t).CoordinationV1(), Namespace: namespace, Identity: id, Timings: timings,
		Settings: placement.Settings{Shards: 8, Hash: placement.HashFNV1aMix},
		Exit:     func(reason string) { t.Errorf("exit: %s", reason) },
	}
}

func run(t *testing.T, o claim.Options) *process {
	t.Helper()
	p := &process{t: t}
	o.OnEvent = func(e claim.Event) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.events = append(p.events, e)
	}
	var err error
	if p.set, err = claim.NewSet(o); err != nil {
		t.Fatalf("NewSet: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.set.Run(ctx) // it answers nil
	}()
	p.cancel = cancel
	t.Cleanup(func() {
		p.set.Stop()
		cancel()
		<-done
	})
	select {
	case <-p.set.Synced():
	case <-time.After(30 * time.Second):
		t.Fatal("the set does not list")
	}
	return p
}

func (p *process) startAll() {
	for shard := range p.set.Shards() {
		p.set.Claim(shard).Start(context.Background())
	}
}

func (p *process) held() int {
	n := 0
	for shard := range p.set.Shards() {
		if _, ok := p.set.Claim(shard).Epoch(); ok {
			n++
		}
	}
	return n
}

func (p *process) eventsOf(kind claim.EventType) []claim.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []claim.Event
	for _, e := range p.events {
		if e.Type == kind {
			out = append(out, e)
		}
	}
	return out
}

func eventually(t *testing.T, what string, within time.Duration, is func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, within, true,
		func(context.Context) (bool, error) { return is(), nil })
	if err != nil {
		t.Fatalf("%s: not within %s", what, within)
	}
	return time.Since(begin)
}

func ensure(t *testing.T, o claim.Options) {
	t.Helper()
	if err := claim.EnsureLeases(t.Context(), o); err != nil {
		t.Fatalf("EnsureLeases: %v", err)
	}
}

// The planned way: hold, renew, release, and the other has it at once.
func TestHandover(t *testing.T) {
	namespace := newNamespace(t)
	o := options(t, namespace, "redis-operator-0_a_1")
	ensure(t, o)
	a := run(t, o)
	b := run(t, options(t, namespace, "redis-operator-1_b_1"))
	a.startAll()
	eventually(t, "a holds all", 10*time.Second, func() bool { return a.held() == 8 })
	b.startAll()
	never(t, 2*timings.LeaseDuration, func() bool { return b.held() > 0 })
	if lag := a.set.Lag(); lag > time.Second {
		t.Errorf("own renewals come back on the watch after %s", lag)
	}
	if err := a.set.Release(t.Context()); err != nil {
		t.Fatalf("Release: %v", err)
	}
	took := eventually(t, "b holds all", 10*time.Second, func() bool { return b.held() == 8 })
	t.Logf("8 shards claimed %s after their release", took)
	for _, e := range b.eventsOf(claim.Acquired) {
		if e.Unclean {
			t.Errorf("shard %d: unclean after a release", e.Shard)
		}
	}
}

func never(t *testing.T, during time.Duration, is func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, during, true,
		func(context.Context) (bool, error) { return is(), nil })
	if err == nil {
		t.Fatal("happened what must not")
	}
}

// I1: the holder ends before the observer begins; the epochs grow; nothing is clean.
func TestExpiredHolder(t *testing.T) {
	namespace := newNamespace(t)
	o := options(t, namespace, "redis-operator-0_a_1")
	ensure(t, o)
	cut := &cutOff{inner: o.Client}
	o.Client = cut
	a, b := run(t, o), run(t, options(t, namespace, "redis-operator-1_b_1"))
	a.startAll()
	eventually(t, "a holds all", 10*time.Second, func() bool { return a.held() == 8 })
	b.startAll()
	cut.set(true)
	took := eventually(t, "b holds all", 20*time.Second, func() bool { return b.held() == 8 })
	t.Logf("8 shards of a cut off process claimed after %s, LeaseDuration is %s", took, timings.LeaseDuration)
	lost := map[placement.Shard]claim.Event{}
	for _, e := range a.eventsOf(claim.Lost) {
		lost[e.Shard] = e
	}
	for _, e := range b.eventsOf(claim.Acquired) {
		l, ok := lost[e.Shard]
		if !ok || !l.At.Before(e.At) || !e.Epoch.After(l.Epoch) || !e.Unclean {
			t.Errorf("shard %d: lost %+v, acquired %+v", e.Shard, l, e)
		}
	}
	cut.set(false)
	never(t, timings.LeaseDuration, func() bool { return a.held() > 0 })
}

// A Lease deleted by hand is recreated by its holder, and a contender does not snatch it.
func TestDeletedLease(t *testing.T) {
	namespace := newNamespace(t)
	o := options(t, namespace, "redis-operator-0_a_1")
	ensure(t, o)
	a, b := run(t, o), run(t, options(t, namespace, "redis-operator-1_b_1"))
	a.startAll()
	eventually(t, "a holds all", 10*time.Second, func() bool { return a.held() == 8 })
	b.startAll()
	leases := client(t).CoordinationV1().Leases(namespace)
	if err := leases.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatalf("deleting the Leases: %v", err)
	}
	eventually(t, "the Leases are back", 5*time.Second, func() bool {
		list, err := leases.List(t.Context(), metav1.ListOptions{LabelSelector: claim.InstallationLabel})
		return err == nil && len(list.Items) == 8
	})
	never(t, 2*timings.LeaseDuration, func() bool { return b.held() > 0 || a.held() < 8 })
}

func TestOtherSettings(t *testing.T) {
	namespace := newNamespace(t)
	o := options(t, namespace, "redis-operator-0_a_1")
	ensure(t, o)
	o.Settings.Shards = 16
	var se *claim.SettingsError
	if err := claim.EnsureLeases(t.Context(), o); !errors.As(err, &se) || se.Ours.Shards != 16 || se.Theirs.Shards != 8 {
		t.Fatalf("EnsureLeases = %v, want a SettingsError of 16 and 8", err)
	}
	p := run(t, o)
	p.set.Claim(0).Start(t.Context())
	eventually(t, "refused", 5*time.Second, func() bool { return len(p.eventsOf(claim.Refused)) > 0 })
	if n := p.held(); n != 0 {
		t.Errorf("%d held", n)
	}
}

// The fence on a real client: reads pass, writes need a live admission of the right shard.
func TestRoundTripper(t *testing.T) {
	namespace := newNamespace(t)
	g, err := guard.New(guard.Options{Settings: placement.DefaultSettings()})
	if err != nil {
		t.Fatal(err)
	}
	fenced := rest.CopyConfig(config)
	fenced.Wrap(g.RoundTripper)
	c, err := kubernetes.NewForConfig(fenced)
	if err != nil {
		t.Fatal(err)
	}
	write := func(ctx context.Context) error {
		_, err := c.CoreV1().ConfigMaps(namespace).Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "x-"}}, metav1.CreateOptions{})
		return err
	}
	if _, err := c.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("reading: %v", err)
	}
	if err := write(t.Context()); !errors.Is(err, guard.ErrNotAdmitted) {
		t.Errorf("writing without admission = %v, want ErrNotAdmitted", err)
	}
	deadline := time.Now().Add(time.Hour)
	g.Admit(g.ShardOf(namespace), "1", func() time.Time { return deadline })
	ctx, done, err := g.Enter(t.Context(), namespace)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if err := write(ctx); err != nil {
		t.Errorf("writing under an admission: %v", err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("x")}}
	if _, err := c.CoordinationV1().Leases(namespace).Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
		t.Errorf("writing a Lease without admission: %v", err)
	}
	deadline = time.Now()
	if err := write(ctx); !errors.Is(err, guard.ErrExpired) {
		t.Errorf("writing past the deadline = %v, want ErrExpired", err)
	}
}
