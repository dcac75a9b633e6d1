package bench

import (
	"fmt"
	"hash/fnv"
	"io"
	"slices"

	"github.com/buraksezer/consistent"

	"example.com/redis-operator/sharding/placement"
)

const mostMembers = 50

// placer is a way to give shards to members over a history of changes.
type placer interface {
	// expect takes new members over and returns the owner of each shard, and the least number of
	// shards that had to move for this change.
	expect(members []placement.Member) (owners []placement.Member, optimum int)
	// live tells which of the members work at the moment and returns who acts for each shard.
	live(members []placement.Member) []placement.Member
}

// Placement measures how many shards move: members 1 to 50 and back, one at a time, and rolling
// restarts of 3, 5 and 8, with 64, 256 and 1,024 shards. It prints the worst of each, for Place
// and, with the prefix plain_ring_, for the ring of the library alone.
//
// moved_over_optimal_max is the largest ratio of the shards that moved in one change to those that
// had to: for Place the least number from the homes as they were, for the ring, which is never
// quite even, the floor of the mean that the member which comes or goes has. shards_above_mean_max
// is how many shards the fullest member had above the mean, rounded up. moves_per_shard_in_roll_max
// is how often one shard changed its acting member while each member left and returned once.
func Placement(out io.Writer) error {
	kinds := []struct {
		prefix string
		build  func(shards int) (placer, error)
	}{
		{"", newPlaceUnderTest},
		{"plain_ring_", newPlainRing},
	}
	for _, kind := range kinds {
		var worst placementFigures
		for _, shards := range []int{64, 256, 1024} {
			if err := worst.measure(shards, kind.build); err != nil {
				return fmt.Errorf("measuring placement of %d shards: %w", shards, err)
			}
		}
		figures := report{out: out, scenario: "placement"}
		figures.figure(kind.prefix+"moved_over_optimal_max", worst.movedOverOptimal, "ratio")
		figures.figure(kind.prefix+"shards_above_mean_max", float64(worst.aboveMean), "shards")
		figures.figure(kind.prefix+"moves_per_shard_in_roll_max", float64(worst.movesInRoll), "moves")
	}
	return nil
}

type placementFigures struct {
	movedOverOptimal float64
	aboveMean        int
	movesInRoll      int
}

func (f *placementFigures) measure(shards int, build func(int) (placer, error)) error {
	scaled, err := build(shards)
	if err != nil {
		return err
	}
	f.scale(scaled, shards)
	for _, n := range []int{3, 5, 8} {
		rolled, err := build(shards)
		if err != nil {
			return err
		}
		f.roll(rolled, n)
	}
	return nil
}

// scale goes from one member to 50 and back.
func (f *placementFigures) scale(p placer, shards int) {
	before, _ := p.expect(operatorMembers(1))
	for step := 2; step < 2*mostMembers; step++ {
		n := min(step, 2*mostMembers-step)
		after, optimum := p.expect(operatorMembers(n))
		if optimum > 0 {
			f.movedOverOptimal = max(f.movedOverOptimal, float64(movedShards(before, after))/float64(optimum))
		}
		f.aboveMean = max(f.aboveMean, (fullest(after)*n-shards+n-1)/n)
		before = after
	}
}

// roll lets each of n members leave and return, the last first as a StatefulSet does.
func (f *placementFigures) roll(p placer, n int) {
	members := operatorMembers(n)
	p.expect(members)
	before := p.live(members)
	moves := make([]int, len(before))
	for _, restarted := range slices.Backward(members) {
		others := slices.DeleteFunc(slices.Clone(members), func(m placement.Member) bool { return m == restarted })
		for _, live := range [][]placement.Member{others, members} {
			after := p.live(live)
			for shard := range after {
				if after[shard] != before[shard] {
					moves[shard]++
				}
			}
			before = after
		}
	}
	f.movesInRoll = max(f.movesInRoll, slices.Max(moves))
}

func operatorMembers(n int) []placement.Member {
	members := make([]placement.Member, n)
	for i := range members {
		members[i] = placement.Member(fmt.Sprintf("redis-operator-%d", i))
	}
	return members
}

func movedShards(before, after []placement.Member) int {
	moved := 0
	for shard := range before {
		if before[shard] != after[shard] {
			moved++
		}
	}
	return moved
}

func fullest(owners []placement.Member) int {
	counts := make(map[placement.Member]int)
	most := 0
	for _, owner := range owners {
		counts[owner]++
		most = max(most, counts[owner])
	}
	return most
}

// placeUnderTest is Place with a P that it carries along.
type placeUnderTest struct {
	p placement.Placement
}

func newPlaceUnderTest(shards int) (placer, error) {
	settings := placement.Settings{Shards: shards, Hash: placement.HashFNV1aMix}
	return &placeUnderTest{p: placement.New(settings, placement.Timings{})}, settings.Validate()
}

func (u *placeUnderTest) expect(members []placement.Member) ([]placement.Member, int) {
	optimum := u.p.OptimalMoves(members)
	u.p = placement.Place(u.p, members)
	return u.p.Homes, optimum
}

func (u *placeUnderTest) live(members []placement.Member) []placement.Member {
	u.p = u.p.Clone()
	u.p.Processes = nil
	for i, member := range members {
		u.p.Processes = append(u.p.Processes, placement.Process{
			Identity: placement.Identity(member + "_uid_nonce"), Member: member, State: placement.Serving, Joined: i + 1,
		})
	}
	u.p = placement.Place(u.p, u.p.Expected)
	acting := make([]placement.Member, u.p.Shards)
	for shard := range acting {
		acting[shard], _ = u.p.Acting(placement.Shard(shard))
	}
	return acting
}

// plainRing is the library's ring with its usual settings: no memory but the membership, and a
// member that does not work is none. Member names end in a separator, since the library panics
// over those that do not.
type plainRing struct {
	shards  int
	members int
}

func newPlainRing(shards int) (placer, error) { return &plainRing{shards: shards}, nil }

func (r *plainRing) expect(members []placement.Member) ([]placement.Member, int) {
	optimum := 0
	if r.members > 0 {
		optimum = r.shards / max(r.members, len(members))
	}
	r.members = len(members)
	return r.live(members), optimum
}

func (r *plainRing) live(members []placement.Member) []placement.Member {
	ringMembers := make([]consistent.Member, len(members))
	for i, member := range members {
		ringMembers[i] = plainRingMember(member)
	}
	ring := consistent.New(ringMembers, consistent.Config{
		Hasher: plainRingHasher{}, PartitionCount: r.shards, ReplicationFactor: 20, Load: 1.25,
	})
	owners := make([]placement.Member, r.shards)
	for shard := range owners {
		if owner, ok := ring.GetPartitionOwner(shard).(plainRingMember); ok {
			owners[shard] = placement.Member(owner)
		}
	}
	return owners
}

type plainRingMember placement.Member

func (m plainRingMember) String() string { return string(m) + "/" }

type plainRingHasher struct{}

// Sum64 is FNV-1a with a mix after it, as everywhere in placement: FNV-1a alone puts all points of
// a member side by side on the ring.
func (plainRingHasher) Sum64(data []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(data) // never returns an error
	sum := h.Sum64()
	for _, factor := range []uint64{0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53, 1} {
		sum = (sum ^ sum>>33) * factor
	}
	return sum
}
