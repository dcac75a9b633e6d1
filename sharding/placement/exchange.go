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
	movable := b.heaviestOf(member)
	movable = movable[min(1, len(movable)):] // the heaviest stays: it is the dearest to move
	for _, out := range movable {
		best = b.better(best, exchange{from: member, to: b.lightest(out), out: out})
	}
	if best.net > 0 && best.received <= b.limit {
		return best, true
	}
	for to := range b.held {
		if to != member {
			best = b.bestSwap(best, member, to, movable)
		}
	}
	return best, best.net > 0
}

// bestSwap looks for what could come back from a member for each shard that could go there.
func (b *balance) bestSwap(best exchange, from, to int, movable []Shard) exchange {
	theirs := b.heaviestOf(to)
	for _, out := range movable {
		for _, back := range theirs {
			best = b.better(best, exchange{from: from, to: to, out: out, back: []Shard{back}})
		}
		most := b.weights[out] - (b.loads[from] - b.limit)
		least := b.weights[out] - (b.limit - b.loads[to])
		best = b.better(best, exchange{from: from, to: to, out: out, back: b.change(theirs, least, most)})
	}
	return best
}

// better weighs a new exchange, and returns it if it is one and better than the best so far.
func (b *balance) better(best, e exchange) exchange {
	e.net = b.weights[e.out] - b.weigh(e.back)
	e.load, e.received = b.loads[e.from]-e.net, b.loads[e.to]+e.net
	if e.net <= 0 || e.received >= b.loads[e.from] {
		return best
	}
	if best.net == 0 || e.isBetter(best, b.limit) {
		return e
	}
	return best
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
	from, to       int
	out            Shard
	back           []Shard
	net            int64 // what the first loses; 0 for none
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
