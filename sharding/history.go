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
	ownedUntil time.Time // until when the shard was owned before, as seen here; zero: nobody did
	acquired   bool      // it is owned under a new epoch, and was not admitted yet
	confirmed  bool      // the holder before was certainly dead
	closed     Cause     // why this replica does not admit it any more; empty while it does
}

func (h *history) of(shard Shard) *shardHistory {
	if h.shards[shard] == nil {
		h.shards[shard] = &shardHistory{}
	}
	return h.shards[shard]
}

// claimChanged notes until when the shard was owned before, and counts what this replica gave away.
func (h *history) claimChanged(e ClaimChanged, ownedUntil time.Time) {
	s := h.of(e.Shard)
	switch e.Type {
	case claim.Acquired:
		s.ownedUntil, s.acquired = ownedUntil, true
		// By now the Lease names this process, whoever was removed from it before.
		s.confirmed = e.Vacated == claim.EmptyConfirmed || e.Vacated == claim.EmptyOwnPod
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
// owned has no gap, and one that this replica took up again after it lost it is no takeover.
func (h *history) admitted(a Admit, now time.Time) {
	s := h.of(a.Shard)
	first := s.acquired
	s.closed, s.acquired = "", false
	gap := max(0, now.Sub(s.ownedUntil).Seconds())
	switch {
	case !first || s.ownedUntil.IsZero():
		return
	case a.Cause == CauseRecovered:
		h.metrics.unownedSeconds.Add(gap)
		return
	case a.Cause == CauseHandover:
		h.metrics.handovers.WithLabelValues("winner").Inc()
	case a.Cause == CauseFailover && s.confirmed:
		h.metrics.failovers.WithLabelValues("confirmed").Inc()
	case a.Cause == CauseFailover:
		h.metrics.failovers.WithLabelValues("expired").Inc()
	default:
		return
	}
	h.metrics.gap.WithLabelValues(string(a.Cause)).Observe(gap)
	h.metrics.unownedSeconds.Add(gap)
}
