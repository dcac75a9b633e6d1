package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Process is one replica's process.
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

// AtRest finds what processes still have when no namespace holds a root object any more. The idle
// figures are those of a process that has just begun, with as many shards; slack is how many goroutines
// more it may have.
func AtRest(processes []Process, idle Figures, slack int) []Violation {
	var violations []Violation
	for _, p := range processes {
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

// Watches finds what processes watched, at a moment at which nothing had moved for a while, in
// namespaces of shards that they did not hold. It is the API server who tells; one that ended has ended
// the watches that were begun before.
func (h *History) Watches(at time.Time, processes []Process, restarts []time.Time) []Violation {
	holders := h.holdersAt(at)
	var violations []Violation
	for _, p := range processes {
		byShard := map[int][]string{}
		for _, w := range h.watches {
			if shard := h.o.shardOf(w.namespace); w.isOpenAt(at, p, restarts) && holders[shard] != p.PodUID {
				byShard[shard] = append(byShard[shard], fmt.Sprintf("%s in %s since %s", w.resource, w.namespace, w.from.Format(clock)))
			}
		}
		for _, shard := range slices.Sorted(maps.Keys(byShard)) {
			slices.Sort(byShard[shard])
			violations = append(violations, found(Leftover, "%s does not hold shard %d and watches %s", p.Pod, shard,
				strings.Join(byShard[shard], ", ")))
		}
	}
	return violations
}

// holdersAt are the Pods that held the shards at a moment.
func (h *History) holdersAt(at time.Time) map[int]string {
	holders := map[int]string{}
	for shard, l := range h.leases {
		for _, t := range l.tenures {
			if !t.acquired.After(at) && (t.to == 0 || t.ended.After(at)) {
				holders[shard] = t.podUID()
			}
		}
	}
	return holders
}

// isOpenAt tells whether the process had the watch open at a moment.
func (w *watch) isOpenAt(at time.Time, p Process, restarts []time.Time) bool {
	return w.podUID == p.PodUID && !w.from.After(at) && !w.from.Before(p.Started) &&
		(w.to.IsZero() || w.to.After(at)) &&
		!slices.ContainsFunc(restarts, func(restart time.Time) bool { return w.from.Before(restart) })
}
