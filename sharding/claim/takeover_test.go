package claim_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/placement"
	"example.com/redis-operator/sharding/shardingtest"
)

// heldBy writes the Lease as an unknown process would that then dies.
func heldBy(t *testing.T, api *shardingtest.Leases, holder placement.Identity, seconds int32) {
	t.Helper()
	edit(t, api, func(l *coordinationv1.Lease) {
		l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = ptr.To(string(holder)), &seconds
		delete(l.Annotations, claim.VacatedAnnotation)
	})
}

func TestTakeover(t *testing.T) {
	cases := map[string]struct {
		holder  placement.Identity // writes once, then is gone
		seconds int32              // the duration that the Lease states
		seen    time.Duration      // for how long the claim has watched before it contends
		dead    placement.Identity
		wantMin time.Duration // from contending to acquiring
		wantMax time.Duration
	}{
		"unknown holder, seen first now":  {holder: bob, seconds: 10, wantMin: 10 * time.Second, wantMax: 10*time.Second + 10*time.Millisecond},
		"expired while watching":          {holder: bob, seconds: 10, seen: 12 * time.Second},
		"partly watched":                  {holder: bob, seconds: 10, seen: 4 * time.Second, wantMin: 6 * time.Second, wantMax: 6*time.Second + 10*time.Millisecond},
		"the Lease states a longer time":  {holder: bob, seconds: 30, wantMin: 30 * time.Second, wantMax: 30*time.Second + 10*time.Millisecond},
		"the Lease states a shorter time": {holder: bob, seconds: 1, wantMin: 10 * time.Second, wantMax: 10*time.Second + 10*time.Millisecond},
		"confirmed dead":                  {holder: bob, seconds: 10, dead: bob},
		"another is confirmed dead":       {holder: bob, seconds: 10, dead: "redis-operator-1_uid-b_0", wantMin: 10 * time.Second, wantMax: 11 * time.Second},
		"an older process of its own Pod": {holder: alice2, seconds: 10},
		"same Pod name, another UID":      {holder: "redis-operator-0_uid-z_1", seconds: 10, wantMin: 10 * time.Second, wantMax: 11 * time.Second},
		"an identity of another form":     {holder: "somebody", seconds: 10, wantMin: 10 * time.Second, wantMax: 11 * time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := installed(t)
				heldBy(t, api, tc.holder, tc.seconds)
				p := newProcess(t, api, alice)
				p.set(func(p *process) { p.dead = tc.dead })
				if tc.seen > 0 {
					p.Observe(getLease(t, api))
					pass(tc.seen)
				}
				begin := time.Now()
				p.start()
				pass(tc.wantMax)
				p.wantTold("Acquired")
				e := p.last(claim.Acquired)
				if took := e.At.Sub(begin); took < tc.wantMin || took > tc.wantMax {
					t.Errorf("acquired after %s, want %s to %s", took, tc.wantMin, tc.wantMax)
				}
				if !e.Unclean {
					t.Error("a takeover is not clean")
				}
				want := claim.EmptyExpired
				switch tc.holder {
				case tc.dead:
					want = claim.EmptyConfirmed
				case alice2:
					want = claim.EmptyOwnPod
				}
				if e.Vacated != want {
					t.Errorf("acquired from a holder that was removed as %q, want %q", e.Vacated, want)
				}
			})
		})
	}
}

// A holder that renews is never taken over, however long that lasts, and takes over nobody's time.
func TestLiveHolderKeepsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		a := newProcess(t, api, alice).start()
		b := newProcess(t, api, bob).start()
		pass(10 * time.Minute)
		a.wantTold("Acquired")
		b.wantTold("")
		wantHolder(t, api, alice)
	})
}

// I1: an observer may take the Lease only after the holder's own deadline, whatever was lost between.
func TestHolderStopsBeforeTheObserverTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		a := newProcess(t, api, alice).start()
		b := newProcess(t, api, bob).start()
		pass(31 * time.Second)
		// A's requests fail from now on, b's do not.
		api.SetFault(func(_ context.Context, c shardingtest.Call) shardingtest.Fault {
			if c.Lease != nil && claim.HolderOf(c.Lease) == alice {
				return shardingtest.Fault{Lost: context.DeadlineExceeded, Err: context.DeadlineExceeded}
			}
			return shardingtest.Fault{}
		})
		pass(15 * time.Second)
		a.wantTold("Acquired Stalled Expiring Lost(Deadline)")
		b.wantTold("Acquired")
		// Here nothing takes time, so both may be one instant: a call at the deadline itself is refused.
		if lost, taken := a.last(claim.Lost).At, b.last(claim.Acquired).At; lost.After(taken) {
			t.Errorf("b acquired %s before a had lost", lost.Sub(taken))
		}
		if ea, eb := a.last(claim.Acquired).Epoch, b.last(claim.Acquired).Epoch; !eb.After(ea) {
			t.Errorf("epoch %s of the successor is not after %s", eb, ea)
		}
	})
}

func TestReconsiderAfterAConfirmation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		heldBy(t, api, bob, 10)
		p := newProcess(t, api, alice, func(o *claim.Options) { o.Poll = time.Hour }).start()
		pass(3 * time.Second)
		p.wantTold("")
		p.set(func(p *process) { p.dead = bob })
		p.Reconsider()
		synctest.Wait()
		p.wantTold("Acquired")
	})
}

// The holder renews between the judgement and the emptying: nothing is taken.
func TestRenewalDuringTheEmptying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		heldBy(t, api, bob, 10)
		p := newProcess(t, api, alice)
		renewed := false
		api.SetFault(func(_ context.Context, c shardingtest.Call) shardingtest.Fault {
			if c.Verb != "update" || renewed || claim.HolderOf(c.Lease) != "" {
				return shardingtest.Fault{}
			}
			renewed = true
			return shardingtest.Fault{Before: func(context.Context) { heldBy(t, api, bob, 10) }}
		})
		p.start()
		pass(11 * time.Second)
		if !renewed {
			t.Fatal("the Lease was not about to be emptied")
		}
		p.wantTold("")
		wantHolder(t, api, bob)
		pass(9 * time.Second)
		p.wantTold("Acquired")
	})
}

// After an outage the holder comes first, although its Lease has been seen unchanged for long.
func TestObserverStartsAnewAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		heldBy(t, api, bob, 10)
		p := newProcess(t, api, alice).start()
		pass(2 * time.Second)
		api.SetFault(failing())
		pass(time.Minute)
		api.SetFault(nil)
		pass(7 * time.Second)
		p.wantTold("")
		pass(5 * time.Second)
		p.wantTold("Acquired")
	})
}

func TestBreakStartsTheObservationAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		heldBy(t, api, bob, 10)
		p := newProcess(t, api, alice)
		p.Observe(getLease(t, api))
		pass(9 * time.Second)
		p.Break()
		p.start()
		pass(9 * time.Second)
		p.wantTold("")
		pass(2 * time.Second)
		p.wantTold("Acquired")
	})
}

func TestEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		heldBy(t, api, bob, 10)
		o := (&process{t: t, api: api}).options(alice)
		old := getLease(t, api)
		heldBy(t, api, bob, 10)
		if _, err := claim.Empty(t.Context(), o, old, claim.EmptyExpired); !apierrors.IsConflict(err) {
			t.Fatalf("emptying an old version: %v, want a conflict", err)
		}
		wantHolder(t, api, bob)
		got, err := claim.Empty(t.Context(), o, getLease(t, api), claim.EmptyConfirmed)
		if err != nil {
			t.Fatalf("Empty: %v", err)
		}
		if claim.HolderOf(got) != "" || got.Annotations[claim.VacatedAnnotation] != "Confirmed" {
			t.Errorf("emptied Lease = %v", got)
		}
	})
}

// A verdict holds for the Lease that was judged: what is seen of a newer holder meanwhile stays.
func TestVerdictIsForWhatWasJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const carol = placement.Identity("redis-operator-2_uid-c_1")
		api := installed(t)
		heldBy(t, api, bob, 10)
		var p *process
		p = newProcess(t, api, alice, func(o *claim.Options) {
			o.ConfirmedDead = func(id placement.Identity) bool {
				if id != bob {
					return false
				}
				heldBy(t, api, carol, 10) // and the watch shows it before the Lease is emptied
				p.Observe(getLease(t, api))
				return true
			}
		})
		p.start()
		pass(5 * time.Second)
		p.wantTold("")
		wantHolder(t, api, carol)
	})
}

// The answer to the acquisition after a takeover is lost. What acquires it then is still unclean: calls of
// the holder before may be on their way.
func TestLostAnswerToATakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		heldBy(t, api, bob, 10)
		var lost atomic.Bool
		api.SetFault(func(_ context.Context, c shardingtest.Call) shardingtest.Fault {
			if claim.HolderOf(c.Lease) == alice && !lost.Swap(true) {
				return shardingtest.Fault{Lost: errors.New("connection reset")}
			}
			return shardingtest.Fault{}
		})
		p := newProcess(t, api, alice).start()
		pass(20 * time.Second)
		p.wantTold("Acquired")
		if e := p.last(claim.Acquired); !lost.Load() || !e.Unclean || e.Again || e.Vacated != claim.EmptyExpired {
			t.Errorf("acquired %+v, want it unclean and %s", e, claim.EmptyExpired)
		}
	})
}
