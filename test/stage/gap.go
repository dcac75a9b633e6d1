package stage

import (
	"slices"
	"time"
)

// Gap is a time in which no process did work of a shard, on the monotonic clock: from the last moment
// at which one could have begun some to the first at which one did again.
type Gap struct {
	Shard int
	// From and To are the identities before and after. They are the same where a process stopped and
	// went on.
	From, To string
	// ToPod is the Pod of To.
	ToPod string
	// Killed says that the process before was killed: it said nothing, and Start is when that was.
	Killed          bool
	Start, Admitted time.Duration
	// Reconciled is when the first reconcile after the admission began; 0 while none has.
	Reconciled time.Duration
}

// End is the first reconcile, or, while there was none, the admission.
func (g Gap) End() time.Duration {
	if g.Reconciled > 0 {
		return g.Reconciled
	}
	return g.Admitted
}

// Length is how long it lasted.
func (g Gap) Length() time.Duration { return g.End() - g.Start }

// Moved says that another process has the shard since.
func (g Gap) Moved() bool { return g.From != g.To }

// Gaps returns all gaps of all shards in the order in which they were admitted again. Processes have to
// share one monotonic clock.
func Gaps(transitions []Transition, kills []Kill) []Gap {
	sorted := slices.Clone(transitions)
	sortByClock(sorted)
	var gaps []Gap
	last := map[int]*admissionOf{}
	for _, t := range sorted {
		before := last[t.Shard]
		switch {
		case t.Step == Admitted:
			now := &admissionOf{Transition: t, gap: -1}
			if at, ended := before.end(t.Monotonic, kills); ended {
				now.gap = len(gaps)
				gaps = append(gaps, Gap{
					Shard: t.Shard, From: before.Identity, To: t.Identity, ToPod: t.Pod,
					Killed: !before.stopped, Start: at, Admitted: t.Monotonic,
				})
			}
			last[t.Shard] = now
		case before == nil || before.Identity != t.Identity:
		case t.Step == Stopped:
			before.stopped, before.stoppedAt = true, t.Monotonic
		case t.Step == FirstReconciled && before.gap >= 0:
			gaps[before.gap].Reconciled = t.Monotonic
		}
	}
	return gaps
}

// admissionOf is the last admission of a shard, the number of the gap that it ended, -1 for none, and its
// own end as far as the logs tell.
type admissionOf struct {
	Transition
	gap       int
	stopped   bool
	stoppedAt time.Duration
}

// end is when the admission ended, before now; false if neither a line nor a kill tells.
func (a *admissionOf) end(now time.Duration, kills []Kill) (time.Duration, bool) {
	if a == nil {
		return 0, false
	}
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
