package check

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// root is the history of one root object, and of others of its name before it.
type root struct {
	name   string // namespace/name
	states []rootState
}

// rootState is what one accepted write has left.
type rootState struct {
	at                   time.Time
	version              uint64
	generation, observed int64
	deleted              bool
}

func (h *History) takeRoot(e event) {
	state := rootState{
		at: e.at, version: e.object.version, generation: e.object.generation, observed: e.object.observed,
		deleted: e.verb == "delete" || e.verb == "deletecollection" || e.object.deleting,
	}
	key := e.namespace + "/" + e.name
	if e.verb == "deletecollection" { // all of a namespace, which is said once
		for other, r := range h.roots {
			if strings.HasPrefix(other, key) {
				r.states = append(r.states, state)
			}
		}
		return
	}
	if h.roots[key] == nil {
		h.roots[key] = &root{name: key}
	}
	h.roots[key].states = append(h.roots[key].states, state)
}

// Observation is how long a generation of a root object waited for a status that has observed it.
type Observation struct {
	Root       string
	Generation int64
	From, To   time.Time
	// Seen: it was observed at To; else the object was deleted then, or the log ends.
	Seen, Deleted bool
}

// Observations are those of all generations of all root objects.
func (h *History) Observations() []Observation {
	var all []Observation
	for _, key := range slices.Sorted(maps.Keys(h.roots)) {
		all = append(all, h.roots[key].observations(h.end)...)
	}
	return all
}

func (r *root) observations(end time.Time) []Observation {
	slices.SortStableFunc(r.states, func(a, b rootState) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.version, b.version)) })
	var done, open []Observation
	settle := func(at time.Time, isSeen func(Observation) bool, deleted bool) {
		open = slices.DeleteFunc(open, func(o Observation) bool {
			if !isSeen(o) {
				return false
			}
			o.To, o.Seen, o.Deleted = at, !deleted, deleted
			done = append(done, o)
			return true
		})
	}
	last := int64(0)
	for _, s := range r.states {
		if s.deleted {
			settle(s.at, func(Observation) bool { return true }, true)
			last = 0
			continue
		}
		if s.generation > last {
			last = s.generation
			open = append(open, Observation{Root: r.name, Generation: s.generation, From: s.at})
		}
		settle(s.at, func(o Observation) bool { return s.observed >= o.Generation }, false)
	}
	for _, o := range open {
		o.To = end
		done = append(done, o)
	}
	return done
}

// Late finds the generations that were observed later than what was broken meanwhile explains, or not
// at all (I5).
func (h *History) Late() []Violation {
	var violations []Violation
	for _, o := range h.Observations() {
		took := o.To.Sub(o.From)
		allowed := h.o.allowance(h.o.ObserveBound, o.From, o.To, h.windows)
		if took <= allowed {
			continue
		}
		end := "was observed"
		if !o.Seen {
			end = "was not observed"
		}
		violations = append(violations, found(Incomplete, "%s: generation %d of %s %s within %.1f s, allowed are %.1f s",
			o.Root, o.Generation, o.From.Format(clock), end, took.Seconds(), allowed.Seconds()))
	}
	return violations
}
