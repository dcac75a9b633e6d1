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
	byCause := map[string][]time.Duration{}
	for _, gap := range h.Gaps() {
		byCause[gap.Cause] = append(byCause[gap.Cause], gap.Length())
	}
	for _, cause := range slices.Sorted(maps.Keys(byCause)) {
		fmt.Fprintf(out, "gap  %-24s %s\n", cause, summary(byCause[cause]))
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
