package check

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// Write prints what the history holds: how much of it there is, and the gaps by cause.
func (h *History) Write(out io.Writer) {
	tenures, unlogged := 0, 0
	for _, l := range h.leases {
		tenures += len(l.tenures)
		unlogged += l.unlogged
	}
	claims := map[string]bool{}
	for _, w := range h.writes {
		claims[fmt.Sprint(w.shard, w.claim.epoch)] = true
	}
	fmt.Fprintf(out, "checked %d writes under %d claims, %d tenures of %d Leases, %d versions of the placement, %d watches\n",
		len(h.writes), len(claims), tenures, len(h.leases), len(h.placements), len(h.watches))
	fmt.Fprintf(out, "refused by the server's fence: %d writes; not in the log: %d writes of Leases\n", h.refused, unlogged)
	outage := time.Duration(0)
	for _, w := range h.windows {
		if w.Outage {
			outage += w.To.Sub(w.From)
		}
	}
	fmt.Fprintf(out, "%d disturbances; nobody could be expected to work for %.1f s, some of it told twice\n", len(h.windows), outage.Seconds())
	byCause, longest := map[string][]time.Duration{}, map[string]Gap{}
	for _, gap := range h.Gaps() {
		byCause[gap.Cause] = append(byCause[gap.Cause], gap.Length())
		if gap.Length() > longest[gap.Cause].Length() {
			longest[gap.Cause] = gap
		}
	}
	for _, cause := range slices.Sorted(maps.Keys(byCause)) {
		gap := longest[cause]
		fmt.Fprintf(out, "gap  %-24s %s: shard %d from %s, allowed are %.1f s\n", cause, summary(byCause[cause]), gap.Shard,
			gap.From.Format(clock), h.o.allowance(h.o.GapBound, gap.From, gap.To, h.windows).Seconds())
	}
	var waits []time.Duration
	for _, o := range h.Observations() {
		if o.Seen {
			waits = append(waits, o.To.Sub(o.From))
		}
	}
	if len(waits) > 0 {
		fmt.Fprintf(out, "until a generation was observed %s\n", summary(waits))
	}
}

func summary(lengths []time.Duration) string {
	slices.Sort(lengths)
	return fmt.Sprintf("%5d times, median %7.3f s, max %7.3f s", len(lengths), lengths[len(lengths)/2].Seconds(),
		lengths[len(lengths)-1].Seconds())
}
