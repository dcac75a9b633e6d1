package sharding

import (
	"time"

	"example.com/redis-operator/sharding/claim"
)

// history remembers since when a shard is not served, for the gap and the unowned seconds. Only the
// coordinator's goroutine uses it.
type history struct {
	metrics *metrics
	shards  map[Shard]*shardHistory
}

type shardHistory struct {
	ownedUntil time.Time // until when another owned the shard before, as seen here; zero: nobody did
	closed     Cause     // why this replica does not admit it any more; empty while it does
}

func (h *history) of(shard Shard) *shardHistory {
	if h.shards[shard] == nil {
		h.shards[shard] = &shardHistory{}
	}
	return h.shards[shard]
}

// claimChanged notes until when another owned the shard, and counts what this replica gave away.
func (h *history) claimChanged(e ClaimChanged, ownedUntil time.Time) {
	s := h.of(e.Shard)
	switch e.Type {
	case claim.Acquired:
		s.ownedUntil = ownedUntil
	case claim.Released:
		if s.closed == CauseHandover || s.closed == CauseStop {
			h.metrics.handovers.WithLabelValues("loser").Inc()
		}
		s.closed = ""
	default:
	}
}

func (h *history) closed(a StopAdmitting) { h.of(a.Shard).closed = a.Cause }

// admitted counts a takeover, and for how long nobody served the shard. A shard that nobody ever
// owned has no gap.
func (h *history) admitted(a Admit, confirmed bool, now time.Time) {
	s := h.of(a.Shard)
	s.closed = ""
	kind := string(a.Cause)
	switch {
	case s.ownedUntil.IsZero():
		return
	case a.Cause == CauseHandover:
		h.metrics.handovers.WithLabelValues("winner").Inc()
	case a.Cause == CauseFailover && confirmed:
		h.metrics.failovers.WithLabelValues("confirmed").Inc()
	case a.Cause == CauseFailover:
		h.metrics.failovers.WithLabelValues("expired").Inc()
	default:
		return
	}
	gap := max(0, now.Sub(s.ownedUntil).Seconds())
	h.metrics.gap.WithLabelValues(kind).Observe(gap)
	h.metrics.unownedSeconds.Add(gap)
}
