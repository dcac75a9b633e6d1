package guard_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"example.com/redis-operator/sharding/guard"
)

func TestWrap(t *testing.T) {
	errInner := errors.New("inner")
	later := reconcile.Result{RequeueAfter: time.Minute}
	cases := map[string]struct {
		before  func(r *rig)
		during  func(r *rig)
		result  reconcile.Result
		err     error
		want    reconcile.Result
		wantErr error

		wantCalled  bool
		wantDropped int64
	}{
		"held":                         {result: later, want: later, wantCalled: true},
		"held, with an error":          {err: errInner, wantErr: errInner, wantCalled: true},
		"not held":                     {before: func(r *rig) { r.Revoke(r.shard) }, wantDropped: 1},
		"held, closed":                 {before: func(r *rig) { r.StopAdmitting(r.shard) }, want: reconcile.Result{RequeueAfter: 500 * time.Millisecond}},
		"held, draining":               {before: func(r *rig) { r.drain() }, want: reconcile.Result{RequeueAfter: 500 * time.Millisecond}},
		"held, past its deadline":      {before: func(r *rig) { r.skew = time.Minute }, want: reconcile.Result{RequeueAfter: 500 * time.Millisecond}},
		"lost meanwhile: timer goes":   {during: func(r *rig) { r.Revoke(r.shard) }, result: later, wantCalled: true, wantDropped: 1},
		"lost meanwhile: error goes":   {during: func(r *rig) { r.Revoke(r.shard) }, err: errInner, wantCalled: true, wantDropped: 1},
		"lost meanwhile: nothing else": {during: func(r *rig) { r.Revoke(r.shard) }, wantCalled: true},
		"lost and held again":          {during: func(r *rig) { r.Revoke(r.shard); r.admit("6") }, result: later, wantCalled: true, wantDropped: 1},
		"closed meanwhile":             {during: func(r *rig) { r.StopAdmitting(r.shard) }, result: later, want: later, wantCalled: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.admit("5")
				if tc.before != nil {
					tc.before(r)
				}
				called := false
				inner := reconcile.TypedFunc[string](func(ctx context.Context, request string) (reconcile.Result, error) {
					called = true
					if n := r.observed.started.Load(); n != 1 {
						t.Errorf("the observer was told of %d requests that began, want this one", n)
					}
					if epoch, ok := guard.Epoch(ctx); !ok || epoch != "5" || request != ns+"/cache" {
						t.Errorf("reconciling %s under epoch %q", request, epoch)
					}
					r.wantCheck(ctx, nil)
					r.wantInFlight(1, 0)
					if tc.during != nil {
						tc.during(r)
					}
					return tc.result, tc.err
				})
				wrapped := guard.Wrap(r.Guard, inner, func(string) string { return ns })
				got, err := wrapped.Reconcile(t.Context(), ns+"/cache")
				if got != tc.want || !errors.Is(err, tc.wantErr) {
					t.Errorf("result = %+v, %v, want %+v, %v", got, err, tc.want, tc.wantErr)
				}
				if called != tc.wantCalled {
					t.Errorf("called = %t, want %t", called, tc.wantCalled)
				}
				if n := r.observed.started.Load(); n != 0 && !called {
					t.Errorf("the observer was told of %d requests that were refused", n)
				}
				if began, ended := r.observed.started.Load(), r.observed.ended.Load(); began != ended {
					t.Errorf("the observer was told of %d requests that began and of %d that ended", began, ended)
				}
				if n := r.observed.dropped.Load(); n != tc.wantDropped {
					t.Errorf("%d dropped, want %d", n, tc.wantDropped)
				}
				r.wantInFlight(0, 0)
			})
		})
	}
}

// A reconciler that hangs is cancelled; one that panics is not counted for ever.
func TestWrapEndsWhatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.admit("5")
		hang := reconcile.TypedFunc[string](func(ctx context.Context, _ string) (reconcile.Result, error) {
			<-ctx.Done()
			return reconcile.Result{}, context.Cause(ctx)
		})
		done := make(chan error)
		go func() {
			_, err := guard.Wrap(r.Guard, hang, func(string) string { return ns }).Reconcile(context.Background(), "x")
			done <- err
		}()
		synctest.Wait()
		r.wantInFlight(1, 0)
		r.Cancel(r.shard)
		if err := <-done; !errors.Is(err, guard.ErrExpired) {
			t.Errorf("err = %v, want ErrExpired: the shard is still held", err)
		}
		fall := reconcile.TypedFunc[string](func(context.Context, string) (reconcile.Result, error) { panic("x") })
		r.admit("5")
		func() {
			defer func() { _ = recover() }()
			_, _ = guard.Wrap(r.Guard, fall, func(string) string { return ns }).Reconcile(context.Background(), "x")
		}()
		r.wantInFlight(0, 0)
	})
}
