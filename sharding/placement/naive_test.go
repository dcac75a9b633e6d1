package placement

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// naivePlace says what Place must compute, in the plainest way: whole lists, linear searches,
// nothing computed on demand. It shares the order of preference alone.
func naivePlace(p Placement, expected []Member) Placement {
	members := naiveSort(expected)
	orders := naiveOrders(members, p.Shards)
	result := p.Clone()
	result.Expected, result.Homes = members, naiveHomes(p, members, orders)
	result.Deputies = naiveDeputies(p, result, orders)
	return result
}

func naiveSort(expected []Member) []Member {
	var members []Member
	for ordinal := range 100 {
		for _, member := range expected {
			number := string(member)[strings.LastIndex(string(member), "-")+1:]
			if number == strconv.Itoa(ordinal) && !slices.Contains(members, member) {
				members = append(members, member)
			}
		}
	}
	return members
}

func naiveOrders(members []Member, shards int) [][]Member {
	orders := make([][]Member, shards)
	pref := newPreference(members, shards)
	for shard := range orders {
		for _, i := range orderOf(pref, Shard(shard)) {
			orders[shard] = append(orders[shard], members[i])
		}
	}
	return orders
}

func naiveHomes(p Placement, members []Member, orders [][]Member) []Member {
	homes := make([]Member, p.Shards)
	quota := naiveQuotas(p, members)
	for _, member := range members {
		for range quota[member] {
			best := -1
			for shard, home := range p.Homes {
				if home != member || homes[shard] != "" {
					continue
				}
				if best < 0 || slices.Index(orders[shard], member) < slices.Index(orders[best], member) {
					best = shard
				}
			}
			if best >= 0 {
				homes[best] = member
			}
		}
	}
	for shard := range homes {
		for _, member := range orders[shard] {
			if homes[shard] == "" && naiveCount(homes, member) < quota[member] {
				homes[shard] = member
			}
		}
	}
	return homes
}

func naiveQuotas(p Placement, members []Member) map[Member]int {
	quota := make(map[Member]int)
	for _, member := range members {
		quota[member] = p.Shards / len(members)
	}
	for i := 0; len(members) > 0 && i < p.Shards%len(members); i++ {
		chosen := Member("")
		for _, member := range members {
			if quota[member] > p.Shards/len(members) {
				continue
			}
			if chosen == "" || naiveCount(p.Homes, member) > naiveCount(p.Homes, chosen) {
				chosen = member
			}
		}
		quota[chosen]++
	}
	return quota
}

func naiveCount(homes []Member, member Member) int {
	n := 0
	for _, home := range homes {
		if home == member {
			n++
		}
	}
	return n
}

func naiveDeputies(before, placed Placement, orders [][]Member) map[Shard]Member {
	last := func(shard int) Member {
		if deputy, ok := before.Deputies[Shard(shard)]; ok {
			return deputy
		}
		return before.Homes[shard]
	}
	result, load := make(map[Shard]Member), make(map[Member]int)
	for shard, home := range placed.Homes {
		if placed.isLive(home) {
			load[home]++
		} else if placed.isLive(last(shard)) {
			result[Shard(shard)] = last(shard)
			load[last(shard)]++
		}
	}
	pool := slices.DeleteFunc(slices.Clone(placed.Expected), func(m Member) bool { return !placed.isLive(m) })
	if len(pool) == 0 {
		for _, process := range placed.Processes {
			if process.State == Serving {
				pool = append(pool, process.Member)
			}
		}
		pool = naiveSort(pool)
		orders = naiveOrders(pool, placed.Shards)
	}
	for shard, home := range placed.Homes {
		if _, ok := result[Shard(shard)]; ok || placed.isLive(home) {
			continue
		}
		for _, member := range orders[shard] {
			if slices.Contains(pool, member) && load[member]*len(pool) < placed.Shards {
				result[Shard(shard)] = member
				load[member]++
				break
			}
		}
		if _, ok := result[Shard(shard)]; !ok && last(shard) != "" && last(shard) != home {
			result[Shard(shard)] = last(shard)
		}
	}
	if len(result) == 0 {
		return nil
	}
	return result
}

// TestHistoriesProperty drives random histories of scaling, starts, stops, deaths and rejoins, and
// checks after each step all that must hold of any placement.
func TestHistoriesProperty(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // G404: a test that can be repeated
		shards := []int{1, 5, 16, 64, 100}[random.IntN(5)]
		c := newCluster(t, shards, 1+random.IntN(8))
		for step := range 60 {
			before := c.p
			what := randomStep(c, random)
			if t.Failed() {
				t.Fatalf("seed %d step %d: %s", seed, step, what)
			}
			checkPlacement(t, random, before, c.p)
			if t.Failed() {
				t.Fatalf("seed %d, %d shards, step %d: %s", seed, shards, step, what)
			}
		}
	}
}

func randomStep(c *cluster, random *rand.Rand) string {
	member := operators(10)[random.IntN(10)]
	identity := c.current[member]
	entry, _ := c.p.Process(identity)
	switch choice := random.IntN(10); {
	case choice == 0:
		n := random.IntN(10)
		c.scale(n)
		return "scale to " + strconv.Itoa(n)
	case choice == 1 && identity != "" && entry.State != Dead:
		// The container restarts in its Pod.
		c.current[member] = identity + "x"
		c.record(member, Joining)
		return "restart " + string(member)
	case choice <= 3:
		c.join(member)
		return "join " + string(member)
	case choice <= 6 && entry.State == Joining:
		c.record(member, Serving)
		return "serve " + string(member)
	case choice <= 7 && entry.State == Serving:
		c.record(member, Leaving)
		return "leave " + string(member)
	case choice == 8 && entry.State != "" && entry.State != Dead:
		c.kill(member, Expired)
		return "kill " + string(member)
	default:
		c.p = c.p.Prune(noLease, true)
		return "prune"
	}
}

func checkPlacement(t *testing.T, random *rand.Rand, before, after Placement) {
	t.Helper()
	checkAgreement(t, random, after)
	checkStability(t, before, after)
	if again := Place(after, after.Expected); !again.Equal(after) {
		t.Errorf("placing twice differs:\n%s", cmp.Diff(after, again))
	}
	// What the transition did to the states is not in question here, only what Place made of it.
	unplaced := after.Clone()
	unplaced.Homes, unplaced.Deputies = before.Homes, before.Deputies
	if diff := cmp.Diff(naivePlace(unplaced, after.Expected), Place(unplaced, after.Expected)); diff != "" {
		t.Errorf("the reference (-) and Place (+) differ:\n%s", diff)
	}
	data, err := Encode(after)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := Decode(data); err != nil || !back.Equal(after) {
		t.Errorf("decoding what was encoded: %v\n%s", err, cmp.Diff(after, back))
	}
}

// checkAgreement is I3: the order in which the inputs come changes nothing.
func checkAgreement(t *testing.T, random *rand.Rand, p Placement) {
	t.Helper()
	shuffled := p.Clone()
	random.Shuffle(len(shuffled.Expected), func(i, j int) {
		shuffled.Expected[i], shuffled.Expected[j] = shuffled.Expected[j], shuffled.Expected[i]
	})
	random.Shuffle(len(shuffled.Processes), func(i, j int) {
		shuffled.Processes[i], shuffled.Processes[j] = shuffled.Processes[j], shuffled.Processes[i]
	})
	placed := Place(shuffled, append(shuffled.Expected, shuffled.Expected...))
	if !slices.Equal(placed.Homes, p.Homes) || !maps.Equal(placed.Deputies, p.Deputies) {
		t.Errorf("I3: another order of the inputs gives another placement:\n%s", cmp.Diff(p, placed))
	}
}

// checkStability is I4 and the part of I2 that placement answers for.
func checkStability(t *testing.T, before, after Placement) {
	t.Helper()
	checkHistory(t, before, after)
	if moved, optimum := before.Moves(after), naiveOptimum(before, after.Expected); moved != optimum {
		t.Errorf("I4: %d homes moved, %d must", moved, optimum)
	}
	for member, homes := range homeCounts(after) {
		if n := len(after.Expected); n > 0 && (homes < after.Shards/n || homes > (after.Shards+n-1)/n) {
			t.Errorf("I4: %s has %d homes of %d with %d members", member, homes, after.Shards, n)
		}
	}
}

// checkHistory is what holds of every transition, with weights or without.
func checkHistory(t *testing.T, before, after Placement) {
	t.Helper()
	if slices.Equal(before.Expected, after.Expected) && !slices.Equal(before.Homes, after.Homes) {
		t.Errorf("I4: homes moved without a change of members")
	}
	someLive := slices.ContainsFunc(after.Processes, func(e Process) bool { return e.State == Serving })
	for shard := range Shard(after.Shards) {
		was, wasActing := before.Acting(shard)
		now, isActing := after.Acting(shard)
		if isActing != someLive {
			t.Errorf("I2: shard %d: acting %v though some member is live %v", shard, isActing, someLive)
		}
		home, _ := after.Home(shard)
		if wasActing && after.isLive(was) && !after.isLive(home) && now != was {
			t.Errorf("shard %d goes from %s to %s though the first is live and the home %s is not", shard, was, now, home)
		}
	}
}

// naiveOptimum is the least number of homes that must move, by counting: of the held homes each
// member keeps the smaller quota, and as many members one more as there are larger quotas.
func naiveOptimum(before Placement, expected []Member) int {
	housed := len(before.Homes) - naiveCount(before.Homes, "")
	if len(expected) == 0 {
		return housed
	}
	q, r := before.Shards/len(expected), before.Shards%len(expected)
	for _, member := range expected {
		have := naiveCount(before.Homes, member)
		housed -= min(have, q)
		if have > q && r > 0 {
			housed--
			r--
		}
	}
	return housed
}
