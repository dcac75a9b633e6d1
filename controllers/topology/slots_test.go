package topology

import (
	"math/rand/v2"
	"testing"
	"testing/quick"
)

// bitmap is the naive version of a SlotSet.
type bitmap [SlotCount]bool

func (b *bitmap) set() SlotSet {
	var ranges []SlotRange
	for i, in := range b {
		if in {
			ranges = append(ranges, SlotRange{i, i})
		}
	}
	return Slots(ranges...)
}

// randomSet makes a set of a few ranges, in both versions.
func randomSet(r *rand.Rand) (SlotSet, *bitmap) {
	var ranges []SlotRange
	var b bitmap
	for range r.IntN(8) {
		first := r.IntN(SlotCount)
		rg := SlotRange{first, min(first+r.IntN(3000), SlotCount-1)}
		ranges = append(ranges, rg)
		for i := rg.First; i <= rg.Last; i++ {
			b[i] = true
		}
	}
	return Slots(ranges...), &b
}

func combine(a, b *bitmap, f func(x, y bool) bool) SlotSet {
	var out bitmap
	for i := range out {
		out[i] = f(a[i], b[i])
	}
	return out.set()
}

// TestSlotSetAgainstBitmap compares the arithmetic with that of plain bitmaps.
func TestSlotSetAgainstBitmap(t *testing.T) {
	t.Parallel()
	check := func(seed uint64) bool {
		r := rand.New(rand.NewPCG(seed, 1))
		s, sb := randomSet(r)
		u, ub := randomSet(r)
		slot := r.IntN(SlotCount)
		parsed, err := ParseSlots(s.String())
		return s.Equal(sb.set()) && s.Len() == len(expand(sb)) && s.Contains(slot) == sb[slot] &&
			s.Union(u).Equal(combine(sb, ub, func(x, y bool) bool { return x || y })) &&
			s.Minus(u).Equal(combine(sb, ub, func(x, y bool) bool { return x && !y })) &&
			s.Intersect(u).Equal(combine(sb, ub, func(x, y bool) bool { return x && y })) &&
			err == nil && parsed.Equal(s)
	}
	if err := quick.Check(check, &quick.Config{MaxCount: 60}); err != nil {
		t.Error(err)
	}
}

func expand(b *bitmap) []int {
	var out []int
	for i, in := range b {
		if in {
			out = append(out, i)
		}
	}
	return out
}

// TestEvenShare wants shares that are disjoint, complete, and differ by one slot at most.
func TestEvenShare(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 50; n++ {
		var all SlotSet
		sum := 0
		for i := range n {
			share := EvenShare(i, n)
			if got := share.Len(); got < SlotCount/n || got > SlotCount/n+1 {
				t.Errorf("share %d of %d has %d slots", i, n, got)
			}
			all, sum = all.Union(share), sum+share.Len()
		}
		if !all.Equal(AllSlots()) || sum != SlotCount {
			t.Errorf("%d shares make %d slots: %s", n, sum, all)
		}
	}
}

func TestParseSlotsRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"-1", "16384", "5-4", "a", "1-", "1,,2", "0-99999999999999999999"} {
		if s, err := ParseSlots(text); err == nil {
			t.Errorf("ParseSlots(%q) is %s, want an error", text, s)
		}
	}
	if got := Slots(SlotRange{-5, 3}, SlotRange{16380, 99999}, SlotRange{9, 8}).String(); got != "0-3,16380-16383" {
		t.Errorf("cut to %s", got)
	}
}

// TestSlotSetIsImmutable changes what was given and what was got.
func TestSlotSetIsImmutable(t *testing.T) {
	t.Parallel()
	s := Slots(SlotRange{1, 5})
	s.Ranges()[0].Last = 99
	if s.String() != "1-5" {
		t.Errorf("changed to %s", s)
	}
}
