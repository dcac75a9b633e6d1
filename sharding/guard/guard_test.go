package guard_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/guard"
	"example.com/redis-operator/sharding/placement"
)

// rig is a guard with a clock and one namespace.
type rig struct {
	*guard.Guard
	t        *testing.T
	skew     time.Duration
	observed observed
	shard    placement.Shard
	deadline time.Time
}

const ns = "tenant-1"

func newRig(t *testing.T, change ...func(*guard.Options)) *rig {
	t.Helper()
	r := &rig{t: t}
	o := guard.Options{
		Settings: placement.DefaultSettings(), Observer: &r.observed,
		Now: func() time.Time { return time.Now().Add(r.skew) },
	}
	for _, f := range change {
		f(&o)
	}
	var err error
	if r.Guard, err = guard.New(o); err != nil {
		t.Fatalf("New: %v", err)
	}
	r.shard = r.ShardOf(ns)
	r.deadline = time.Now().Add(10 * time.Second)
	return r
}

func (r *rig) admit(epoch claim.Epoch) {
	r.Admit(r.shard, epoch, func() time.Time { return r.deadline })
}

func (r *rig) enter() (context.Context, func()) {
	r.t.Helper()
	ctx, done, err := r.Enter(context.Background(), ns)
	if err != nil {
		r.t.Fatalf("Enter: %v", err)
	}
	return ctx, done
}

func (r *rig) begin(ctx context.Context) func() {
	r.t.Helper()
	done, err := r.Begin(ctx)
	if err != nil {
		r.t.Fatalf("Begin: %v", err)
	}
	return done
}

func (r *rig) wantCheck(ctx context.Context, want error) {
	r.t.Helper()
	if err := r.Check(ctx); !errors.Is(err, want) {
		r.t.Errorf("Check = %v, want %v", err, want)
	}
	done, err := r.Begin(ctx)
	if !errors.Is(err, want) {
		r.t.Errorf("Begin = %v, want %v", err, want)
	}
	done()
}

func (r *rig) wantInFlight(all, mutating int) {
	r.t.Helper()
	if a, m := r.InFlight(r.shard); a != all || m != mutating {
		r.t.Errorf("in flight: %d and %d mutating, want %d and %d", a, m, all, mutating)
	}
}

// observed counts what the guard tells.
type observed struct{ started, ended, dropped, refused atomic.Int64 }

func (o *observed) Started(placement.Shard, claim.Epoch) { o.started.Add(1) }

func (o *observed) Reconciled(placement.Shard, time.Duration) { o.ended.Add(1) }
func (o *observed) Dropped(placement.Shard)                   { o.dropped.Add(1) }
func (o *observed) Refused(placement.Shard, error)            { o.refused.Add(1) }

// TestCheck walks through what can happen to a shard after something was admitted.
func TestCheck(t *testing.T) {
	cases := map[string]struct {
		then      func(r *rig)
		want      error // of a call under the old admission
		wantEnter error // of a new one
		wantEnded bool  // the old context
	}{
		"nothing":               {then: func(*rig) {}},
		"stop admitting":        {then: func(r *rig) { r.StopAdmitting(r.shard) }, wantEnter: guard.ErrDraining},
		"drain":                 {then: func(r *rig) { r.drain() }, want: guard.ErrDraining, wantEnter: guard.ErrDraining},
		"drain and admit":       {then: func(r *rig) { r.drain(); r.admit("5") }},
		"stop after drain":      {then: func(r *rig) { r.drain(); r.StopAdmitting(r.shard) }, want: guard.ErrDraining, wantEnter: guard.ErrDraining},
		"cancel":                {then: func(r *rig) { r.Cancel(r.shard) }, want: guard.ErrExpired, wantEnter: guard.ErrDraining, wantEnded: true},
		"cancel and recover":    {then: func(r *rig) { r.Cancel(r.shard); r.admit("5") }, want: guard.ErrExpired, wantEnded: true},
		"revoke":                {then: func(r *rig) { r.Revoke(r.shard) }, want: guard.ErrNotAdmitted, wantEnter: guard.ErrNotAdmitted, wantEnded: true},
		"revoke and new epoch":  {then: func(r *rig) { r.Revoke(r.shard); r.admit("6") }, want: guard.ErrStaleEpoch, wantEnded: true},
		"new epoch":             {then: func(r *rig) { r.admit("6") }, want: guard.ErrStaleEpoch, wantEnded: true},
		"deadline passed":       {then: func(r *rig) { r.skew = 10 * time.Second }, want: guard.ErrExpired, wantEnter: guard.ErrExpired},
		"just before deadline":  {then: func(r *rig) { r.skew = 10*time.Second - 1 }},
		"claim over":            {then: func(r *rig) { r.deadline = time.Time{} }, want: guard.ErrExpired, wantEnter: guard.ErrExpired},
		"renewed":               {then: func(r *rig) { r.skew, r.deadline = 15*time.Second, r.deadline.Add(10*time.Second) }},
		"another shard revoked": {then: func(r *rig) { r.Revoke(r.shard + 1) }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.admit("5")
				ctx, done := r.enter()
				defer done()
				tc.then(r)
				synctest.Wait()
				r.wantCheck(ctx, tc.want)
				if ended := ctx.Err() != nil; ended != tc.wantEnded {
					t.Errorf("context ended = %t, want %t", ended, tc.wantEnded)
				}
				again, leave, err := r.Enter(context.Background(), ns)
				defer leave()
				if !errors.Is(err, tc.wantEnter) {
					t.Errorf("Enter = %v, want %v", err, tc.wantEnter)
				}
				if err == nil {
					r.wantCheck(again, nil)
				}
				if got := r.Admits(r.shard); got != (tc.wantEnter == nil) {
					t.Errorf("Admits = %t", got)
				}
			})
		})
	}
}

func (r *rig) drain() {
	r.t.Helper()
	if err := r.Drain(context.Background(), r.shard); err != nil {
		r.t.Fatalf("Drain: %v", err)
	}
}

func TestCheckWithoutAdmission(t *testing.T) {
	r, other := newRig(t), newRig(t)
	r.admit("5")
	other.admit("5")
	r.wantCheck(context.Background(), guard.ErrNotAdmitted)
	ctx, done := other.enter()
	defer done()
	r.wantCheck(ctx, guard.ErrNotAdmitted) // another guard's admission says nothing here
	if got := r.observed.refused.Load(); got != 4 {
		t.Errorf("%d refusals observed, want 4", got)
	}
	if epoch, ok := guard.Epoch(ctx); epoch != "5" || !ok {
		t.Errorf("Epoch = %q, %t", epoch, ok)
	}
	if shard, ok := guard.Shard(ctx); shard != r.shard || !ok {
		t.Errorf("Shard = %d, %t", shard, ok)
	}
	if _, ok := guard.Epoch(context.Background()); ok {
		t.Error("a bare context has an epoch")
	}
}

// I6: calls are refused from CancelLead before the deadline on, whatever timers have run.
func TestCancelLead(t *testing.T) {
	r := newRig(t, func(o *guard.Options) { o.CancelLead = 2 * time.Second })
	r.deadline = time.Now().Add(time.Hour)
	r.admit("5")
	ctx, done := r.enter()
	defer done()
	r.skew = time.Hour - 3*time.Second
	r.wantCheck(ctx, nil)
	r.skew = time.Hour - 2*time.Second
	r.wantCheck(ctx, guard.ErrExpired)
	if r.Admits(r.shard) {
		t.Error("admits so near to the deadline")
	}
}

// I1: a drain waits for mutating calls, and for nothing else.
func TestDrainWaitsForMutatingCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.admit("5")
		ctx, leave := r.enter()
		_, leave2 := r.enter()
		defer leave2()
		first, second := r.begin(ctx), r.begin(ctx)
		r.wantInFlight(2, 2)
		drained := make(chan error, 1)
		go func() { drained <- r.Drain(context.Background(), r.shard) }()
		synctest.Wait()
		r.wantCheck(ctx, guard.ErrDraining)
		first()
		first() // more than once counts once
		synctest.Wait()
		select {
		case err := <-drained:
			t.Fatalf("drained with a call in flight: %v", err)
		default:
		}
		second()
		if err := <-drained; err != nil {
			t.Fatalf("Drain: %v", err)
		}
		r.wantInFlight(2, 0) // the requests are still there
		leave()
		leave()
		r.wantInFlight(1, 0)
	})
}

func TestDrainOverruns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.deadline = time.Now().Add(time.Hour)
		r.admit("5")
		ctx, leave := r.enter()
		defer leave()
		done := r.begin(ctx)
		bound, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := r.Drain(bound, r.shard); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Drain = %v, want the context's error", err)
		}
		r.wantCheck(ctx, guard.ErrDraining)
		r.admit("5") // goes on for now
		r.wantCheck(ctx, nil)
		done()
		r.drain()
	})
}

// Waiting that begins late closes nothing: by then the shard may be admitted again.
func TestDrainClosesWhenItIsStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.admit("5")
		ctx, leave := r.enter()
		defer leave()
		wait := r.StartDrain(r.shard)
		r.wantCheck(ctx, guard.ErrDraining)
		r.admit("5")
		if err := wait(t.Context()); err != nil {
			t.Fatalf("waiting: %v", err)
		}
		r.wantCheck(ctx, nil)
		if !r.Admits(r.shard) {
			t.Error("waiting for a drain has closed a shard that is admitted again")
		}
	})
}

// Accounting is by epoch: calls of a later epoch keep no drain of an earlier one waiting, and those of
// an earlier one keep the drain of a later one.
func TestDrainByEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.admit("9")
		old, leaveOld := r.enter()
		endOld := r.begin(old)
		drained := make(chan error, 2)
		go func() { drained <- r.Drain(context.Background(), r.shard) }()
		synctest.Wait()
		r.Revoke(r.shard)
		r.admit("10")
		ctx, leave := r.enter()
		end := r.begin(ctx)
		for epoch, want := range map[claim.Epoch]int{"8": 0, "9": 1, "10": 2} {
			if got := r.MutatingUpTo(r.shard, epoch); got != want {
				t.Errorf("MutatingUpTo(%s) = %d, want %d", epoch, got, want)
			}
		}
		endOld()
		if err := <-drained; err != nil { // although a call of epoch 10 is in flight
			t.Fatalf("Drain: %v", err)
		}
		r.wantInFlight(2, 1)
		leaveOld()
		end()
		leave()
		r.wantInFlight(0, 0)

		again, leave := r.enter()
		end = r.begin(again)
		r.admit("11")
		go func() { drained <- r.Drain(context.Background(), r.shard) }()
		synctest.Wait()
		if len(drained) != 0 {
			t.Fatal("drained while a call of an earlier epoch was in flight")
		}
		end()
		leave()
		if err := <-drained; err != nil {
			t.Fatalf("Drain: %v", err)
		}
	})
}

func TestEnterEndsWithDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.admit("5")
		ctx, done := r.enter()
		done()
		if ctx.Err() == nil {
			t.Error("the context goes on after done")
		}
		parent, cancel := context.WithCancel(t.Context())
		ctx, done, err := r.Enter(parent, ns)
		if err != nil {
			t.Fatalf("Enter: %v", err)
		}
		defer done()
		cancel()
		if ctx.Err() == nil {
			t.Error("the context outlives its parent")
		}
		// Ending a context early is no loss of the shard.
		r.wantCheck(ctx, nil)
	})
}

func TestCancelSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.admit("5")
		ctx, done := r.enter()
		defer done()
		r.Cancel(r.shard)
		synctest.Wait()
		if err := context.Cause(ctx); !errors.Is(err, guard.ErrExpired) {
			t.Errorf("cause = %v, want ErrExpired", err)
		}
	})
}

func TestLabelsAndDropped(t *testing.T) {
	r := newRig(t)
	want := map[string]string{"cache.example.com/shard": strconv.Itoa(int(r.shard))}
	if diff := cmp.Diff(want, r.Labels(ns)); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	custom := newRig(t, func(o *guard.Options) { o.ShardLabel = "example.com/slice" })
	if _, ok := custom.Labels(ns)["example.com/slice"]; !ok {
		t.Errorf("labels = %v", custom.Labels(ns))
	}
	var got []string
	r.Dropped(func(namespace string) { got = append(got, "a:"+namespace) })
	r.Dropped(func(namespace string) { got = append(got, "b:"+namespace) })
	r.NotifyDropped("x")
	if diff := cmp.Diff([]string{"a:x", "b:x"}, got); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := guard.New(guard.Options{}); err == nil {
		t.Error("no settings are accepted")
	}
	if _, err := guard.New(guard.Options{Settings: placement.DefaultSettings(), CancelLead: -1}); err == nil {
		t.Error("a negative CancelLead is accepted")
	}
}
