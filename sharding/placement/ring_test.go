package placement

import (
	"fmt"
	"slices"
	"testing"
)

// TestPreferenceProperty: every order is a permutation of the members, rank agrees with it, the
// ring's bound holds for the first, and the second is spread over the members.
func TestPreferenceProperty(t *testing.T) {
	for _, shards := range []int{16, 64, 271, 1024} {
		for _, n := range []int{1, 2, 3, 5, 8, 15, 16, 17, 33, 50} {
			pref := newPreference(operators(n), shards)
			first := make([]int, n)
			for shard := range Shard(shards) {
				order := orderOf(pref, shard)
				first[order[0]]++
				if best := pref.best(shard, func(int) bool { return true }); best != order[0] {
					t.Fatalf("shard %d of %d, %d members: best is %d in %v", shard, shards, n, best, order)
				}
				if none := pref.best(shard, func(int) bool { return false }); none != -1 {
					t.Fatalf("shard %d of %d, %d members: best of none is %d", shard, shards, n, none)
				}
				for rank, member := range order {
					if pref.rank(shard, member) != rank {
						t.Fatalf("shard %d of %d, %d members: rank of %d is %d in %v",
							shard, shards, n, member, pref.rank(shard, member), order)
					}
				}
				slices.Sort(order)
				for i, member := range order {
					if member != i {
						t.Fatalf("shard %d of %d: not every one of %d members is in %v", shard, shards, n, order)
					}
				}
			}
			if bound := (shards/n)*5/4 + 1; n <= shards && slices.Max(first) > bound {
				t.Errorf("%d shards, %d members: %d first preferences, bound %d", shards, n, slices.Max(first), bound)
			}
		}
	}
}

// TestSuccessorsAreSpread: the shards of one member have many different second preferences, so
// that its death does not load one other member with all of them. The ring alone has one.
func TestSuccessorsAreSpread(t *testing.T) {
	const shards, n = 1024, 8
	pref := newPreference(operators(n), shards)
	for member := range n {
		successors, total := make([]int, n), 0
		for shard := range Shard(shards) {
			if order := orderOf(pref, shard); order[0] == member {
				successors[order[1]]++
				total++
			}
		}
		for other, count := range successors {
			if mean := total / (n - 1); other != member && (count < mean/3 || count > 2*mean) {
				t.Errorf("member %d: %d of its %d shards have %d next, mean %d", member, count, total, other, mean)
			}
		}
	}
}

// TestRingPointsAreDistinct: names that end in digits must not share points, redis-operator-1
// point 11 with redis-operator-11 point 1, say.
func TestRingPointsAreDistinct(t *testing.T) {
	points := make(map[uint64]string)
	for i, member := range operators(200) {
		for point := range ringPoints {
			name := fmt.Sprintf("%s%d", ringMember{name: string(member), index: i}, point)
			hash := ringHasher{}.Sum64([]byte(name))
			if other, ok := points[hash]; ok {
				t.Errorf("%s and %s are one point of the ring", name, other)
			}
			points[hash] = name
		}
	}
}

// TestRingNeverPanics: the library panics with more members than shards, and for none.
func TestRingNeverPanics(t *testing.T) {
	for _, shards := range []int{0, 1, 2, 3, 5, 16, 31, 32, 33, 63, 64} {
		for _, n := range []int{0, 1, 2, 3, 5, 16, 17, 32, 33, 34, 50, 64, 65} {
			pref := newPreference(operators(n), shards)
			if shards == 0 {
				continue
			}
			if got := len(orderOf(pref, Shard(shards-1))); got != n {
				t.Fatalf("%d shards, %d members: order of %d", shards, n, got)
			}
		}
	}
}
