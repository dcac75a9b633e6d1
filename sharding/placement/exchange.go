package placement

import (
	"cmp"
	"slices"
)

// step takes weight off one member that is over the limit, that with most first, and tells whether
// there was a way. Each step leaves the two members that it concerns lighter than the heavier of
// them was, so that the steps end.
func (b *balance) step() bool {
	for _, member := range b.byLoad() {
		if b.loads[member] <= b.limit {
			return false
		}
		if best, found := b.lighten(member); found {
			b.move(best.out, member, best.to)
			for _, back := range best.back {
				b.move(back, best.to, member)
			}
			return true
		}
	}
	return false
}

// lighten looks for the step that takes a member back to its limit: the lightest sufficient shard
// to the member with least weight. Where that does not fit, it looks at swaps too.
func (b *balance) lighten(member int) (best exchange, found bool) {
	consider := func(out Shard, to int, back ...Shard) {
		net := b.weights[out] - b.weigh(back)
		e := exchange{out: out, to: to, back: back, net: net, load: b.loads[member] - net, received: b.loads[to] + net}
		if net <= 0 || e.received >= b.loads[member] {
			return
		}
		if !found || e.isBetter(best, b.limit) {
			best, found = e, true
		}
	}
	movable := b.heaviestOf(member)
	movable = movable[min(1, len(movable)):] // the heaviest stays: it is the dearest to move
	for _, out := range movable {
		consider(out, b.lightest(out))
	}
	if found && best.received <= b.limit {
		return best, true
	}
	for to := range b.held {
		if to == member {
			continue
		}
		theirs := b.heaviestOf(to)
		for _, out := range movable {
			for _, back := range theirs {
				consider(out, to, back)
			}
			most := b.weights[out] - (b.loads[member] - b.limit)
			least := b.weights[out] - (b.limit - b.loads[to])
			consider(out, to, b.change(theirs, least, most)...)
		}
	}
	return best, found
}

// change picks what comes back for a shard that is too heavy for one: the heaviest first, as few as
// make up the least that keeps the receiver within the limit, and not more than the giver can take.
func (b *balance) change(shards []Shard, least, most int64) []Shard {
	var back []Shard
	sum := int64(0)
	for _, shard := range shards {
		if sum < least && sum+b.weights[shard] <= most {
			back = append(back, shard)
			sum += b.weights[shard]
		}
	}
	return back
}

// exchange is a shard that goes from a member over the limit to another, perhaps for lighter ones.
type exchange struct {
	out            Shard
	to             int
	back           []Shard
	net            int64 // what the first loses
	load, received int64 // what each weighs afterwards
}

// isBetter orders exchanges: what keeps the receiver within the limit first. Of those, what takes
// the giver there too, then what moves fewer shards, then the lightest that suffices or else the
// heaviest. Of the others, what leaves the heavier of the two the lightest.
func (e exchange) isBetter(than exchange, limit int64) bool {
	if fits := e.received <= limit; fits != (than.received <= limit) {
		return fits
	} else if !fits {
		return e.before(than, cmp.Compare(max(e.load, e.received), max(than.load, than.received)))
	}
	suffices := e.load <= limit
	if suffices != (than.load <= limit) {
		return suffices
	}
	order := cmp.Compare(len(e.back), len(than.back))
	if suffices {
		return e.before(than, cmp.Or(order, cmp.Compare(e.net, than.net)))
	}
	return e.before(than, cmp.Or(order, cmp.Compare(than.net, e.net)))
}

// before breaks the ties of an order by the numbers of the shards.
func (e exchange) before(than exchange, order int) bool {
	return cmp.Or(order, cmp.Compare(e.out, than.out), slices.Compare(e.back, than.back),
		cmp.Compare(e.to, than.to)) < 0
}
