package claim

import "time"

// phase is where a claim stands by its own clock.
type phase int

const (
	unheld phase = iota
	held
	stalled
	expiring
)

// tenure is the pure part of holding a Lease: what the sending times of writes, the states seen of the
// Lease and the clock make of a claim. Its methods return what has happened, in order. It is not safe
// for concurrent use, and a value of it is a copy.
type tenure struct {
	timings Timings

	phase phase
	epoch Epoch
	// version is the resourceVersion of the last own write while the Lease is held.
	version string
	// sent is when that write was sent.
	sent time.Time
	// exitAt is when mutating calls still in flight end the process, after a claim was lost. Zero: no
	// such moment is pending. ExitEpoch is the tenure they belong to.
	exitAt    time.Time
	exitEpoch Epoch
	// silent is set while the claim is being given up: what is acquired then (a write whose answer came
	// late) is not announced, it is released.
	silent bool
	// found is in which state the Lease was acquired under the present epoch; began is when that was.
	found found
	began time.Time
	// announced is set once Acquired was told for the present epoch.
	announced bool
}

// notice is something that has happened to a tenure.
type notice struct {
	kind   EventType
	epoch  Epoch
	reason Reason
	found
}

func (t *tenure) deadline() time.Time {
	if t.phase == unheld {
		return time.Time{}
	}
	return t.sent.Add(t.timings.LeaseDuration)
}

// isLive says whether the Lease is held and may be relied upon at now, whatever timers have run.
func (t *tenure) isLive(now time.Time) bool {
	return t.phase != unheld && now.Before(t.deadline())
}

// write is a successful write with this process as holder.
type write struct {
	sent    time.Time
	version string
	found
}

// found is the state in which a write finds the Lease.
type found struct {
	unclean bool        // it was not released
	again   bool        // it still names this process, which had held it before
	vacated EmptyReason // what it says of how its last holder was removed
}

// wrote takes in a write whose answer came at now.
func (t *tenure) wrote(w write, now time.Time) []notice {
	var out []notice
	if t.phase != unheld && !t.isLive(now) {
		out = t.tick(now)
	}
	before := t.phase
	t.sent, t.version = w.sent, w.version
	if before == unheld {
		t.phase, t.epoch, t.found, t.began, t.announced = held, Epoch(w.version), w.found, now, false
		out = append(out, t.announce()...)
	} else {
		t.phase = held
		if before != held {
			out = append(out, notice{kind: Recovered, epoch: t.epoch})
		}
	}
	// An answer may come so late that the write is old already.
	return append(out, t.tick(now)...)
}

// announce tells of an acquisition that has not been told of.
func (t *tenure) announce() []notice {
	if t.phase == unheld || t.silent || t.announced {
		return nil
	}
	t.announced = true
	return []notice{{kind: Acquired, epoch: t.epoch, found: t.found}}
}

// tick takes in that time has passed.
func (t *tenure) tick(now time.Time) []notice {
	var out []notice
	age := now.Sub(t.sent)
	if t.phase != unheld && age >= t.timings.LeaseDuration {
		return t.lose(now, ReasonDeadline)
	}
	if t.phase == held && age >= t.timings.RenewDeadline {
		t.phase = stalled
		out = append(out, notice{kind: Stalled, epoch: t.epoch})
	}
	if t.phase == stalled && age >= t.timings.LeaseDuration-t.timings.CancelLead {
		t.phase = expiring
		out = append(out, notice{kind: Expiring, epoch: t.epoch})
	}
	return out
}

// lose ends the tenure. Calls in flight have until the deadline at most; where the Lease is known to
// be another's already, until CancelLead from now.
func (t *tenure) lose(now time.Time, why Reason) []notice {
	if t.phase == unheld {
		return nil
	}
	at := t.deadline()
	if soon := now.Add(t.timings.CancelLead); why == ReasonTaken && soon.Before(at) {
		at = soon
	}
	if t.exitAt.IsZero() || at.Before(t.exitAt) {
		t.exitAt = at
	}
	t.exitEpoch = t.epoch
	t.phase, t.version = unheld, ""
	return []notice{{kind: Lost, epoch: t.epoch, reason: why}}
}

// released ends the tenure after its Lease was emptied by Release, that is, after the drain.
func (t *tenure) released() []notice {
	if t.phase == unheld {
		return nil
	}
	epoch := t.epoch
	t.phase, t.version, t.epoch = unheld, "", ""
	return []notice{{kind: Released, epoch: epoch}}
}

// vacancy is how a Lease is left that is given back at now, after the drain of this tenure.
func (t *tenure) vacancy(now time.Time) string {
	if t.phase == unheld || t.found.unclean && now.Sub(t.began) < t.timings.RetryPeriod {
		return string(Undrained)
	}
	return string(Released)
}

// isExitDue says whether, at now, calls still in flight have to end the process. It says so once.
func (t *tenure) isExitDue(now time.Time) bool {
	if t.exitAt.IsZero() || now.Before(t.exitAt) {
		return false
	}
	t.exitAt = time.Time{}
	return true
}

// next is when tick or isExitDue have something to say if nothing else happens; zero for never.
func (t *tenure) next() time.Time {
	var at time.Time
	switch t.phase {
	case held:
		at = t.sent.Add(t.timings.RenewDeadline)
	case stalled:
		at = t.sent.Add(t.timings.LeaseDuration - t.timings.CancelLead)
	case expiring:
		at = t.deadline()
	case unheld:
	}
	if at.IsZero() || (!t.exitAt.IsZero() && t.exitAt.Before(at)) {
		return t.exitAt
	}
	return at
}
