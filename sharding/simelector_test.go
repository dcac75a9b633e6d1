package sharding

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/placement"
	"example.com/redis-operator/sharding/shardingtest"
)

const (
	electorNamespace = "operators"
	electorLease     = "redis-operator-shard-0"
)

// realRig runs a scenario of the claims' contract with package claim. It needs a bubble of synctest.
type realRig struct {
	t         *testing.T
	api       *shardingtest.Leases
	began     time.Time
	processes map[Identity]*realProcess

	mu        sync.Mutex // guards the rest, and the processes' fields
	awayUntil time.Time
	dead      Identity
	result    claimOutcome
}

// realProcess is a process with a claim, and its way to the API.
type realProcess struct {
	r        *realRig
	set      *claim.Set
	killed   bool
	cutUntil time.Time
	loseNext bool
}

func newRealRig(t *testing.T) *realRig {
	t.Helper()
	r := &realRig{
		t: t, api: shardingtest.NewLeases(), began: time.Now(), processes: map[Identity]*realProcess{},
		result: claimOutcome{events: map[Identity][]claimEvent{}},
	}
	o := r.options(alice, r.api)
	if err := claim.EnsureLeases(t.Context(), o); err != nil {
		t.Fatalf("EnsureLeases: %v", err)
	}
	r.edit(func(l *coordinationv1.Lease) { l.Annotations[claim.VacatedAnnotation] = string(claim.Released) })
	r.follow()
	return r
}

func (r *realRig) leases() coordinationv1client.LeaseInterface { return r.api.Leases(electorNamespace) }

// follow notes every version of the Lease, from the present one on.
func (r *realRig) follow() {
	r.t.Helper()
	list, err := r.leases().List(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		r.t.Fatalf("listing the Leases: %v", err)
	}
	versions, err := r.leases().Watch(r.t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		r.t.Fatalf("watching the Leases: %v", err)
	}
	r.result.held("-")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range versions.ResultChan() {
			r.note(e)
		}
	}()
	r.t.Cleanup(func() { versions.Stop(); <-done })
}

func (r *realRig) note(e watch.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lease, isLease := e.Object.(*coordinationv1.Lease)
	switch {
	case e.Type == watch.Deleted:
		r.result.held("missing")
	case isLease:
		r.result.held(nameOf(claim.HolderOf(lease)))
	}
}

func (r *realRig) options(who Identity, client coordinationv1client.LeasesGetter) claim.Options {
	timings := claimTimings()
	return claim.Options{
		Client: client, Namespace: electorNamespace, Identity: who,
		Settings: placement.Settings{Shards: 1, Hash: placement.HashFNV1aMix},
		Timings: claim.Timings{
			LeaseDuration: timings.LeaseDuration, RenewDeadline: timings.RenewDeadline, RetryPeriod: timings.RetryPeriod,
			CancelLead: simCancelLead,
		},
		OnEvent: func(e claim.Event) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if p := r.processes[who]; p == nil || !p.killed {
				r.result.told(who, wordOf(e.Type, e.Unclean, e.Again), e.At.Sub(r.began))
			}
		},
		ConfirmedDead: func(who Identity) bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return who == r.dead
		},
	}
}

// process is the one of that identity, whose watch has begun.
func (r *realRig) process(who Identity) *realProcess {
	r.t.Helper()
	if p := r.processes[who]; p != nil {
		return p
	}
	p := &realProcess{r: r}
	set, err := claim.NewSet(r.options(who, p))
	if err != nil {
		r.t.Fatalf("NewSet: %v", err)
	}
	p.set = set
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := set.Run(ctx); err != nil {
			r.t.Errorf("Run: %v", err)
		}
	}()
	r.t.Cleanup(func() {
		r.set(func() { p.killed = true })
		set.Stop()
		cancel()
		<-done
	})
	<-set.Synced()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.processes[who] = p
	return p
}

func (r *realRig) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

func (r *realRig) start(who Identity) {
	r.process(who).set.Claim(0).Start(context.Background())
	synctest.Wait()
}

func (r *realRig) release(who Identity) {
	c := r.process(who).set.Claim(0)
	go func() {
		if err := c.Release(r.t.Context()); err != nil {
			r.t.Errorf("Release: %v", err)
		}
	}()
}

func (r *realRig) kill(who Identity) {
	p := r.process(who)
	r.set(func() { p.killed = true })
	p.set.Stop()
}

func (r *realRig) cut(who Identity, d time.Duration) {
	p := r.process(who)
	r.set(func() { p.cutUntil = time.Now().Add(d) })
}

func (r *realRig) loseAnswer(who Identity) {
	p := r.process(who)
	r.set(func() { p.loseNext = true })
}

func (r *realRig) away(d time.Duration) { r.set(func() { r.awayUntil = time.Now().Add(d) }) }

func (r *realRig) confirm(who Identity) {
	r.set(func() { r.dead = who })
	for _, p := range r.processes {
		p.set.Reconsider()
	}
}

// store writes what the fields of a simulated Lease mean in a real one.
func (r *realRig) store(lease simLease) {
	if lease.missing {
		if err := r.leases().Delete(r.t.Context(), electorLease, metav1.DeleteOptions{}); err != nil {
			r.t.Fatalf("deleting the Lease: %v", err)
		}
		return
	}
	r.edit(func(l *coordinationv1.Lease) {
		l.Spec.HolderIdentity = ptr.To(string(lease.holder))
		if lease.holder != "" || lease.unsettled {
			delete(l.Annotations, claim.VacatedAnnotation)
		}
		if lease.settings > 0 {
			l.Annotations[claim.ShardsAnnotation] = strconv.Itoa(lease.settings)
		}
	})
}

func (r *realRig) touch() {
	r.edit(func(l *coordinationv1.Lease) { l.Annotations["note"] += "x" })
}

func (r *realRig) edit(change func(*coordinationv1.Lease)) {
	r.t.Helper()
	lease, err := r.leases().Get(r.t.Context(), electorLease, metav1.GetOptions{})
	if err != nil {
		r.t.Fatalf("getting the Lease: %v", err)
	}
	change(lease)
	if _, err := r.leases().Update(r.t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		r.t.Fatalf("editing the Lease: %v", err)
	}
}

func (r *realRig) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (r *realRig) outcome() *claimOutcome {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return &r.result
}

// Leases is the process's way to the API.
func (p *realProcess) Leases(namespace string) coordinationv1client.LeaseInterface {
	return &realWire{LeaseInterface: p.r.api.Leases(namespace), p: p}
}

// hangsUntil is until when nothing of the process gets through.
func (p *realProcess) hangsUntil() (until time.Time, isKilled, isAway bool) {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	return p.cutUntil, p.killed, time.Now().Before(p.r.awayUntil)
}

// reach lets a request through, or has it hang until its context ends as on a network that is cut.
func (p *realProcess) reach(ctx context.Context) error {
	until, isKilled, isAway := p.hangsUntil()
	if isKilled || time.Now().Before(until) {
		<-ctx.Done()
		return ctx.Err()
	}
	if isAway {
		return errors.New("connection refused")
	}
	return nil
}

// answer lets the answer to a write through, or loses it.
func (p *realProcess) answer(ctx context.Context) error {
	isLost := false
	p.r.set(func() { isLost, p.loseNext = p.loseNext, false })
	if isLost {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

// realWire is the Leases API as a process reaches it.
type realWire struct {
	coordinationv1client.LeaseInterface
	p *realProcess
}

func (w *realWire) Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error) {
	if err := w.p.reach(ctx); err != nil {
		return nil, err
	}
	return w.LeaseInterface.Get(ctx, name, o)
}

func (w *realWire) Create(ctx context.Context, l *coordinationv1.Lease, o metav1.CreateOptions) (*coordinationv1.Lease, error) {
	if err := w.p.reach(ctx); err != nil {
		return nil, err
	}
	return w.LeaseInterface.Create(ctx, l, o)
}

func (w *realWire) Update(ctx context.Context, l *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	if err := w.p.reach(ctx); err != nil {
		return nil, err
	}
	stored, err := w.LeaseInterface.Update(ctx, l, o)
	if lost := w.p.answer(ctx); lost != nil {
		return nil, lost
	}
	return stored, err
}

func (w *realWire) List(ctx context.Context, o metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	if err := w.p.reach(ctx); err != nil {
		return nil, err
	}
	return w.LeaseInterface.List(ctx, o)
}

// Watch shows what happens once the process is not cut off any more.
func (w *realWire) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if err := w.p.reach(ctx); err != nil {
		return nil, err
	}
	inner, err := w.LeaseInterface.Watch(ctx, o)
	if err != nil {
		return nil, err
	}
	shown := make(chan watch.Event)
	outer := watch.NewProxyWatcher(shown)
	go func() {
		defer close(shown)
		defer inner.Stop()
		for {
			select {
			case <-outer.StopChan():
				return
			case e, isOpen := <-inner.ResultChan():
				if !isOpen || !w.show(ctx, outer, shown, e) {
					return
				}
			}
		}
	}()
	return outer, nil
}

// show waits for the end of a cut; false if nobody watches any more.
func (w *realWire) show(ctx context.Context, outer *watch.ProxyWatcher, shown chan<- watch.Event, e watch.Event) bool {
	until, _, _ := w.p.hangsUntil()
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-outer.StopChan():
		return false
	case <-ctx.Done():
		return false
	}
	select {
	case shown <- e:
		return true
	case <-outer.StopChan():
		return false
	case <-ctx.Done():
		return false
	}
}
