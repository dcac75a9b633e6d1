package rediscluster

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	redisv1 "example.com/redis-operator/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// When to look at a cluster again although no watch has told of anything.
const (
	// pollConverging is the pace while something is on its way in a cluster.
	pollConverging = 100 * time.Millisecond
	// pollPatience is for how long that pace is kept when nothing changes any more; then it slows down.
	pollPatience = 15 * time.Second
	// pollStuck is the slowest pace of a cluster that is not as it should be.
	pollStuck = 5 * time.Second
	// pollStable is the pace of a cluster to which nothing is to be done, give or take pollJitter.
	pollStable = 30 * time.Second
	pollJitter = 0.2
)

// jitter spreads a duration evenly over plus and minus pollJitter of it.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 - pollJitter + 2*pollJitter*rand.Float64()))
}

// poller wakes the controller for clusters of whose nodes no watch tells: a heap of due times, one for
// each cluster, the latest call of schedule winning. It is safe for concurrent use.
type poller struct {
	events chan event.TypedGenericEvent[*redisv1.RedisCluster]
	wake   chan struct{}

	mu      sync.Mutex // guards the fields below; no channel operation that can block while it is held
	stopped bool
	due     dueHeap
	entries map[client.ObjectKey]*dueEntry
}

// dueEntry is one cluster's place in the heap.
type dueEntry struct {
	key   client.ObjectKey
	at    time.Time
	index int
}

func newPoller() *poller {
	return &poller{
		events:  make(chan event.TypedGenericEvent[*redisv1.RedisCluster]),
		wake:    make(chan struct{}, 1),
		entries: map[client.ObjectKey]*dueEntry{},
	}
}

// schedule makes the cluster due after the given time, in place of what was scheduled before. It is false
// once the poller has stopped, which it does before the controllers do.
func (p *poller) schedule(key client.ObjectKey, after time.Duration) bool {
	p.mu.Lock()
	if p.stopped {
		p.mu.Unlock()
		return false
	}
	at := time.Now().Add(after)
	if entry, found := p.entries[key]; found {
		entry.at = at
		heap.Fix(&p.due, entry.index)
	} else {
		entry = &dueEntry{key: key, at: at}
		p.entries[key] = entry
		heap.Push(&p.due, entry)
	}
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return true
}

func (p *poller) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
}

// drop forgets a cluster.
func (p *poller) drop(key client.ObjectKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if entry, found := p.entries[key]; found {
		p.remove(entry)
	}
}

// dropNamespace forgets all clusters of a namespace.
func (p *poller) dropNamespace(namespace string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, entry := range p.entries {
		if key.Namespace == namespace {
			p.remove(entry)
		}
	}
}

// remove takes an entry out. The caller holds mu.
func (p *poller) remove(entry *dueEntry) {
	heap.Remove(&p.due, entry.index)
	delete(p.entries, entry.key)
}

// take removes and returns a cluster that is due, or else says after how long the next one is.
func (p *poller) take(now time.Time) (key client.ObjectKey, wait time.Duration, found bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.due) == 0 {
		return client.ObjectKey{}, pollStable, false
	}
	first := p.due[0]
	if wait := first.at.Sub(now); wait > 0 {
		return client.ObjectKey{}, wait, false
	}
	p.remove(first)
	return first.key, 0, true
}

// Start sends an event for each cluster that is due, until ctx ends. It is the controller's channel
// source that receives them.
func (p *poller) Start(ctx context.Context) error {
	defer p.stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		key, wait, found := p.take(time.Now())
		if found {
			cluster := &redisv1.RedisCluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
			select {
			case p.events <- event.TypedGenericEvent[*redisv1.RedisCluster]{Object: cluster}:
			case <-ctx.Done():
				return nil
			}
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-p.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// NeedLeaderElection is false: the poller serves what this process owns.
func (p *poller) NeedLeaderElection() bool { return false }

// dueHeap orders entries by time. It implements heap.Interface.
type dueHeap []*dueEntry

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *dueHeap) Push(x any) {
	entry := x.(*dueEntry)
	entry.index = len(*h)
	*h = append(*h, entry)
}

// Pop implements heap.Interface.
func (h *dueHeap) Pop() any {
	old := *h
	entry := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return entry
}
