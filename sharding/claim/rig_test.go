package claim_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/placement"
	"example.com/redis-operator/sharding/shardingtest"
)

const (
	namespace = "operators"
	leaseName = "redis-operator-shard-0"
	alice     = placement.Identity("redis-operator-0_uid-a_1")
	alice2    = placement.Identity("redis-operator-0_uid-a_2") // restarted in the same Pod
	bob       = placement.Identity("redis-operator-1_uid-b_1")
	carol     = placement.Identity("redis-operator-2_uid-c_1")
)

// process is one process with a claim on shard 0.
type process struct {
	*claim.Claim
	t   *testing.T
	api *shardingtest.Leases

	mu       sync.Mutex // guards the rest
	events   []claim.Event
	skew     time.Duration // added to the clock
	inFlight int
	exits    []string
	dead     placement.Identity
}

func (p *process) now() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(p.skew)
}

func (p *process) set(change func(p *process)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

func (p *process) options(id placement.Identity) claim.Options {
	return claim.Options{
		Client: p.api, Namespace: namespace, Identity: id, Settings: placement.DefaultSettings(), Now: p.now,
		OnEvent: func(e claim.Event) { p.set(func(p *process) { p.events = append(p.events, e) }) },
		InFlight: func(placement.Shard, claim.Epoch) int {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.inFlight
		},
		Exit: func(reason string) { p.set(func(p *process) { p.exits = append(p.exits, reason) }) },
		ConfirmedDead: func(id placement.Identity) bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return id == p.dead
		},
	}
}

// newProcess has a claim that does not contend yet, and is stopped at the end of the test.
func newProcess(t *testing.T, api *shardingtest.Leases, id placement.Identity, change ...func(*claim.Options)) *process {
	t.Helper()
	p := &process{t: t, api: api}
	o := p.options(id)
	for _, f := range change {
		f(&o)
	}
	var err error
	if p.Claim, err = claim.New(o, 0); err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(p.Stop)
	return p
}

// start contends and waits for what follows at once.
func (p *process) start() *process {
	p.Start(p.t.Context())
	synctest.Wait()
	return p
}

// told is the events so far, as words.
func (p *process) told() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var words []string
	for _, e := range p.events {
		word := string(e.Type)
		if e.Reason != "" {
			word += "(" + string(e.Reason) + ")"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func (p *process) last(kind claim.EventType) claim.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range slices.Backward(p.events) {
		if e.Type == kind {
			return e
		}
	}
	p.t.Fatalf("no event %s", kind)
	return claim.Event{}
}

func (p *process) wantTold(want string) {
	p.t.Helper()
	if got := p.told(); got != want {
		p.t.Fatalf("events = %q, want %q", got, want)
	}
}

func (p *process) wantExits(want int) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.exits) != want {
		p.t.Fatalf("exits = %q, want %d", p.exits, want)
	}
}

func getLease(t *testing.T, api *shardingtest.Leases) *coordinationv1.Lease {
	t.Helper()
	lease, err := api.Leases(namespace).Get(context.Background(), leaseName, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("getting the Lease: %v", err)
	}
	return lease
}

func wantHolder(t *testing.T, api *shardingtest.Leases, want placement.Identity) {
	t.Helper()
	if got := claim.HolderOf(getLease(t, api)); got != want {
		t.Fatalf("holder = %q, want %q", got, want)
	}
}

// edit changes the Lease by hand.
func edit(t *testing.T, api *shardingtest.Leases, change func(*coordinationv1.Lease)) {
	t.Helper()
	lease := getLease(t, api)
	change(lease)
	if _, err := api.Leases(namespace).Update(context.Background(), lease, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("editing the Lease: %v", err)
	}
}

func deleteLease(t *testing.T, api *shardingtest.Leases) {
	t.Helper()
	if err := api.Leases(namespace).Delete(context.Background(), leaseName, metav1.DeleteOptions{}); err != nil {
		t.Fatalf("deleting the Lease: %v", err)
	}
}

// installed is an API with all Leases there, released.
func installed(t *testing.T) *shardingtest.Leases {
	t.Helper()
	api := shardingtest.NewLeases()
	p := &process{t: t, api: api}
	if err := claim.EnsureLeases(t.Context(), p.options(alice)); err != nil {
		t.Fatalf("EnsureLeases: %v", err)
	}
	leases := api.Leases(namespace)
	list, err := leases.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("listing the Leases: %v", err)
	}
	for i := range list.Items {
		list.Items[i].Annotations[claim.VacatedAnnotation] = string(claim.Released)
		if _, err := leases.Update(t.Context(), &list.Items[i], metav1.UpdateOptions{}); err != nil {
			t.Fatalf("releasing a Lease: %v", err)
		}
	}
	return api
}

// pass lets time pass and everything that follows happen.
func pass(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

// failing answers every request of the given verbs with an error.
func failing(verbs ...string) func(context.Context, shardingtest.Call) shardingtest.Fault {
	return func(_ context.Context, c shardingtest.Call) shardingtest.Fault {
		if len(verbs) == 0 || slices.Contains(verbs, c.Verb) {
			return shardingtest.Fault{Err: fmt.Errorf("%s: connection refused", c.Verb)}
		}
		return shardingtest.Fault{}
	}
}

// world runs sets.
type world struct {
	t   *testing.T
	api *shardingtest.Leases
}

func newWorld(t *testing.T, api *shardingtest.Leases) *world { return &world{t: t, api: api} }

type member struct {
	*process
	set *claim.Set
}

// run starts a set and waits for its first list.
func (w *world) run(id placement.Identity) *member {
	w.t.Helper()
	m := &member{process: &process{t: w.t, api: w.api}}
	var err error
	if m.set, err = claim.NewSet(m.options(id)); err != nil {
		w.t.Fatalf("NewSet: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := m.set.Run(ctx); err != nil {
			w.t.Errorf("Run: %v", err)
		}
	}()
	w.t.Cleanup(func() {
		m.set.Stop()
		cancel()
		<-done
	})
	<-m.set.Synced()
	synctest.Wait()
	return m
}

func (m *member) held() int {
	n := 0
	for shard := range m.set.Shards() {
		if _, ok := m.set.Claim(shard).Epoch(); ok {
			n++
		}
	}
	return n
}
