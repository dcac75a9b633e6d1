package sharding

import (
	"sync"

	"github.com/go-logr/logr"
)

// firstWork logs when the first reconcile after each admission of a shard began: how long a shard
// really went without work, which neither a Lease nor an admission tells. It is safe for concurrent
// use.
type firstWork struct {
	*metrics

	mu      sync.Mutex // guards awaited
	awaited map[Shard]admission
}

// admission is one that has had no work yet.
type admission struct {
	epoch Epoch
	log   logr.Logger
}

func newFirstWork(metrics *metrics) *firstWork {
	return &firstWork{metrics: metrics, awaited: map[Shard]admission{}}
}

// await has the next reconcile in the shard logged that begins under the epoch.
func (f *firstWork) await(shard Shard, epoch Epoch, log logr.Logger) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.awaited[shard] = admission{epoch: epoch, log: log}
}

// forget ends the wait.
func (f *firstWork) forget(shard Shard) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.awaited, shard)
}

// Started implements guard.Observer together with the methods of metrics. One that was admitted under
// an earlier epoch, and comes late, is not the first of this one.
func (f *firstWork) Started(shard Shard, epoch Epoch) {
	now := monotonicNanos()
	f.mu.Lock()
	awaited, first := f.awaited[shard]
	first = first && awaited.epoch == epoch
	if first {
		delete(f.awaited, shard)
	}
	f.mu.Unlock()
	if first {
		awaited.log.Info("Reconciled first request of shard", "monotonicNanos", now)
	}
}
