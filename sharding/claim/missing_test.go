package claim_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/shardingtest"
)

// A Lease deleted by hand: its holder recreates it and keeps its epoch; a contender that sees it
// missing at once does not take it (client-go's own elector does).
func TestDeletedLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		a := newProcess(t, api, alice).start()
		b := newProcess(t, api, bob, func(o *claim.Options) { o.Poll = 100 * time.Millisecond }).start()
		pass(5 * time.Second)
		deleteLease(t, api)
		pass(300 * time.Millisecond)
		b.wantTold("")
		pass(10 * time.Second)
		a.wantTold("Acquired")
		b.wantTold("")
		wantHolder(t, api, alice)
		if e, ok := a.Epoch(); !ok || e != a.last(claim.Acquired).Epoch {
			t.Errorf("epoch = %s, %t", e, ok)
		}
	})
}

// A Lease deleted while its holder is cut off: others wait a whole Lease duration from seeing it.
func TestDeletedLeaseOfACutOffHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		a := newProcess(t, api, alice).start()
		b := newProcess(t, api, bob).start()
		pass(4900 * time.Millisecond)
		api.SetFault(func(_ context.Context, c shardingtest.Call) shardingtest.Fault {
			if claim.HolderOf(c.Lease) == alice {
				return shardingtest.Fault{Err: errors.New("cut off")}
			}
			return shardingtest.Fault{}
		})
		deleteLease(t, api)
		begin := time.Now()
		pass(20 * time.Second)
		a.wantTold("Acquired Stalled Expiring Lost(Deadline)")
		b.wantTold("Acquired")
		e := b.last(claim.Acquired)
		if took := e.At.Sub(begin); took < 10*time.Second || took > 13*time.Second {
			t.Errorf("acquired %s after the deletion, want a Lease duration and little more", took)
		}
		if !e.At.After(a.last(claim.Lost).At) || !e.Unclean {
			t.Errorf("acquired at %s, lost at %s, unclean = %t", e.At, a.last(claim.Lost).At, e.Unclean)
		}
		if !e.Epoch.After(a.last(claim.Acquired).Epoch) {
			t.Error("epochs do not grow over a deletion")
		}
	})
}

// Lost and deleted: the former holder has no more right to the missing Lease than anybody.
func TestMissingLeaseAfterTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		p := newProcess(t, api, alice).start()
		api.SetFault(failing())
		pass(12 * time.Second)
		api.SetFault(nil)
		deleteLease(t, api)
		begin := time.Now()
		pass(30 * time.Second)
		p.wantTold("Acquired Stalled Expiring Lost(Deadline) Acquired")
		if took := p.last(claim.Acquired).At.Sub(begin); took < 10*time.Second {
			t.Errorf("created the missing Lease after %s", took)
		}
	})
}

// I1: a process whose watch shows a Lease as missing that another has made, taken and lost to a second
// deletion. Whatever it knows, what it creates is without a holder, and it waits from then.
func TestLeaseDeletedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		late := newProcess(t, api, carol)
		late.ObserveAbsent(deletedVersion(t, api))
		a := newProcess(t, api, alice).start()
		pass(12 * time.Second)
		a.wantTold("Acquired")
		pass(1900 * time.Millisecond) // right before its next renewal
		deleteLease(t, api)
		begin := time.Now()
		late.start()
		late.wantTold("")
		a.Observe(getLease(t, api))
		pass(8 * time.Second)
		a.wantTold("Acquired")
		late.wantTold("")
		wantHolder(t, api, alice)
		a.Stop()
		pass(30 * time.Second)
		late.wantTold("Acquired")
		if at := late.last(claim.Acquired).At; at.Before(a.last(claim.Lost).At.Add(2*time.Second)) || at.Before(begin.Add(18*time.Second)) {
			t.Errorf("acquired %s after the second deletion", at.Sub(begin))
		}
	})
}

// deletedVersion deletes the Lease, and answers as of which version it is missing.
func deletedVersion(t *testing.T, api *shardingtest.Leases) string {
	t.Helper()
	deleteLease(t, api)
	list, err := api.Leases(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("listing: %v", err)
	}
	return list.ResourceVersion
}

// The answer to a creation is lost: the Lease is there all the same, and is waited for all the same.
func TestLostAnswerToACreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := shardingtest.NewLeases()
		var lost atomic.Bool
		api.SetFault(func(_ context.Context, c shardingtest.Call) shardingtest.Fault {
			if c.Verb == "create" && !lost.Swap(true) {
				return shardingtest.Fault{Lost: errors.New("connection reset")}
			}
			return shardingtest.Fault{}
		})
		p := newProcess(t, api, alice).start()
		begin := time.Now()
		pass(15 * time.Second)
		p.wantTold("Acquired")
		if took := p.last(claim.Acquired).At.Sub(begin); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("acquired after %s, want a Lease duration and little more", took)
		}
		if got := api.Calls("create"); got != 2 {
			t.Errorf("%d creations, want the one and another try", got)
		}
	})
}

func TestEnsureLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := shardingtest.NewLeases()
		o := (&process{t: t, api: api}).options(alice)
		ensure := func(created int) {
			t.Helper()
			if err := claim.EnsureLeases(t.Context(), o); err != nil {
				t.Fatalf("EnsureLeases: %v", err)
			}
			if got := api.Calls("create"); got != created {
				t.Errorf("%d Leases created, want %d", got, created)
			}
		}
		ensure(64)
		ensure(64)
		deleteLease(t, api)
		ensure(65)
		// They may stand in the place of deleted ones: nobody takes them at once.
		p := newProcess(t, api, alice).start()
		begin := time.Now()
		pass(11 * time.Second)
		p.wantTold("Acquired")
		if took := p.last(claim.Acquired).At.Sub(begin); took != 10*time.Second {
			t.Errorf("acquired after %s, want a Lease duration", took)
		}
		edit(t, api, func(l *coordinationv1.Lease) { l.Annotations[claim.HashAnnotation] = "other" })
		var se *claim.SettingsError
		if err := claim.EnsureLeases(t.Context(), o); !errors.As(err, &se) || se.Theirs.Hash != "other" {
			t.Errorf("EnsureLeases = %v, want a SettingsError", err)
		}
	})
}

func TestSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		w := newWorld(t, api)
		a, b := w.run(alice), w.run(bob)
		for shard := range a.set.Shards() {
			a.set.Claim(shard).Start(t.Context())
		}
		synctest.Wait()
		if got := a.held(); got != 64 {
			t.Fatalf("a holds %d of 64", got)
		}
		for shard := range b.set.Shards() {
			b.set.Claim(shard).Start(t.Context())
		}
		gets := api.Calls("get")
		pass(9 * time.Second)
		// B watches rather than polls: the elector of a reads nothing while renewals pass.
		if got := api.Calls("get") - gets; got != 0 {
			t.Errorf("%d reads while everything stays as it is", got)
		}
		if lag := a.set.Lag(); lag != 0 {
			t.Errorf("lag = %s", lag)
		}
		api.Compact() // a lost watch: 410, then a new list
		api.CutWatches()
		pass(time.Second)
		begin := time.Now()
		if err := a.set.Release(t.Context()); err != nil {
			t.Fatalf("Release: %v", err)
		}
		synctest.Wait()
		if got := b.held(); got != 64 || time.Since(begin) != 0 {
			t.Errorf("b holds %d of 64 after %s, want all at once", got, time.Since(begin))
		}
	})
}

// Writes pass and the watch shows nothing: the lag is known, and the set lists again.
func TestSetStalledWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		w := newWorld(t, api)
		a := w.run(alice)
		lists := api.Calls("list")
		api.Mute(true)
		a.set.Claim(0).Start(t.Context())
		pass(6 * time.Second)
		if lag := a.set.Lag(); lag < 5*time.Second {
			t.Errorf("lag = %s after 6s of silence", lag)
		}
		pass(4 * time.Second)
		if got := api.Calls("list") - lists; got == 0 {
			t.Error("the set did not list again")
		}
		api.Mute(false)
		pass(5 * time.Second)
		if lag := a.set.Lag(); lag != 0 {
			t.Errorf("lag = %s", lag)
		}
	})
}

// A Lease whose labels were removed by hand is not on the watch; it is found and mended.
func TestSetLabelsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		edit(t, api, func(l *coordinationv1.Lease) { l.Labels = nil })
		a := newWorld(t, api).run(alice)
		a.set.Claim(0).Start(t.Context())
		pass(11 * time.Second)
		if got := a.held(); got != 1 {
			t.Fatalf("holds %d", got)
		}
		list, err := api.Leases(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: claim.InstallationLabel})
		if err != nil || len(list.Items) != 64 {
			t.Errorf("%d Leases with the label, %v", len(list.Items), err)
		}
	})
}

// S = 1,024 stays workable: a claim that is held costs one goroutine, one that is not none.
func TestGoroutinesOfManyClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shards = 1024
		api := shardingtest.NewLeases()
		p := &process{t: t, api: api}
		o := p.options(alice)
		o.Settings.Shards = shards
		if err := claim.EnsureLeases(t.Context(), o); err != nil {
			t.Fatalf("EnsureLeases: %v", err)
		}
		set, err := claim.NewSet(o)
		if err != nil {
			t.Fatalf("NewSet: %v", err)
		}
		defer set.Stop()
		before := runtime.NumGoroutine()
		for shard := range set.Shards() {
			set.Claim(shard).Start(t.Context())
		}
		pass(19 * time.Second)
		for shard := range set.Shards() {
			if _, ok := set.Claim(shard).Epoch(); !ok {
				t.Fatalf("shard %d is not held", shard)
			}
		}
		if got := runtime.NumGoroutine() - before; got > shards+16 {
			t.Errorf("%d goroutines for %d claims", got, shards)
		}
	})
}
