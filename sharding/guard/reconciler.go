package guard

import (
	"context"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"example.com/redis-operator/sharding/placement"
)

// putOffBy is when a request of a shard that is held but closed comes again. It is short: a handover
// is over by then and the request dropped, or the drain has been given up.
const putOffBy = 500 * time.Millisecond

// Wrap returns a reconciler that lets a request through to inner only under a live claim on the shard
// of its namespace, with the admission in its context. Requests of a shard that is not held are
// dropped, as is what inner returned if the shard was lost meanwhile: the next owner reconciles all
// of it. Requests of a shard that is held but closed are put off.
func Wrap[R comparable](
	g *Guard, inner reconcile.TypedReconciler[R], namespaceOf func(R) string,
) reconcile.TypedReconciler[R] {
	return &guarded[R]{g: g, inner: inner, namespaceOf: namespaceOf}
}

type guarded[R comparable] struct {
	g           *Guard
	inner       reconcile.TypedReconciler[R]
	namespaceOf func(R) string
}

// Reconcile is the gate in front of inner.
func (r *guarded[R]) Reconcile(ctx context.Context, request R) (reconcile.Result, error) {
	number := r.g.ShardOf(r.namespaceOf(request))
	grant, refusal := r.g.enter(number)
	if refusal != nil {
		return r.refuse(number, refusal), nil
	}
	r.g.o.Observer.Started(number, grant.tenure.epoch)
	started := time.Now()
	result, err := r.reconcile(ctx, grant, request)
	r.g.o.Observer.Reconciled(number, time.Since(started))
	if !r.g.isCurrent(grant) {
		if err != nil || !result.IsZero() {
			r.g.o.Observer.Dropped(number)
		}
		return reconcile.Result{}, nil
	}
	return result, err
}

// refuse is what becomes of a request that was not let through. It is no error: nothing went wrong.
func (r *guarded[R]) refuse(number placement.Shard, refusal error) reconcile.Result {
	if errors.Is(refusal, ErrNotAdmitted) {
		r.g.o.Observer.Dropped(number)
		return reconcile.Result{}
	}
	return reconcile.Result{RequeueAfter: putOffBy}
}

func (r *guarded[R]) reconcile(ctx context.Context, grant *grant, request R) (reconcile.Result, error) {
	ctx, leave := r.g.bind(ctx, grant)
	defer leave()
	return r.inner.Reconcile(ctx, request)
}
