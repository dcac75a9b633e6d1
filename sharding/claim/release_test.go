package claim_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/placement"
	"example.com/redis-operator/sharding/shardingtest"
)

func TestRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		a := newProcess(t, api, alice).start()
		b := newProcess(t, api, bob, func(o *claim.Options) { o.Poll = 100 * time.Millisecond }).start()
		pass(5 * time.Second)
		if err := a.Release(t.Context()); err != nil {
			t.Fatalf("Release: %v", err)
		}
		pass(100 * time.Millisecond)
		a.wantTold("Acquired Released")
		b.wantTold("Acquired")
		if b.last(claim.Acquired).Unclean {
			t.Error("an acquisition after a release is clean")
		}
		if !a.Deadline().IsZero() {
			t.Error("a released claim has a deadline")
		}
		writes := api.Calls("update")
		if err := a.Release(t.Context()); err != nil || api.Calls("update") != writes {
			t.Errorf("releasing twice: %v, %d writes", err, api.Calls("update")-writes)
		}
		wantHolder(t, api, bob)
	})
}

// What the watch has shown is not read again before it is acquired. Where it has proved old, it is, and at
// once.
func TestAcquiresWhatTheWatchHasShown(t *testing.T) {
	cases := map[string]struct {
		edited   bool // the Lease, without the watch showing it
		wantGets int
	}{
		"as it is": {false, 0},
		"edited":   {true, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := installed(t)
				a := newWorld(t, api).run(alice)
				if api.Mute(tc.edited); tc.edited {
					edit(t, api, func(l *coordinationv1.Lease) { l.Annotations["note"] = "x" })
				}
				before := api.Calls("get")
				a.set.Claim(0).Start(t.Context())
				synctest.Wait()
				a.wantTold("Acquired")
				if got := api.Calls("get") - before; got != tc.wantGets {
					t.Errorf("%d reads, want %d", got, tc.wantGets)
				}
			})
		})
	}
}

func TestReleaseMeetsOthers(t *testing.T) {
	cases := map[string]struct {
		before     func(t *testing.T, api *shardingtest.Leases)
		wantHolder string
		wantMissed bool // the Lease is gone
	}{
		"somebody annotated the Lease": {
			before: func(t *testing.T, api *shardingtest.Leases) {
				edit(t, api, func(l *coordinationv1.Lease) { l.Annotations["note"] = "x" })
			},
		},
		"a successor has it": {
			before: func(t *testing.T, api *shardingtest.Leases) {
				edit(t, api, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To(string(bob)) })
			},
			wantHolder: string(bob),
		},
		"it was deleted": {
			before:     func(t *testing.T, api *shardingtest.Leases) { deleteLease(t, api) },
			wantMissed: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := installed(t)
				p := newProcess(t, api, alice).start()
				tc.before(t, api)
				if err := p.Release(t.Context()); err != nil {
					t.Fatalf("Release: %v", err)
				}
				synctest.Wait()
				p.wantTold("Acquired Released")
				if !tc.wantMissed {
					wantHolder(t, api, placement.Identity(tc.wantHolder))
				}
			})
		})
	}
}

// The trap of client-go's own release: the holder changes between its reading and its writing.
func TestReleaseNeverEmptiesASuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		p := newProcess(t, api, alice).start()
		edit(t, api, func(l *coordinationv1.Lease) { l.Annotations["note"] = "x" }) // so that it reads again
		taken := false
		api.SetFault(func(_ context.Context, c shardingtest.Call) shardingtest.Fault {
			if c.Verb != "get" || taken {
				return shardingtest.Fault{}
			}
			taken = true
			return shardingtest.Fault{After: func(context.Context) {
				api.SetFault(nil)
				heldBy(t, api, bob, 10)
			}}
		})
		if err := p.Release(t.Context()); err != nil {
			t.Fatalf("Release: %v", err)
		}
		if !taken {
			t.Fatal("Release did not read the Lease again")
		}
		wantHolder(t, api, bob)
	})
}

func TestReleaseAfterLongLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		p := newProcess(t, api, alice).start()
		api.SetFault(failing())
		pass(20 * time.Second)
		api.SetFault(nil)
		heldBy(t, api, bob, 10)
		if err := p.Release(t.Context()); err != nil {
			t.Fatalf("Release: %v", err)
		}
		wantHolder(t, api, bob)
		p.wantTold("Acquired Stalled Expiring Lost(Deadline)")
	})
}

func TestReleaseWithFaults(t *testing.T) {
	cases := map[string]struct {
		fault func(n int, c shardingtest.Call) shardingtest.Fault
	}{
		"the answer is lost": {fault: func(n int, c shardingtest.Call) shardingtest.Fault {
			if c.Verb == "update" && n == 1 {
				return shardingtest.Fault{Lost: errors.New("connection reset")}
			}
			return shardingtest.Fault{}
		}},
		"the API is away for a moment": {fault: func(n int, _ shardingtest.Call) shardingtest.Fault {
			if n <= 3 {
				return shardingtest.Fault{Err: errors.New("connection refused")}
			}
			return shardingtest.Fault{}
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := installed(t)
				p := newProcess(t, api, alice).start()
				n := 0
				api.SetFault(func(_ context.Context, c shardingtest.Call) shardingtest.Fault {
					n++
					return tc.fault(n, c)
				})
				if err := p.Release(t.Context()); err != nil {
					t.Fatalf("Release: %v", err)
				}
				synctest.Wait()
				p.wantTold("Acquired Released")
				wantHolder(t, api, "")
			})
		})
	}
}

// An API that stays away: the error is reported, nothing renews, and Start takes the claim up again.
func TestReleaseGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		p := newProcess(t, api, alice).start()
		epoch := p.last(claim.Acquired).Epoch
		api.SetFault(failing())
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := p.Release(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Release = %v, want the context's error", err)
		}
		api.SetFault(nil)
		pass(time.Second)
		p.wantTold("Acquired")
		p.start()
		pass(10 * time.Second)
		p.wantTold("Acquired")
		if got, ok := p.Epoch(); !ok || got != epoch {
			t.Errorf("epoch = %q, %t, want %q as before", got, ok, epoch)
		}
	})
}

// A renewal is on its way while the claim is released: the Lease ends up empty all the same.
func TestReleaseDuringARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		p := newProcess(t, api, alice).start()
		api.SetFault(func(_ context.Context, c shardingtest.Call) shardingtest.Fault {
			if claim.HolderOf(c.Lease) != alice {
				return shardingtest.Fault{}
			}
			return shardingtest.Fault{After: func(ctx context.Context) { <-ctx.Done() }}
		})
		pass(2500 * time.Millisecond) // the renewal of 2 s was carried out, its answer is not here
		if err := p.Release(t.Context()); err != nil {
			t.Fatalf("Release: %v", err)
		}
		synctest.Wait()
		wantHolder(t, api, "")
		p.wantTold("Acquired Released")
	})
}

// A contender that is told to stop while its acquiring write is on its way leaves no Lease behind.
func TestReleaseDuringTheAcquisition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		p := newProcess(t, api, alice)
		api.SetFault(func(_ context.Context, c shardingtest.Call) shardingtest.Fault {
			if claim.HolderOf(c.Lease) != alice {
				return shardingtest.Fault{}
			}
			return shardingtest.Fault{After: func(ctx context.Context) { <-ctx.Done() }}
		})
		p.start()
		wantHolder(t, api, alice)
		if err := p.Release(t.Context()); err != nil {
			t.Fatalf("Release: %v", err)
		}
		wantHolder(t, api, "")
		p.wantTold("")
	})
}

// "Released" promises the next holder that nothing is on its way any more.
func TestReleasedIsSaidAfterADrainOnly(t *testing.T) {
	lose := func(p *process, api *shardingtest.Leases) {
		api.SetFault(failing())
		pass(11 * time.Second)
		p.wantTold("Acquired Stalled Expiring Lost(Deadline)")
		api.SetFault(nil)
	}
	cases := map[string]struct {
		dead        bool // of the predecessor
		before      func(p *process, api *shardingtest.Leases)
		wantVacated string
		wantUnclean bool
	}{
		"held":                           {false, func(*process, *shardingtest.Leases) {}, "Released", false},
		"lost":                           {false, lose, "Undrained", true},
		"just taken from a dead process": {true, func(*process, *shardingtest.Leases) {}, "Undrained", true},
		"taken a while ago": {true, func(*process, *shardingtest.Leases) {
			pass(3 * time.Second)
		}, "Released", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := installed(t)
				p := newProcess(t, api, alice)
				if tc.dead {
					heldBy(t, api, bob, 10)
					p.dead = bob
				}
				p.start()
				tc.before(p, api)
				if err := p.Release(t.Context()); err != nil {
					t.Fatalf("Release: %v", err)
				}
				if got := getLease(t, api).Annotations[claim.VacatedAnnotation]; got != tc.wantVacated {
					t.Errorf("the Lease is vacated as %q, want %q", got, tc.wantVacated)
				}
				next := newProcess(t, api, alice2).start()
				if got := next.last(claim.Acquired).Unclean; got != tc.wantUnclean {
					t.Errorf("the next acquisition is unclean: %v, want %v", got, tc.wantUnclean)
				}
			})
		})
	}
}
