package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Process is one replica's process at the end, when nothing has been disturbed for a while.
type Process struct {
	Pod, PodUID string
	// Started is when it began: what its Pod's earlier processes have left open is not its own.
	Started time.Time
	Figures Figures
}

// Figures are what a process says of itself in its metrics.
type Figures struct {
	Goroutines, QueuedKeys, Scopes int
}

// Leftovers finds what remains of lost shards. Open watches are told by the API server; a server that
// ended has ended those that were begun before. The namespaces are those that hold root objects. The
// idle figures are those of a process that has just begun, with as many shards and no namespaces;
// slack is how many goroutines more it may have.
func (h *History) Leftovers(processes []Process, restarts []time.Time, idle Figures, slack int) []Violation {
	var violations []Violation
	holders := map[int]string{}
	for shard, l := range h.leases {
		if t := l.current(); t != nil {
			holders[shard] = t.podUID()
		}
	}
	for _, p := range processes {
		violations = append(violations, h.openWatches(p, restarts, holders)...)
		if p.Figures.QueuedKeys > 0 {
			violations = append(violations, found(Leftover, "%s has %d keys queued at rest", p.Pod, p.Figures.QueuedKeys))
		}
		if p.Figures.Scopes > idle.Scopes {
			violations = append(violations, found(Leftover, "%s caches %d namespaces, none holds a root object", p.Pod, p.Figures.Scopes))
		}
		if p.Figures.Goroutines > idle.Goroutines+slack {
			violations = append(violations, found(Leftover, "%s has %d goroutines, an idle process had %d",
				p.Pod, p.Figures.Goroutines, idle.Goroutines))
		}
	}
	return violations
}

// openWatches finds what the process still watches in namespaces of shards that it does not hold.
func (h *History) openWatches(p Process, restarts []time.Time, holders map[int]string) []Violation {
	byShard := map[int][]string{}
	for _, w := range h.watches {
		isOver := !w.to.IsZero() || w.from.Before(p.Started) ||
			slices.ContainsFunc(restarts, func(at time.Time) bool { return w.from.Before(at) })
		shard := h.o.shardOf(w.namespace)
		if w.podUID == p.PodUID && !isOver && holders[shard] != p.PodUID {
			byShard[shard] = append(byShard[shard], fmt.Sprintf("%s in %s since %s", w.resource, w.namespace, w.from.Format(clock)))
		}
	}
	var violations []Violation
	for _, shard := range slices.Sorted(maps.Keys(byShard)) {
		slices.Sort(byShard[shard])
		violations = append(violations, found(Leftover, "%s does not hold shard %d and watches %s", p.Pod, shard,
			strings.Join(byShard[shard], ", ")))
	}
	return violations
}
