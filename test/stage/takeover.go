package stage

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

func sortByClock(transitions []Transition) {
	slices.SortStableFunc(transitions, func(a, b Transition) int { return cmp.Compare(a.Monotonic, b.Monotonic) })
}

// Takeover is how a shard came to the process that admits it.
type Takeover struct {
	Pod, Identity, Epoch string
	// Admitted and FirstReconcile are monotonic; FirstReconcile is 0 while there was none.
	Admitted, FirstReconcile time.Duration
}

// byEpoch returns the transitions in an order that holds for each shard whatever clocks its processes
// have: an epoch is a version of the shard's Lease, so that a later claim has a greater one, and the
// lines of one epoch come from one process.
func byEpoch(transitions []Transition) []Transition {
	sorted := slices.Clone(transitions)
	slices.SortStableFunc(sorted, func(a, b Transition) int {
		return cmp.Or(cmp.Compare(len(a.Epoch), len(b.Epoch)), cmp.Compare(a.Epoch, b.Epoch),
			cmp.Compare(a.Monotonic, b.Monotonic))
	})
	return sorted
}

// Moves counts for each shard how often it came to another process than had admitted it before. A
// process that admits a shard again, after a drain that overran say, has not moved it.
func Moves(transitions []Transition) map[int]int {
	moves, owners := map[int]int{}, map[int]string{}
	for _, t := range byEpoch(transitions) {
		if t.Step != Admitted {
			continue
		}
		if owner, known := owners[t.Shard]; known && owner != t.Identity {
			moves[t.Shard]++
		}
		owners[t.Shard] = t.Identity
	}
	return moves
}

// Takeovers returns for each shard the newest admission, left out where it has ended again.
func Takeovers(transitions []Transition) map[int]Takeover {
	takeovers := map[int]Takeover{}
	for _, t := range byEpoch(transitions) {
		current, known := takeovers[t.Shard]
		same := known && current.Identity == t.Identity
		switch {
		case t.Step == Admitted:
			takeovers[t.Shard] = Takeover{Pod: t.Pod, Identity: t.Identity, Epoch: t.Epoch, Admitted: t.Monotonic}
		case t.Step == FirstReconciled && same:
			current.FirstReconcile = t.Monotonic
			takeovers[t.Shard] = current
		case t.Step == Stopped && same:
			delete(takeovers, t.Shard)
		}
	}
	return takeovers
}

// Median returns the median of the durations, 0 of none.
func Median(durations []time.Duration) time.Duration {
	if len(durations) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(durations))
	return sorted[len(sorted)/2]
}

// Kill is the moment from which a Pod's process of that time did nothing more, without a word.
type Kill struct {
	Pod string
	At  time.Duration // monotonic
}

// Overlaps describes every admission of a shard that began while another process still admitted it
// (I1). A process that was killed says nothing; its admissions end with its Kill.
func Overlaps(transitions []Transition, kills []Kill) []string {
	sorted := slices.Clone(transitions)
	sortByClock(sorted)
	var overlaps []string
	admitting := map[int]Transition{}
	for _, t := range sorted {
		current, busy := admitting[t.Shard]
		busy = busy && !endedByKill(current, t.Monotonic, kills)
		switch {
		case t.Step == Admitted:
			if busy && current.Identity != t.Identity {
				overlaps = append(overlaps, fmt.Sprintf(
					"shard %d: %s admitted work (cause %s) at %s while %s still did, since %s", t.Shard,
					t.Identity, t.Cause, t.Monotonic, current.Identity, current.Monotonic))
			}
			admitting[t.Shard] = t
		case t.Step == Stopped && busy && current.Identity == t.Identity:
			delete(admitting, t.Shard)
		}
	}
	return overlaps
}

// SharedEpochs describes every epoch of a shard under which two processes admitted work (I1). It is
// what can be told without a clock that the processes share: each claim on a Lease has an epoch of its
// own, so that two processes of one epoch have acted on one claim.
func SharedEpochs(transitions []Transition) []string {
	type claim struct {
		shard int
		epoch string
	}
	var shared []string
	owners := map[claim]string{}
	for _, t := range byEpoch(transitions) {
		if t.Step != Admitted {
			continue
		}
		c := claim{t.Shard, t.Epoch}
		if owner, known := owners[c]; known && owner != t.Identity {
			shared = append(shared, fmt.Sprintf("shard %d: %s and %s both admitted work under epoch %s",
				t.Shard, owner, t.Identity, t.Epoch))
		}
		owners[c] = t.Identity
	}
	return shared
}

func endedByKill(admission Transition, now time.Duration, kills []Kill) bool {
	return slices.ContainsFunc(kills, func(k Kill) bool {
		return k.Pod == admission.Pod && admission.Monotonic <= k.At && k.At <= now
	})
}
