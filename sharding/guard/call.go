package guard

import (
	"context"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/placement"
)

// Check says whether a call that changes something may start now under the admission that ctx
// carries. It is nil, or wraps ErrNotAdmitted, ErrDraining, ErrExpired or ErrStaleEpoch.
//
// It promises nothing about a moment later: ask before each call, and use Begin where the call should
// be waited for by Drain.
func (g *Guard) Check(ctx context.Context) error { return nil }

// Begin is Check and, in one step, the start of a mutating call: until done is called, Drain waits for
// it. Done is not nil and may be called more than once; it does nothing where Begin failed.
func (g *Guard) Begin(ctx context.Context) (done func(), err error) { return func() {}, nil }

// Enter admits work on a namespace that does not come from a queue (a poller, say). The context
// carries the admission and ends with Cancel, Revoke or done, which has to be called.
func (g *Guard) Enter(ctx context.Context, namespace string) (admitted context.Context, done func(), err error) {
	return ctx, func() {}, nil
}

// Epoch is the epoch under which ctx was admitted. False if it carries no admission.
func Epoch(ctx context.Context) (claim.Epoch, bool) { return "", false }

// Shard is the shard for which ctx was admitted. False if it carries no admission.
func Shard(ctx context.Context) (placement.Shard, bool) { return 0, false }

// Wrap returns a reconciler that lets a request through to inner only under a live claim on the shard
// of its namespace, with the admission in its context. Requests of a shard that is not held are
// dropped, as is what inner returned if the shard was lost meanwhile: the next owner reconciles all
// of it. Requests of a shard that is held but closed are put off.
func Wrap[R comparable](
	g *Guard, inner reconcile.TypedReconciler[R], namespaceOf func(R) string,
) reconcile.TypedReconciler[R] {
	return inner
}

// RoundTripper returns a transport for rest.Config.Wrap that refuses requests other than GET, HEAD and
// OPTIONS unless their context has a live admission for the shard of the namespace that they write
// to, or their resource is exempt. A mutating request counts as in flight until its answer is there.
func (g *Guard) RoundTripper(inner http.RoundTripper) http.RoundTripper { return inner }
