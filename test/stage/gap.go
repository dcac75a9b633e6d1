package stage

import (
	"slices"
	"time"
)

// Gap is a time in which no process admitted work of a shard, from the last moment at which one could
// have to the first at which one did again, on the monotonic clock.
type Gap struct {
	Shard int
	// From and To are the identities before and after. They are the same where a process stopped and
	// went on.
	From, To string
	// ToPod is the Pod of To.
	ToPod string
	// Killed says that the process before was killed: it said nothing, and Start is when that was.
	Killed     bool
	Start, End time.Duration
}

// Length is how long it lasted.
func (g Gap) Length() time.Duration { return g.End - g.Start }

// Moved says that another process has the shard since.
func (g Gap) Moved() bool { return g.From != g.To }

// Gaps returns all gaps of all shards in the order in which they ended. Processes have to share one
// monotonic clock.
func Gaps(transitions []Transition, kills []Kill) []Gap {
	sorted := slices.Clone(transitions)
	sortByClock(sorted)
	var gaps []Gap
	last := map[int]admissionOf{}
	for _, t := range sorted {
		before, known := last[t.Shard]
		switch {
		case t.Step == Admitted:
			if at, ended := before.end(t.Monotonic, kills); known && ended {
				gaps = append(gaps, Gap{
					Shard: t.Shard, From: before.Identity, To: t.Identity, ToPod: t.Pod,
					Killed: !before.stopped, Start: at, End: t.Monotonic,
				})
			}
			last[t.Shard] = admissionOf{Transition: t}
		case t.Step == Stopped && known && before.Identity == t.Identity:
			before.stopped, before.stoppedAt = true, t.Monotonic
			last[t.Shard] = before
		}
	}
	return gaps
}

// admissionOf is the last admission of a shard, and its end as far as the logs tell.
type admissionOf struct {
	Transition
	stopped   bool
	stoppedAt time.Duration
}

// end is when the admission ended, before now; false if neither a line nor a kill tells.
func (a admissionOf) end(now time.Duration, kills []Kill) (time.Duration, bool) {
	if a.stopped {
		return a.stoppedAt, true
	}
	for _, kill := range kills {
		if kill.Pod == a.Pod && a.Monotonic <= kill.At && kill.At <= now {
			return kill.At, true
		}
	}
	return 0, false
}
