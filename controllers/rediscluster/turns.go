package rediscluster

import (
	"fmt"
	"sync"

	"example.com/redis-operator/controllers/rediscluster/plan"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// turns bounds how many clusters this process rolls at the same time. A cluster has its turn from the first
// step of its roll until it is whole with nothing left to replace: one that is stuck keeps it, so that a spec that
// breaks clusters breaks no more than so many. It is safe for concurrent use.
type turns struct {
	limit int

	mu    sync.Mutex // guards taken
	taken map[client.ObjectKey]bool
}

func newTurns(limit int) *turns { return &turns{limit: limit, taken: map[client.ObjectKey]bool{}} }

// admit passes a plan, without the steps of its roll while as many clusters as may be are being rolled.
func (t *turns) admit(key client.ObjectKey, isPaused bool, next plan.Plan) plan.Plan {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case isPaused, next.Settled() && (next.Roll.IsOver() || next.Roll.Held != ""):
		delete(t.taken, key)
	case !next.IsRolling() || t.taken[key]:
	case len(t.taken) >= t.limit:
		return next.HoldRoll(fmt.Sprintf("%d other clusters are being rolled, as many as may be at once (--max-rolling-clusters)", t.limit))
	default:
		t.taken[key] = true
	}
	return next
}

func (t *turns) drop(isGone func(key client.ObjectKey) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.taken {
		if isGone(key) {
			delete(t.taken, key)
		}
	}
}
