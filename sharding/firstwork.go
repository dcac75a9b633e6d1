package sharding

import (
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// firstWork logs when the first reconcile after each admission of a shard began: how long a shard
// really went without work, which neither a Lease nor an admission tells. It is safe for concurrent
// use.
type firstWork struct {
	*metrics

	mu      sync.Mutex // guards awaited
	awaited map[Shard]logr.Logger
}

func newFirstWork(metrics *metrics) *firstWork {
	return &firstWork{metrics: metrics, awaited: map[Shard]logr.Logger{}}
}

// await has the next reconcile in the shard logged.
func (f *firstWork) await(shard Shard, log logr.Logger) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.awaited[shard] = log
}

// forget ends the wait.
func (f *firstWork) forget(shard Shard) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.awaited, shard)
}

// Reconciled implements guard.Observer together with the methods of metrics.
func (f *firstWork) Reconciled(shard Shard, took time.Duration) {
	now := monotonicNanos()
	f.mu.Lock()
	log, first := f.awaited[shard]
	delete(f.awaited, shard)
	f.mu.Unlock()
	if first {
		log.Info("Reconciled first request of shard", "monotonicNanos", now-took.Nanoseconds())
	}
}
