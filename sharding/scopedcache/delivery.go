package scopedcache

import (
	"context"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
)

// change says what a notification tells.
type change int

const (
	added change = iota
	updated
	deleted
	initialDone // everything that the permanent scopes held at first has been delivered
)

// notification is one call of a handler to be made.
type notification struct {
	source    *informer // nil for initialDone
	change    change
	isInitial bool
	old, new  any
}

// registration is a handler and what is still to be delivered to it. One goroutine delivers for
// all scopes: what a handler costs does not grow with their number, and a slow handler holds up
// no watch.
type registration struct {
	handler     toolscache.ResourceEventHandler
	wantsResync bool
	wake        chan struct{} // holds one token when there may be work
	closed      chan struct{} // ends run
	synced      chan struct{} // closed when initialDone was reached
	ended       chan struct{} // closed when run has returned
	closeOnce   sync.Once

	// mu guards queue.
	mu    sync.Mutex
	queue []notification
}

var _ toolscache.ResourceEventHandlerRegistration = &registration{}

// newRegistration returns a registration that delivers nothing until run.
func newRegistration(handler toolscache.ResourceEventHandler, wantsResync bool) *registration {
	return &registration{
		handler:     handler,
		wantsResync: wantsResync,
		wake:        make(chan struct{}, 1),
		closed:      make(chan struct{}),
		synced:      make(chan struct{}),
		ended:       make(chan struct{}),
	}
}

// push queues notifications. It never blocks.
func (r *registration) push(notifications ...notification) {
	if len(notifications) == 0 {
		return
	}
	r.mu.Lock()
	r.queue = append(r.queue, notifications...)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// take returns what is queued and leaves the queue empty, without its memory.
func (r *registration) take() []notification {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.queue
	r.queue = nil
	return taken
}

// close ends run after the call that is being made.
func (r *registration) close() {
	r.closeOnce.Do(func() { close(r.closed) })
}

// run delivers until ctx ends or close is called.
func (r *registration) run(ctx context.Context) {
	defer close(r.ended)
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.closed:
			return
		case <-r.wake:
		}
		for _, n := range r.take() {
			select {
			case <-ctx.Done():
				return
			case <-r.closed:
				return
			default:
				r.deliver(n)
			}
		}
	}
}

// deliver calls the handler, unless the scope that the notification is from has been dropped.
func (r *registration) deliver(n notification) {
	if n.source != nil && n.source.ctx.Err() != nil {
		return
	}
	switch n.change {
	case added:
		r.handler.OnAdd(n.new, n.isInitial)
	case updated:
		r.handler.OnUpdate(n.old, n.new)
	case deleted:
		r.handler.OnDelete(n.old)
	case initialDone:
		close(r.synced)
	}
}

// HasSynced reports whether everything that the permanent scopes held at first was delivered.
func (r *registration) HasSynced() bool {
	select {
	case <-r.synced:
		return true
	default:
		return false
	}
}

// HasSyncedChecker implements toolscache.ResourceEventHandlerRegistration.
func (r *registration) HasSyncedChecker() toolscache.DoneChecker {
	return doneChecker{name: "handler of a scoped informer", done: r.synced}
}

// ShutdownChan is closed when the handler will not be called again; toolscache.ShutDownEventHandler
// waits for it.
func (r *registration) ShutdownChan() <-chan struct{} { return r.ended }
