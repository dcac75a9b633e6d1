package guard

import (
	"context"
	"fmt"
	"sync"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/placement"
)

type contextKey struct{}

// grantOf is the admission that a context carries; nil for none.
func (g *Guard) grantOf(ctx context.Context) *grant {
	a, ok := ctx.Value(contextKey{}).(admission)
	if !ok || a.guard != g {
		return nil
	}
	return a.grant
}

// admission is what a context carries. Another guard's says nothing to this one.
type admission struct {
	guard *Guard
	grant *grant
}

// Check says whether a call that changes something may start now under the admission that ctx
// carries. It is nil, or wraps ErrNotAdmitted, ErrDraining, ErrExpired or ErrStaleEpoch.
//
// It promises nothing about a moment later: ask before each call, and use Begin where the call should
// be waited for by Drain.
func (g *Guard) Check(ctx context.Context) error {
	grant := g.grantOf(ctx)
	g.mu.Lock()
	err := g.judge(grant)
	g.mu.Unlock()
	return g.report(grant, err)
}

// Begin is Check and, in one step, the start of a mutating call: until done is called, Drain waits for
// it. Done is never nil and may be called more than once; it does nothing where Begin failed.
func (g *Guard) Begin(ctx context.Context) (done func(), err error) {
	return g.begin(g.grantOf(ctx))
}

func (g *Guard) begin(grant *grant) (done func(), err error) {
	g.mu.Lock()
	if err = g.judge(grant); err == nil {
		grant.tenure.mutating++
	}
	g.mu.Unlock()
	if err != nil {
		return func() {}, g.report(grant, err)
	}
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		grant.tenure.mutating--
		g.shard(grant.tenure.shard).prune()
	}), nil
}

// judge needs mu.
func (g *Guard) judge(grant *grant) error {
	if grant == nil {
		return fmt.Errorf("context without admission: %w", ErrNotAdmitted)
	}
	t := grant.tenure
	current := g.shard(t.shard).current
	switch {
	case current == nil:
		return fmt.Errorf("shard %d is not held: %w", t.shard, ErrNotAdmitted)
	case current != t:
		return fmt.Errorf("shard %d is held under epoch %s, not %s: %w", t.shard, current.epoch, t.epoch, ErrStaleEpoch)
	case grant.cancelled || !g.isInTime(t):
		return fmt.Errorf("shard %d, epoch %s: %w", t.shard, t.epoch, ErrExpired)
	case t.mode == draining:
		return fmt.Errorf("shard %d, epoch %s: %w", t.shard, t.epoch, ErrDraining)
	}
	return nil
}

// report tells the observer of a refusal.
func (g *Guard) report(grant *grant, err error) error {
	if err == nil {
		return nil
	}
	number := placement.NoShard
	if grant != nil {
		number = grant.tenure.shard
	}
	g.o.Observer.Refused(number, err)
	return err
}

// Enter admits work on a namespace that does not come from a queue (a poller, say). The context
// carries the admission and ends with Cancel, Revoke or done, which has to be called and is never nil.
// The error wraps ErrNotAdmitted where the shard is not held, ErrDraining where it is held but
// closed, ErrExpired where its claim has run out.
func (g *Guard) Enter(ctx context.Context, namespace string) (admitted context.Context, done func(), err error) {
	grant, err := g.enter(g.ShardOf(namespace))
	if err != nil {
		return ctx, func() {}, err
	}
	admitted, leave := g.bind(ctx, grant)
	return admitted, sync.OnceFunc(leave), nil
}

func (g *Guard) enter(number placement.Shard) (*grant, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.shard(number).current
	switch {
	case t == nil:
		return nil, fmt.Errorf("shard %d is not held: %w", number, ErrNotAdmitted)
	case t.mode != open:
		return nil, fmt.Errorf("shard %d, epoch %s: %w", number, t.epoch, ErrDraining)
	case !g.isInTime(t):
		return nil, fmt.Errorf("shard %d, epoch %s: %w", number, t.epoch, ErrExpired)
	}
	t.requests++
	return t.grant, nil
}

// bind puts an entered grant into a context that ends with it.
func (g *Guard) bind(ctx context.Context, grant *grant) (context.Context, func()) {
	ctx = context.WithValue(ctx, contextKey{}, admission{guard: g, grant: grant})
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(grant.ctx, func() { cancel(context.Cause(grant.ctx)) })
	return ctx, func() {
		stop()
		cancel(nil)
		g.mu.Lock()
		defer g.mu.Unlock()
		grant.tenure.requests--
		g.shard(grant.tenure.shard).prune()
	}
}

// isCurrent says whether the tenure of a grant still is the one that the shard is held in.
func (g *Guard) isCurrent(grant *grant) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := grant.tenure
	return g.shard(t.shard).current == t
}

// Epoch is the epoch under which ctx was admitted. False if it carries no admission.
func Epoch(ctx context.Context) (claim.Epoch, bool) {
	if a, ok := ctx.Value(contextKey{}).(admission); ok {
		return a.grant.tenure.epoch, true
	}
	return "", false
}

// Shard is the shard for which ctx was admitted. False if it carries no admission.
func Shard(ctx context.Context) (placement.Shard, bool) {
	if a, ok := ctx.Value(contextKey{}).(admission); ok {
		return a.grant.tenure.shard, true
	}
	return placement.NoShard, false
}
