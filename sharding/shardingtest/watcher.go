package shardingtest

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
)

// watcher is one watch with an unbounded queue: a slow reader never blocks a write.
type watcher struct {
	namespace string
	selector  labels.Selector
	out       chan watch.Event
	more      chan struct{}
	stop      context.CancelFunc

	mu     sync.Mutex // guards queue and closed
	queue  []watch.Event
	closed bool
}

func newWatcher(ctx context.Context, namespace string, selector labels.Selector) *watcher {
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{
		namespace: namespace, selector: selector, stop: cancel,
		out: make(chan watch.Event), more: make(chan struct{}, 1),
	}
	go w.run(ctx)
	return w
}

// Stop ends the watch.
func (w *watcher) Stop() { w.stop() }

// ResultChan has the events; it is closed when the watch has ended.
func (w *watcher) ResultChan() <-chan watch.Event { return w.out }

// show queues one event as the selector lets it appear. False once the watch has ended.
func (w *watcher) show(r record) bool {
	if r.lease.Namespace != w.namespace {
		return true
	}
	now := r.event != watch.Deleted && w.selector.Matches(labels.Set(r.lease.Labels))
	before := r.before != nil && w.selector.Matches(labels.Set(r.before))
	switch {
	case now && before:
		return w.push(watch.Event{Type: watch.Modified, Object: r.lease.DeepCopy()})
	case now:
		return w.push(watch.Event{Type: watch.Added, Object: r.lease.DeepCopy()})
	case before:
		return w.push(watch.Event{Type: watch.Deleted, Object: r.lease.DeepCopy()})
	}
	return true
}

func (w *watcher) push(e watch.Event) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.queue = append(w.queue, e)
	w.notify()
	return true
}

// close ends the watch after what is queued.
func (w *watcher) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.notify()
}

func (w *watcher) notify() {
	select {
	case w.more <- struct{}{}:
	default:
	}
}

func (w *watcher) run(ctx context.Context) {
	defer w.stop()
	defer close(w.out)
	defer w.close()
	for {
		w.mu.Lock()
		queue, closed := w.queue, w.closed
		w.queue = nil
		w.mu.Unlock()
		for _, e := range queue {
			select {
			case w.out <- e:
			case <-ctx.Done():
				return
			}
		}
		if closed && len(queue) == 0 {
			return
		}
		if len(queue) > 0 {
			continue
		}
		select {
		case <-w.more:
		case <-ctx.Done():
			return
		}
	}
}
