package placement

import "maps"

// Cost is what the owner of a shard has measured of it.
type Cost struct {
	Objects      int // root objects in the shard
	Milliseconds int // time spent in reconciling it, per minute
}

const (
	// millisecondsPerObject is how much reconciling in a minute weighs as much as one root object.
	millisecondsPerObject = 100
	// worthFolding is the mean weight of a shard from which on weights are recorded at all. Below
	// it no replica has so much to do that evening it out would be worth a handover.
	worthFolding = 4
	// foldTolerance is the part of all weight that must be wrong for weights to be corrected that
	// move nothing: one part in so many.
	foldTolerance = 8
)

// Weight is the one figure for both: root objects, and as many more as the reconciling is worth.
func (c Cost) Weight() int64 {
	return min(max(1, int64(c.Objects)+int64(c.Milliseconds)/millisecondsPerObject), MaxWeight)
}

// IsNear tells whether another cost of the same shard is so close that publishing it would be
// noise: within 1/32, or two root objects.
func (c Cost) IsNear(other Cost) bool {
	a, b := c.Weight(), other.Weight()
	difference := max(a-b, b-a)
	return difference <= 2 || difference*32 <= max(a, b)
}

// Fold returns p with the weights that follow from the published costs, placed anew. Nothing
// changes before every shard has a cost or a weight, while the costs are too small to matter, and
// where the new weights would move no home and correct nothing that is much: so that P is not
// written for noise.
func (p Placement) Fold(costs map[Shard]Cost) Placement {
	next := p
	next.Weights = make(map[Shard]int64, p.Shards)
	total := int64(0)
	for shard := range Shard(p.Shards) {
		weight, known := p.Weights[shard]
		if cost, published := costs[shard]; published {
			weight, known = steps(cost.Weight()), true
		}
		if !known {
			return p
		}
		next.Weights[shard] = weight
		total += weight
	}
	if len(p.Weights) == 0 && total < worthFolding*int64(p.Shards) {
		return p
	}
	next = Place(next, p.Expected)
	if maps.Equal(next.Weights, p.Weights) || p.Moves(next) == 0 && !p.isOff(next) {
		return p
	}
	return next
}

// steps rounds a weight to six significant bits.
func steps(weight int64) int64 {
	step := int64(1)
	for weight/step >= 64 {
		step *= 2
	}
	return (weight + step/2) / step * step
}

// isOff tells whether p's weights are so far from those of next that a change of members would be
// placed for a load that is not there.
func (p Placement) isOff(next Placement) bool {
	if len(p.Weights) == 0 {
		return true
	}
	total, off := int64(0), int64(0)
	for shard := range Shard(p.Shards) {
		a, b := p.weightOf(shard), next.weightOf(shard)
		total += b
		off += max(a-b, b-a)
	}
	return off*foldTolerance > total
}
