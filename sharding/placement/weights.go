package placement

import (
	"cmp"
	"math"
	"slices"
)

// MaxWeight bounds the weight of one shard, so that sums and products of weights stay exact.
const MaxWeight = 1 << 30

// WeightBound is the bound of I4: no member weighs more than this times the mean or the heaviest
// shard, whichever is more, where moving or swapping shards can bring that about.
const WeightBound = 1.15

// Place restores a limit that is below the bound, so that what changes between two foldings, and
// what their steps leave out, does not break it.
const (
	limitPercent = 110
	// filledPercent of the level is what a new member is filled up to.
	filledPercent = 90
)

// balance is who has which shards, and what they weigh.
type balance struct {
	pref    *preference
	weights []int64   // by shard
	held    [][]Shard // by member
	loads   []int64   // by member
	limit   int64     // what a member may weigh
}

// weightOf is what a shard counts for: never nothing, since each shard costs its Lease.
func (p Placement) weightOf(shard Shard) int64 {
	return min(max(p.Weights[shard], 1), MaxWeight)
}

// BoundOfWeights is what no member is to weigh more than: WeightBound times the mean or the heaviest
// shard, whichever is more. It is 0 where P records no weights or expects nobody.
func (p Placement) BoundOfWeights() float64 {
	if len(p.Weights) == 0 || len(p.Expected) == 0 {
		return 0
	}
	total, heaviest := int64(0), int64(0)
	for shard := range Shard(p.Shards) {
		total += p.weightOf(shard)
		heaviest = max(heaviest, p.weightOf(shard))
	}
	return WeightBound * max(float64(total)/float64(len(p.Expected)), float64(heaviest))
}

// computeWeightedHomes gives every shard a home where P records weights. Homes stay what they are;
// shards without one go, the heaviest first, to the member with the least weight. A member that P
// does not expect yet is filled, from those with most, up to what it would have if all were even.
// Then, for as long as a member is over the limit, it gives up shards (see lighten).
//
// So nothing moves while the members stay the same and nobody is over the limit, and no member that
// is within it gives up any shard but for one that it swaps, or to a new member.
func computeWeightedHomes(p Placement, pref *preference) []Member {
	homes := make([]Member, pref.shards)
	if len(pref.members) == 0 || pref.shards == 0 {
		return homes
	}
	b := newBalance(p, pref)
	for member, name := range pref.members {
		if !p.IsExpected(name) {
			b.fill(member)
		}
	}
	for b.step() {
	}
	for member, shards := range b.held {
		for _, shard := range shards {
			homes[shard] = pref.members[member]
		}
	}
	return homes
}

// newBalance starts from the homes in p.
func newBalance(p Placement, pref *preference) *balance {
	b := &balance{
		pref: pref, weights: make([]int64, pref.shards),
		held: heldHomes(p.Homes, pref), loads: make([]int64, len(pref.members)),
	}
	total, heaviest := int64(0), int64(0)
	for shard := range b.weights {
		b.weights[shard] = p.weightOf(Shard(shard))
		total += b.weights[shard]
		heaviest = max(heaviest, b.weights[shard])
	}
	b.limit = max(ceilDiv(total, len(pref.members)), heaviest) * limitPercent / 100
	housed := make([]bool, pref.shards)
	for member, shards := range b.held {
		for _, shard := range shards {
			housed[shard] = true
			b.loads[member] += b.weights[shard]
		}
	}
	for _, shard := range heaviestFirst(b.weights) {
		if !housed[shard] {
			b.give(shard, b.lightest(shard))
		}
	}
	return b
}

func ceilDiv(total int64, parts int) int64 { return (total + int64(parts) - 1) / int64(parts) }

// heaviestFirst orders shards by weight, ties by number.
func heaviestFirst(weights []int64) []Shard {
	shards := make([]Shard, len(weights))
	for i := range shards {
		shards[i] = Shard(i)
	}
	slices.SortStableFunc(shards, func(a, b Shard) int { return cmp.Compare(weights[b], weights[a]) })
	return shards
}

// waterLevel is the mean weight of a member once every shard that outweighs the mean has a member
// to itself: those are counted out, and their members, until none is left. It is never above the
// mean.
func waterLevel(weights []int64, members int) int64 {
	total := int64(0)
	for _, weight := range weights {
		total += weight
	}
	for _, shard := range heaviestFirst(weights) {
		if members == 1 || weights[shard]*int64(members) <= total {
			break
		}
		total -= weights[shard]
		members--
	}
	return total / int64(members)
}

// lightest is the member with the least weight; ties go to the one that the shard prefers.
func (b *balance) lightest(shard Shard) int {
	least := slices.Min(b.loads)
	return b.pref.best(shard, func(member int) bool { return b.loads[member] == least })
}

func (b *balance) give(shard Shard, member int) {
	b.held[member] = append(b.held[member], shard)
	b.loads[member] += b.weights[shard]
}

func (b *balance) move(shard Shard, from, to int) {
	b.held[from] = slices.DeleteFunc(b.held[from], func(s Shard) bool { return s == shard })
	b.loads[from] -= b.weights[shard]
	b.give(shard, to)
}

// fill gives a new member its share: always the heaviest shard that it has room for below the
// level, of the member with most weight that has one.
func (b *balance) fill(member int) {
	level := waterLevel(b.weights, len(b.loads))
	for b.loads[member]*100 < level*filledPercent {
		from, shard := -1, NoShard
		for _, candidate := range b.byLoad() {
			if shard = b.heaviestBelow(candidate, level-b.loads[member]); shard != NoShard {
				from = candidate
				break
			}
		}
		// It must leave the giver with more than the new member has: so this ends.
		if from < 0 || b.loads[from]-b.weights[shard] <= b.loads[member] {
			return
		}
		b.move(shard, from, member)
	}
}

// byLoad orders the members, that with most weight first.
func (b *balance) byLoad() []int {
	members := make([]int, len(b.loads))
	for i := range members {
		members[i] = i
	}
	slices.SortStableFunc(members, func(x, y int) int { return cmp.Compare(b.loads[y], b.loads[x]) })
	return members
}

// heaviestBelow is the heaviest shard of a member that weighs no more than room.
func (b *balance) heaviestBelow(member int, room int64) Shard {
	for _, shard := range b.heaviestOf(member) {
		if b.weights[shard] <= room {
			return shard
		}
	}
	return NoShard
}

func (b *balance) weigh(shards []Shard) int64 {
	total := int64(0)
	for _, shard := range shards {
		total += b.weights[shard]
	}
	return total
}

// heaviestOf orders the shards of a member by weight, ties by number.
func (b *balance) heaviestOf(member int) []Shard {
	shards := slices.Clone(b.held[member])
	slices.SortFunc(shards, func(x, y Shard) int {
		return cmp.Or(cmp.Compare(b.weights[y], b.weights[x]), cmp.Compare(x, y))
	})
	return shards
}

// chargeOf is what a shard counts for in the load of who acts for it.
func (p Placement) chargeOf(shard Shard) int64 {
	if len(p.Weights) == 0 {
		return 1
	}
	return p.weightOf(shard)
}

// fillVacantByWeight is fillVacant where P records weights.
func fillVacantByWeight(
	p Placement, vacant []Shard, deputies map[Shard]Member, load map[Member]int64, candidates candidates,
) {
	if candidates.count == 0 {
		return
	}
	members := candidates.pref.members
	ordered := slices.Clone(vacant)
	slices.SortStableFunc(ordered, func(a, b Shard) int { return cmp.Compare(p.weightOf(b), p.weightOf(a)) })
	for _, shard := range ordered {
		least := int64(math.MaxInt64)
		for _, member := range members {
			if candidates.live[member] {
				least = min(least, load[member])
			}
		}
		best := candidates.pref.best(shard, func(i int) bool {
			return candidates.live[members[i]] && load[members[i]] == least
		})
		deputies[shard] = members[best]
		load[members[best]] += p.weightOf(shard)
	}
}
