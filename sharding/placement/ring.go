package placement

import "github.com/buraksezer/consistent"

const (
	ringPoints = 20   // points of each member on the ring
	ringLoad   = 1.25 // no member is the first preference of more than this times the mean
)

// preference gives every shard an order of members. The first is the shard's place on a
// consistent-hash ring with bounded load; the others follow by rendezvous hashing, since the ring
// has no usable order beyond its first. The order is a function of the set of members alone.
type preference struct {
	members []Member
	hashes  []uint64 // of the members' names
	shards  int
	first   []int // by shard, index of the member that the ring gives; nil until needed
}

// newPreference wants the members sorted and each once.
func newPreference(members []Member, shards int) *preference {
	hashes := make([]uint64, len(members))
	for i, member := range members {
		hashes[i] = mix(fnv1a(member))
	}
	return &preference{members: members, hashes: hashes, shards: shards}
}

// best returns the index of the member that the shard prefers among those that are eligible, -1 if
// none is.
func (f *preference) best(shard Shard, eligible func(member int) bool) int {
	best := -1
	for member := range f.members {
		if eligible(member) && (best < 0 || f.prefers(shard, member, best)) {
			best = member
		}
	}
	return best
}

// rank returns how many members the shard prefers to the given one.
func (f *preference) rank(shard Shard, member int) int {
	rank := 0
	for other := range f.members {
		if other != member && f.prefers(shard, other, member) {
			rank++
		}
	}
	return rank
}

// prefers tells whether the shard prefers member a to another member b.
func (f *preference) prefers(shard Shard, a, b int) bool {
	if first := f.ringFirst(shard); a == first || b == first {
		return a == first
	}
	scoreA, scoreB := f.score(shard, a), f.score(shard, b)
	return scoreA > scoreB || scoreA == scoreB && a < b
}

// score is the rendezvous score of a member for a shard. The mix at the end matters: a plain xor of
// two hashes would rank the members alike for many shards.
func (f *preference) score(shard Shard, member int) uint64 {
	shardHash := mix(uint64(shard) + 0x9e3779b97f4a7c15) //nolint:gosec // G115: never negative
	return mix(f.hashes[member] ^ shardHash)
}

// ringFirst returns the index of the member that the ring gives the shard, -1 if there is no ring.
func (f *preference) ringFirst(shard Shard) int {
	if f.first == nil {
		f.first = f.buildFirst()
	}
	return f.first[shard]
}

// buildFirst asks a fresh ring, since the library's Remove leaves holes that panic later. With
// more members than shards its integer mean is 0 and it panics too: then there is no ring, and
// rendezvous hashing alone decides.
func (f *preference) buildFirst() []int {
	first := make([]int, f.shards)
	if len(f.members) == 0 || len(f.members) > f.shards {
		for i := range first {
			first[i] = -1
		}
		return first
	}
	ringMembers := make([]consistent.Member, len(f.members))
	for i, member := range f.members {
		ringMembers[i] = ringMember{name: string(member), index: i}
	}
	ring := consistent.New(ringMembers, consistent.Config{
		Hasher:            ringHasher{},
		PartitionCount:    f.shards,
		ReplicationFactor: ringPoints,
		Load:              ringLoad,
	})
	for shard := range first {
		first[shard] = -1
		if owner, ok := ring.GetPartitionOwner(shard).(ringMember); ok {
			first[shard] = owner.index
		}
	}
	return first
}

// ringMember is a member as the ring names it.
type ringMember struct {
	name  string
	index int
}

// String ends in a separator: the ring appends the number of the point, and "x-1" with point 11
// would else be the same as "x-11" with point 1.
func (m ringMember) String() string { return m.name + "/" }

type ringHasher struct{}

func (ringHasher) Sum64(data []byte) uint64 { return mix(fnv1a(data)) }
