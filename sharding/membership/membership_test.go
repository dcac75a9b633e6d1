package membership_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"example.com/redis-operator/sharding/membership"
	"example.com/redis-operator/sharding/placement"
	"example.com/redis-operator/sharding/shardingtest"
)

// process is one process's membership over an API in memory, and what it was told.
type process struct {
	*membership.Membership
	end func()

	mu      sync.Mutex // guards everything below
	seen    map[placement.Identity]membership.Presence
	renewed int
}

func start(t *testing.T, api coordinationv1client.LeasesGetter, identity placement.Identity) *process {
	t.Helper()
	p := &process{seen: map[placement.Identity]membership.Presence{}}
	p.Membership = membership.New(membership.Options{
		Client: api, Namespace: "system", Installation: "op", LeaseDuration: lease, RetryPeriod: retry,
		OnPresence: func(presence membership.Presence) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.seen[presence.Identity] = presence
		},
		OnRenewed: func(string) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.renewed++
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	p.end = func() { cancel(); running.Wait() }
	if err := p.Join(ctx, identity); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return p
}

func (p *process) view(identity placement.Identity) membership.Presence {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[identity]
}

func (p *process) renewals() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.renewed
}

func TestPresenceIsPublishedAndRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := shardingtest.NewLeases()
		a, b := start(t, api, "op-0_uid0_n0"), start(t, api, "op-1_uid1_n1")
		defer a.end()
		defer b.end()
		first := b.view("op-0_uid0_n0").Version
		before := a.renewals()
		<-time.After(3 * retry)
		synctest.Wait()
		if a.renewals() != before+3 || b.view("op-0_uid0_n0").Version == first {
			t.Fatalf("%d renewals in three retry periods, seen %q then %q", a.renewals()-before, first, b.view("op-0_uid0_n0").Version)
		}
		costs := map[placement.Shard]placement.Cost{5: {Objects: 120, Milliseconds: 1500}, 12: {}}
		a.Publish("17", []placement.Shard{2, 5}, costs, true)
		synctest.Wait()
		if got := b.view("op-0_uid0_n0"); got.Placement != "17" || !slices.Equal(got.Warmed, []placement.Shard{2, 5}) ||
			!maps.Equal(got.Costs, costs) {
			t.Errorf("an urgent publication is seen as %+v", got)
		}
		a.Publish("18", nil, nil, false)
		synctest.Wait()
		if got := b.view("op-0_uid0_n0"); got.Placement != "17" {
			t.Errorf("a publication that is not urgent was written at once: %+v", got)
		}
		<-time.After(retry)
		synctest.Wait()
		if got := b.view("op-0_uid0_n0"); got.Placement != "18" || len(got.Warmed)+len(got.Costs) != 0 {
			t.Errorf("the next renewal is seen as %+v", got)
		}
	})
}

func TestPresenceDeletedByHandIsRecreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := shardingtest.NewLeases()
		a, b := start(t, api, "op-0_uid0_n0"), start(t, api, "op-1_uid1_n1")
		defer a.end()
		defer b.end()
		if err := b.Remove(t.Context(), "op-0_uid0_n0"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := b.view("op-0_uid0_n0").Version; got != "" {
			t.Fatalf("a deleted presence is seen as version %q", got)
		}
		<-time.After(retry)
		synctest.Wait()
		version, err := b.Read(t.Context(), "op-0_uid0_n0")
		if err != nil || version == "" || b.view("op-0_uid0_n0").Version != version {
			t.Errorf("read %q (%v), seen %q after the next renewal", version, err, b.view("op-0_uid0_n0").Version)
		}
	})
}

// What went while a watch was lost is noticed by the list that follows.
func TestWatchesThatEnd(t *testing.T) {
	cases := map[string]func(*shardingtest.Leases, *process){
		"cut":         func(api *shardingtest.Leases, _ *process) { api.CutWatches() },
		"too old":     func(api *shardingtest.Leases, _ *process) { api.Compact() },
		"gone silent": func(_ *shardingtest.Leases, p *process) { p.Relist() },
	}
	for name, lose := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := shardingtest.NewLeases()
				a, b := start(t, api, "op-0_uid0_n0"), start(t, api, "op-1_uid1_n1")
				defer b.end()
				a.end()
				api.Mute(true)
				if err := a.Leave(t.Context()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if b.view("op-0_uid0_n0").Version == "" {
					t.Fatal("a muted watch has shown something")
				}
				api.Mute(false)
				lose(api, b)
				<-time.After(retry)
				synctest.Wait()
				if got := b.view("op-0_uid0_n0").Version; got != "" {
					t.Errorf("a process that has left is seen as version %q", got)
				}
			})
		})
	}
}

// An urgent publication that fails is tried again soon, and one whose answer is lost does no harm.
func TestFailedRenewals(t *testing.T) {
	cases := map[string]shardingtest.Fault{
		"refused":     {Err: errors.New("away")},
		"answer lost": {Lost: errors.New("away")},
	}
	for name, fault := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := shardingtest.NewLeases()
				a, b := start(t, api, "op-0_uid0_n0"), start(t, api, "op-1_uid1_n1")
				defer a.end()
				defer b.end()
				failures := 0
				api.SetFault(func(_ context.Context, call shardingtest.Call) shardingtest.Fault {
					if failures == 0 && call.Verb == "update" && strings.HasPrefix(call.Name, "op-0") {
						failures++
						return fault
					}
					return shardingtest.Fault{}
				})
				a.Publish("17", []placement.Shard{3}, nil, true)
				<-time.After(retry)
				synctest.Wait()
				if got := b.view("op-0_uid0_n0"); failures != 1 || got.Placement != "17" {
					t.Errorf("after %d failures the presence is seen as %+v", failures, got)
				}
			})
		})
	}
}

// Watches that end at once are begun again with a pause; the lists between them show what there is.
func TestWatchesThatEndAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := shardingtest.NewLeases()
		deaf := &shardingtest.Deaf{LeasesGetter: api}
		p := start(t, deaf, "op-0_u_n")
		defer p.end()
		before := deaf.Watches.Load()
		other := start(t, api, "op-1_u_n")
		defer other.end()
		<-time.After(10 * retry)
		synctest.Wait()
		if n := deaf.Watches.Load() - before; n < 10 || n > 30 {
			t.Errorf("%d watches in ten retry periods", n)
		}
		if p.view("op-1_u_n").Version == "" {
			t.Error("the other process was not seen")
		}
	})
}
