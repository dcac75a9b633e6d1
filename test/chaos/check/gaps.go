package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Gap is a time in which a shard had no owner who showed that it lives.
type Gap struct {
	Shard    int
	Cause    string
	From, To time.Time
}

// Length is how long it took.
func (g Gap) Length() time.Duration { return g.To.Sub(g.From) }

func (g Gap) String() string {
	return fmt.Sprintf("shard %d: %.1f s from %s to %s (%s)", g.Shard, g.Length().Seconds(),
		g.From.Format(clock), g.To.Format(clock), g.Cause)
}

// causes are by how a tenure ended.
var causes = map[string]string{
	"Released":  "handover",
	"Undrained": "given up without a drain",
	"Confirmed": "death confirmed",
	"OwnPod":    "restart in the Pod",
	"Expired":   "expired",
	"deleted":   "Lease deleted",
	"taken":     "taken from its holder",
}

// Gaps are the times between two tenures of a shard: from the release, or else from the last renewal,
// to the next acquisition; and within a tenure those without a renewal for longer than a Lease holds.
// They are told by the Leases alone: the new owner may have to warm up before it admits work.
func (h *History) Gaps() []Gap {
	var gaps []Gap
	for _, l := range h.leases {
		for i, t := range l.tenures {
			for _, lapse := range t.lapses {
				if lapse.to.Sub(lapse.from) > h.o.LeaseDuration {
					gaps = append(gaps, Gap{l.shard, "not renewed", lapse.from, lapse.to})
				}
			}
			if i > 0 {
				gaps = append(gaps, gapBetween(l.shard, l.tenures[i-1], t))
			}
		}
	}
	slices.SortFunc(gaps, func(a, b Gap) int { return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Shard, b.Shard)) })
	return gaps
}

func gapBetween(shard int, before, after *tenure) Gap {
	from := before.renewed
	if before.how == "Released" {
		from = before.ended
	}
	cause, known := causes[before.how]
	if !known {
		cause = "emptied: " + before.how
	}
	return Gap{shard, cause, from, after.acquired}
}

// LongGaps finds the gaps that are longer than what was broken meanwhile explains, Leases that were
// taken from a holder without being emptied first, and the shards that nobody holds at the end (I2).
func (h *History) LongGaps() []Violation {
	var violations []Violation
	for _, gap := range h.Gaps() {
		if allowed := h.o.allowance(h.o.GapBound, gap.From, gap.To, h.windows); gap.Length() > allowed {
			violations = append(violations, found(Unowned, "%s, allowed are %.1f s", gap, allowed.Seconds()))
		}
		if gap.Cause == causes["taken"] {
			violations = append(violations, found(Overlap, "%s", gap))
		}
	}
	for shard := range h.o.Shards {
		t := h.lease(shard).current()
		switch {
		case t == nil:
			violations = append(violations, found(Unowned, "shard %d: nobody holds it at the end", shard))
		case h.end.Sub(t.renewed) > h.o.LeaseDuration:
			violations = append(violations, found(Unowned, "shard %d: %s has not renewed since %s, at the end it is %s",
				shard, t.holder, t.renewed.Format(clock), h.end.Format(clock)))
		}
	}
	return violations
}
