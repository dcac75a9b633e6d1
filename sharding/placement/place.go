package placement

import (
	"cmp"
	"maps"
	"slices"
)

// Place returns p with the given expected members, and with the homes and deputies that follow
// (I3, I4). It is a function of its arguments alone, the order of expected does not matter, and
// placing the result again with the same members changes nothing.
//
// With S shards and n members S = q n + r: r members have q+1 homes, the others q, and the larger
// quota goes to those that have most homes already (ties by ordinal). A member keeps its first
// homes up to its quota, those shards first that prefer it most; all other shards go, by number,
// to the member they prefer among those with room. Processes have no say in that.
//
// Where P records weights, homes are spread by weight instead (see computeWeightedHomes), and so
// are deputies.
//
// Without expected members no shard has a home. Nothing panics: settings that are not valid give
// a placement without homes. The result shares with p what it does not change.
func Place(p Placement, expected []Member) Placement {
	placed := p
	placed.Expected = sortedMembers(expected)
	pref := newPreference(placed.Expected, max(p.Shards, 0))
	if len(p.Weights) > 0 {
		placed.Homes = computeWeightedHomes(p, pref)
	} else {
		placed.Homes = computeHomes(p.Homes, pref)
	}
	placed.Deputies = computeDeputies(p, placed, pref)
	return placed
}

// computeHomes gives every shard a home among the members of pref.
func computeHomes(before []Member, pref *preference) []Member {
	homes := make([]Member, pref.shards)
	if len(pref.members) == 0 || pref.shards == 0 {
		return homes
	}
	held := heldHomes(before, pref)
	room := quotas(held, pref.shards)
	for member, shards := range held {
		for _, shard := range keptHomes(shards, room[member], member, pref) {
			homes[shard] = pref.members[member]
			room[member]--
		}
	}
	for shard := range homes {
		if homes[shard] != "" {
			continue
		}
		// There is one with room: the quotas sum up to S.
		member := pref.best(Shard(shard), func(member int) bool { return room[member] > 0 })
		homes[shard] = pref.members[member]
		room[member]--
	}
	return homes
}

// heldHomes lists for each member the shards that it is the home of, in order of their number.
func heldHomes(before []Member, pref *preference) [][]Shard {
	index := make(map[Member]int, len(pref.members))
	for i, member := range pref.members {
		index[member] = i
	}
	held := make([][]Shard, len(pref.members))
	for shard, home := range before[:min(len(before), pref.shards)] {
		if member, ok := index[home]; ok {
			held[member] = append(held[member], Shard(shard))
		}
	}
	return held
}

// quotas returns how many homes each member is to have.
func quotas(held [][]Shard, shards int) []int {
	members := len(held)
	byHomes := make([]int, members)
	for i := range byHomes {
		byHomes[i] = i
	}
	// Stable, so that ties stay in the order of the ordinals.
	slices.SortStableFunc(byHomes, func(a, b int) int { return cmp.Compare(len(held[b]), len(held[a])) })
	quota := make([]int, members)
	for i, member := range byHomes {
		quota[member] = shards / members
		if i < shards%members {
			quota[member]++
		}
	}
	return quota
}

// keptHomes returns the first quota shards in the fixed order: the member's own rank in the
// shard's preference, then the shard's number.
func keptHomes(shards []Shard, quota, member int, pref *preference) []Shard {
	if len(shards) <= quota {
		return shards
	}
	ranks := make(map[Shard]int, len(shards))
	for _, shard := range shards {
		ranks[shard] = pref.rank(shard, member)
	}
	ordered := slices.Clone(shards)
	slices.SortFunc(ordered, func(a, b Shard) int {
		return cmp.Or(cmp.Compare(ranks[a], ranks[b]), cmp.Compare(a, b))
	})
	return ordered[:quota]
}

// computeDeputies names who acts for each shard whose home is not live. The member that acted
// last goes on if it is live, whether or not it is still expected; a shard whose last one is not
// live goes, by number, to the live member that it prefers among those that act for fewer than
// ceil(S/live) shards; with weights, the heaviest first, to the live member that acts for least. So
// a new home whose Pod never starts moves no claim.
func computeDeputies(before, placed Placement, pref *preference) map[Shard]Member {
	live := liveMembers(placed.Processes)
	deputies := make(map[Shard]Member)
	load := make(map[Member]int64)
	var vacant []Shard
	for shard, home := range placed.Homes {
		last := lastActing(before, Shard(shard))
		switch {
		case home != "" && live[home]:
			load[home] += placed.chargeOf(Shard(shard))
		case last != "" && live[last]:
			deputies[Shard(shard)] = last
			load[last] += placed.chargeOf(Shard(shard))
		default:
			vacant = append(vacant, Shard(shard))
		}
	}
	switch {
	case len(vacant) == 0:
	case len(placed.Weights) > 0:
		fillVacantByWeight(placed, vacant, deputies, load, liveOrder(live, pref))
	default:
		fillVacant(vacant, deputies, load, liveOrder(live, pref))
	}
	rememberLast(before, placed, deputies, vacant)
	if len(deputies) == 0 {
		return nil
	}
	return deputies
}

// fillVacant gives each vacant shard a deputy, if there is any candidate. Among them there is always
// one with room, since their loads sum up to less than S.
func fillVacant(vacant []Shard, deputies map[Shard]Member, load map[Member]int64, candidates candidates) {
	if candidates.count == 0 {
		return
	}
	bound := ceilDiv(int64(candidates.pref.shards), candidates.count)
	for _, shard := range vacant {
		members := candidates.pref.members
		best := candidates.pref.best(shard, func(i int) bool {
			return candidates.live[members[i]] && load[members[i]] < bound
		})
		deputies[shard] = members[best]
		load[members[best]]++
	}
}

// candidates are the members that may become deputies: the live ones of pref, count in number.
type candidates struct {
	pref  *preference
	live  map[Member]bool
	count int
}

// liveOrder chooses among the live expected members. Only if there is none, a process whose member
// is no longer expected gets new shards: better than nobody (I2).
func liveOrder(live map[Member]bool, pref *preference) candidates {
	count := 0
	for _, member := range pref.members {
		if live[member] {
			count++
		}
	}
	if count > 0 {
		return candidates{pref: pref, live: live, count: count}
	}
	unexpected := sortedMembers(slices.Collect(maps.Keys(live)))
	return candidates{pref: newPreference(unexpected, pref.shards), live: live, count: len(unexpected)}
}

// rememberLast keeps the name of the member that acted last where nobody is live to act, so that
// it goes on if it is the first to return.
func rememberLast(before, placed Placement, deputies map[Shard]Member, vacant []Shard) {
	for _, shard := range vacant {
		last := lastActing(before, shard)
		if _, ok := deputies[shard]; !ok && last != "" && last != placed.Homes[shard] {
			deputies[shard] = last
		}
	}
}

// lastActing is the member that P last named as acting: the deputy while there is one, else the
// home.
func lastActing(p Placement, shard Shard) Member {
	if deputy, ok := p.Deputies[shard]; ok {
		return deputy
	}
	home, _ := p.Home(shard)
	return home
}

func liveMembers(processes []Process) map[Member]bool {
	live := make(map[Member]bool)
	for _, process := range processes {
		if process.State == Serving {
			live[process.Member] = true
		}
	}
	return live
}
