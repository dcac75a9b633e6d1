package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// SlotCount is the number of hash slots of every Redis Cluster.
const SlotCount = 16384

// SlotRange is the slots from First to Last, both included.
type SlotRange struct {
	First, Last int
}

// Len is the number of slots in the range.
func (r SlotRange) Len() int { return r.Last - r.First + 1 }

// String is "First-Last", or the one slot's number.
func (r SlotRange) String() string {
	if r.First == r.Last {
		return strconv.Itoa(r.First)
	}
	return strconv.Itoa(r.First) + "-" + strconv.Itoa(r.Last)
}

// SlotSet is an immutable set of slots. The zero value is the empty set. It holds sorted ranges that
// neither overlap nor touch, so that two equal sets have equal ranges.
type SlotSet struct {
	ranges []SlotRange
}

// Slots is the set of all slots in the given ranges, which may overlap and come in any order. What
// lies outside 0 to SlotCount-1 is cut off, and a range whose Last is below First is empty.
func Slots(ranges ...SlotRange) SlotSet {
	kept := make([]SlotRange, 0, len(ranges))
	for _, r := range ranges {
		r.First, r.Last = max(r.First, 0), min(r.Last, SlotCount-1)
		if r.First <= r.Last {
			kept = append(kept, r)
		}
	}
	slices.SortFunc(kept, func(a, b SlotRange) int { return a.First - b.First })
	var out []SlotRange
	for _, r := range kept {
		if n := len(out); n > 0 && r.First <= out[n-1].Last+1 {
			out[n-1].Last = max(out[n-1].Last, r.Last)
			continue
		}
		out = append(out, r)
	}
	return SlotSet{ranges: out}
}

// AllSlots is the set of all 16384 slots.
func AllSlots() SlotSet { return Slots(SlotRange{0, SlotCount - 1}) }

// EvenShare is the part of all slots that falls to part number i (from 0) of n when they are divided
// as evenly as possible: contiguous, disjoint, together everything.
func EvenShare(i, n int) SlotSet {
	return Slots(SlotRange{First: i * SlotCount / n, Last: (i+1)*SlotCount/n - 1})
}

// ParseSlots reads what String writes: "0-5460,5462", or nothing at all for the empty set.
func ParseSlots(text string) (SlotSet, error) {
	if text == "" {
		return SlotSet{}, nil
	}
	var ranges []SlotRange
	for _, field := range strings.Split(text, ",") {
		r, err := ParseSlotRange(field)
		if err != nil {
			return SlotSet{}, err
		}
		ranges = append(ranges, r)
	}
	return Slots(ranges...), nil
}

// ParseSlotRange reads "5" or "0-5460", and refuses numbers that are no slot.
func ParseSlotRange(text string) (SlotRange, error) {
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	a, errA := strconv.Atoi(first)
	b, errB := strconv.Atoi(last)
	if errA != nil || errB != nil || a < 0 || b < a || b >= SlotCount {
		return SlotRange{}, fmt.Errorf("reading slot range %q: not a range within 0-%d", text, SlotCount-1)
	}
	return SlotRange{First: a, Last: b}, nil
}

// Ranges is a copy of the set's ranges, in ascending order.
func (s SlotSet) Ranges() []SlotRange { return slices.Clone(s.ranges) }

// Len is the number of slots in the set.
func (s SlotSet) Len() int {
	n := 0
	for _, r := range s.ranges {
		n += r.Len()
	}
	return n
}

// IsEmpty reports whether the set has no slot.
func (s SlotSet) IsEmpty() bool { return len(s.ranges) == 0 }

// Contains reports whether the set has this slot.
func (s SlotSet) Contains(slot int) bool {
	i, found := slices.BinarySearchFunc(s.ranges, slot, func(r SlotRange, slot int) int { return r.First - slot })
	return found || i > 0 && s.ranges[i-1].Last >= slot
}

// Equal reports whether both sets have the same slots.
func (s SlotSet) Equal(t SlotSet) bool { return slices.Equal(s.ranges, t.ranges) }

// Union is what is in either set.
func (s SlotSet) Union(t SlotSet) SlotSet {
	return Slots(slices.Concat(s.ranges, t.ranges)...)
}

// Minus is what is in s and not in t.
func (s SlotSet) Minus(t SlotSet) SlotSet {
	var out []SlotRange
	j := 0
	for _, r := range s.ranges {
		for j < len(t.ranges) && t.ranges[j].Last < r.First {
			j++
		}
		first := r.First
		for k := j; k < len(t.ranges) && t.ranges[k].First <= r.Last; k++ {
			if t.ranges[k].First > first {
				out = append(out, SlotRange{first, t.ranges[k].First - 1})
			}
			first = t.ranges[k].Last + 1
		}
		if first <= r.Last {
			out = append(out, SlotRange{first, r.Last})
		}
	}
	return SlotSet{ranges: out}
}

// Intersect is what is in both sets.
func (s SlotSet) Intersect(t SlotSet) SlotSet { return s.Minus(s.Minus(t)) }

// String is the set as "0-5460,5462", and "" when it is empty.
func (s SlotSet) String() string {
	fields := make([]string, len(s.ranges))
	for i, r := range s.ranges {
		fields[i] = r.String()
	}
	return strings.Join(fields, ",")
}
