package claim_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/placement"
	"example.com/redis-operator/sharding/shardingtest"
)

func TestAcquireEmptyLeaseAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		begin := time.Now()
		p := newProcess(t, api, alice).start()
		p.wantTold("Acquired")
		e := p.last(claim.Acquired)
		if e.Unclean || !e.At.Equal(begin) {
			t.Errorf("Acquired after %s, unclean = %t; want at once and clean", e.At.Sub(begin), e.Unclean)
		}
		if got, want := e.Deadline(), begin.Add(10*time.Second); !got.Equal(want) {
			t.Errorf("deadline = %s, want %s", got, want)
		}
		lease := getLease(t, api)
		if got := lease.Annotations[claim.ShardsAnnotation] + " " + lease.Annotations[claim.HashAnnotation]; got != "64 fnv1a64-mix" {
			t.Errorf("annotations = %q", got)
		}
		pass(time.Minute)
		p.wantTold("Acquired")
		if epoch, ok := p.Epoch(); !ok || epoch != e.Epoch {
			t.Errorf("epoch after a minute = %q, %t, want %q", epoch, ok, e.Epoch)
		}
		if age := time.Until(p.Deadline()); age < 7*time.Second {
			t.Errorf("deadline is %s away while renewals pass", age)
		}
	})
}

// I6: the deadline counts from when a renewal was sent, however late its answer comes.
func TestDeadlineCountsFromSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		p := newProcess(t, api, alice).start()
		before := p.Deadline()
		api.SetFault(func(_ context.Context, c shardingtest.Call) shardingtest.Fault {
			return shardingtest.Fault{After: func(ctx context.Context) {
				if c.Verb == "update" {
					sleep(ctx, 1500*time.Millisecond)
				}
			}}
		})
		pass(3600 * time.Millisecond) // sent at 2 s, answered at 3.5 s
		if got, want := p.Deadline(), before.Add(2*time.Second); !got.Equal(want) {
			t.Errorf("deadline = %s after the first one, want 2s", got.Sub(before))
		}
		p.wantTold("Acquired")
	})
}

func TestRenewalsFail(t *testing.T) {
	cases := map[string]struct {
		inFlight  int
		wantExits int
	}{
		"nothing in flight":         {inFlight: 0, wantExits: 0},
		"a mutating call in flight": {inFlight: 1, wantExits: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := installed(t)
				p := newProcess(t, api, alice).start()
				begin := p.Deadline().Add(-10 * time.Second)
				p.set(func(p *process) { p.inFlight = tc.inFlight })
				api.SetFault(failing())
				for _, step := range []struct {
					until time.Duration
					want  string
				}{
					{6999 * time.Millisecond, "Acquired"},
					{7 * time.Second, "Acquired Stalled"},
					{7999 * time.Millisecond, "Acquired Stalled"},
					{8 * time.Second, "Acquired Stalled Expiring"},
					{9999 * time.Millisecond, "Acquired Stalled Expiring"},
				} {
					pass(time.Until(begin.Add(step.until)))
					p.wantTold(step.want)
					p.wantExits(0)
				}
				pass(time.Until(begin.Add(10 * time.Second)))
				p.wantTold("Acquired Stalled Expiring Lost(Deadline)")
				p.wantExits(tc.wantExits)
				if e := p.last(claim.Lost); e.Err == nil || !e.Deadline().IsZero() {
					t.Errorf("Lost with error %v and deadline %s, want the last error and no deadline", e.Err, e.Deadline())
				}
			})
		})
	}
}

func TestRenewalBeforeTheDeadlineKeepsTheEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		p := newProcess(t, api, alice).start()
		api.SetFault(failing())
		pass(8500 * time.Millisecond)
		p.wantTold("Acquired Stalled Expiring")
		api.SetFault(nil)
		pass(time.Second)
		p.wantTold("Acquired Stalled Expiring Recovered")
		if a, r := p.last(claim.Acquired).Epoch, p.last(claim.Recovered).Epoch; a != r {
			t.Errorf("epoch = %s after recovery, want %s", r, a)
		}
	})
}

// The API is away for a minute: the claim runs out, and comes back under an epoch of its own.
func TestOutageOfTheAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		p := newProcess(t, api, alice).start()
		rival := newProcess(t, api, bob).start()
		first := p.last(claim.Acquired).Epoch
		api.SetFault(failing())
		pass(time.Minute)
		p.wantTold("Acquired Stalled Expiring Lost(Deadline)")
		api.SetFault(nil)
		pass(9 * time.Second)
		p.wantTold("Acquired Stalled Expiring Lost(Deadline) Acquired")
		rival.wantTold("")
		if e := p.last(claim.Acquired); !e.Epoch.After(first) || e.Unclean {
			t.Errorf("epoch %s, unclean %t after epoch %s; want a later one, and clean", e.Epoch, e.Unclean, first)
		}
	})
}

// I6: after a pause of the whole process the deadline has passed before any timer has run.
func TestPauseOfTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		p := newProcess(t, api, alice).start()
		e := p.last(claim.Acquired)
		p.set(func(p *process) { p.skew, p.inFlight = time.Minute, 1 })
		if p.now().Before(e.Deadline()) {
			t.Fatalf("deadline %s is not past at %s", e.Deadline(), p.now())
		}
		if _, ok := p.Epoch(); ok {
			t.Error("the epoch is still the claim's")
		}
		// The renewal that follows is a fresh acquisition, although nobody else has written.
		pass(3 * time.Second)
		p.wantTold("Acquired Lost(Deadline) Acquired")
		p.wantExits(1)
		if again := p.last(claim.Acquired); !again.Epoch.After(e.Epoch) {
			t.Errorf("epoch %s after %s", again.Epoch, e.Epoch)
		}
		if !e.Deadline().IsZero() {
			t.Error("the old epoch has a deadline again")
		}
	})
}

func TestLostAnswerOfARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		p := newProcess(t, api, alice).start()
		deadline, lost := p.Deadline(), 0
		api.SetFault(func(_ context.Context, c shardingtest.Call) shardingtest.Fault {
			if c.Verb != "update" || lost >= 2 {
				return shardingtest.Fault{}
			}
			lost++
			return shardingtest.Fault{Lost: errors.New("connection reset")}
		})
		// Twice lost: the optimistic renewal and the one after reading again.
		pass(3 * time.Second)
		if lost != 2 {
			t.Fatalf("%d answers lost, want 2", lost)
		}
		if got := p.Deadline(); !got.Equal(deadline) {
			t.Errorf("a lost answer moved the deadline by %s", got.Sub(deadline))
		}
		pass(3 * time.Second)
		p.wantTold("Acquired")
		if got := p.Deadline(); !got.After(deadline) {
			t.Error("the claim was not renewed after the lost answers")
		}
	})
}

// A hung server must not eat the deadline with one request.
func TestHungRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		p := newProcess(t, api, alice).start()
		hung := 0
		api.SetFault(func(context.Context, shardingtest.Call) shardingtest.Fault {
			if hung++; hung > 1 {
				return shardingtest.Fault{}
			}
			return shardingtest.Fault{Before: func(ctx context.Context) { <-ctx.Done() }}
		})
		pass(6 * time.Second) // hung from 2 s to 5.5 s, then read and renewed
		p.wantTold("Acquired")
		if left := time.Until(p.Deadline()); left < 9*time.Second {
			t.Errorf("deadline is %s away, want it renewed at 5.5s", left)
		}
	})
}

// A callback that blocks delays neither the renewals nor the deadline nor the exit.
func TestBlockedCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		release := make(chan struct{})
		p := newProcess(t, api, alice, func(o *claim.Options) {
			o.OnEvent = func(claim.Event) { <-release }
		}).start()
		defer close(release)
		pass(20 * time.Second)
		if left := time.Until(p.Deadline()); left < 7*time.Second {
			t.Errorf("deadline is %s away: renewals wait for the callback", left)
		}
		p.set(func(p *process) { p.inFlight = 1 })
		api.SetFault(failing())
		pass(11 * time.Second)
		p.wantExits(1)
	})
}

func TestCallbackMayRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		var p *process
		p = newProcess(t, api, alice, func(o *claim.Options) {
			tell := o.OnEvent
			o.OnEvent = func(e claim.Event) {
				tell(e)
				if e.Type == claim.Acquired {
					if err := p.Release(context.Background()); err != nil {
						t.Errorf("Release: %v", err)
					}
				}
			}
		})
		p.start()
		p.wantTold("Acquired Released")
		wantHolder(t, api, "")
	})
}

func TestStopAbandons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		p := newProcess(t, api, alice).start()
		p.set(func(p *process) { p.inFlight = 1 })
		p.Stop()
		synctest.Wait()
		p.wantTold("Acquired Lost(Abandoned)")
		writes := api.Calls("update")
		wantHolder(t, api, alice)
		p.wantExits(0)
		pass(11 * time.Second)
		p.wantExits(1)
		if got := api.Calls("update"); got != writes {
			t.Errorf("%d writes after Stop", got-writes)
		}
	})
}

func TestEndOfContextAbandons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		p := newProcess(t, api, alice)
		ctx, cancel := context.WithCancel(t.Context())
		p.Start(ctx)
		synctest.Wait()
		cancel()
		synctest.Wait()
		p.wantTold("Acquired Lost(Abandoned)")
		p.start() // its own Lease is free to it
		p.wantTold("Acquired Lost(Abandoned) Acquired")
	})
}

func TestOtherSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		edit(t, api, func(l *coordinationv1.Lease) { l.Annotations[claim.ShardsAnnotation] = "128" })
		p := newProcess(t, api, alice).start()
		pass(time.Minute)
		p.wantTold("Refused")
		var se *claim.SettingsError
		if err := p.last(claim.Refused).Err; !errors.As(err, &se) || se.Ours.Shards != 64 || se.Theirs.Shards != 128 {
			t.Fatalf("error = %v, want a SettingsError with 64 and 128", err)
		}
		if msg := se.Error(); !strings.Contains(msg, "64") || !strings.Contains(msg, "128") {
			t.Errorf("message %q does not name both values", msg)
		}
		wantHolder(t, api, "")
		edit(t, api, func(l *coordinationv1.Lease) { l.Annotations[claim.ShardsAnnotation] = "64" })
		pass(3 * time.Second)
		p.wantTold("Refused Acquired")
		// Under its holder, a wrong annotation is put right instead.
		edit(t, api, func(l *coordinationv1.Lease) { l.Annotations[claim.HashAnnotation] = "other" })
		pass(time.Minute)
		p.wantTold("Refused Acquired")
		if got := getLease(t, api).Annotations[claim.HashAnnotation]; got != "fnv1a64-mix" {
			t.Errorf("hash annotation = %q, want it restored", got)
		}
	})
}

func TestHolderTakenAwayByHand(t *testing.T) {
	cases := map[string]struct {
		holder      placement.Identity
		vacated     claim.EmptyReason
		wantTold    string
		wantUnclean bool // for the last acquisition
		wantHolder  placement.Identity
		wantExits   int
	}{
		"another holder": {holder: bob, wantTold: "Acquired Lost(Taken)", wantHolder: bob, wantExits: 1},
		// Nobody else can have it before this claim's deadline: it is taken back, and the epoch goes on.
		"no holder": {wantTold: "Acquired", wantHolder: alice},
		"no holder, as a process empties it": {
			vacated: claim.EmptyExpired, wantTold: "Acquired Lost(Emptied) Acquired", wantUnclean: true, wantHolder: alice,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := installed(t)
				p := newProcess(t, api, alice).start()
				p.set(func(p *process) { p.inFlight = 1 })
				edit(t, api, func(l *coordinationv1.Lease) {
					l.Spec.HolderIdentity = ptr.To(string(tc.holder))
					if tc.vacated != "" {
						l.Annotations[claim.VacatedAnnotation] = string(tc.vacated)
					}
				})
				p.Observe(getLease(t, api))
				synctest.Wait()
				wantHolder(t, api, tc.wantHolder) // at once: the server fence goes by it
				pass(2500 * time.Millisecond)
				p.wantTold(tc.wantTold)
				p.wantExits(tc.wantExits)
				if got := p.last(claim.Acquired).Unclean; got != tc.wantUnclean {
					t.Errorf("the last acquisition is unclean: %v, want %v", got, tc.wantUnclean)
				}
			})
		})
	}
}

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
