package placement

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlaceHomes(t *testing.T) {
	cases := map[string]struct {
		shards     int
		before     []Member // homes in P
		expected   []Member
		wantCounts map[Member]int
		wantMoves  int
	}{
		"nobody expected": {
			shards: 4, wantCounts: map[Member]int{"": 4},
		},
		"one member has all": {
			shards: 5, expected: operators(1),
			wantCounts: map[Member]int{"redis-operator-0": 5},
		},
		"the larger quota goes by ordinal at first": {
			shards: 8, expected: []Member{"redis-operator-10", "redis-operator-9", "redis-operator-2"},
			wantCounts: map[Member]int{"redis-operator-2": 3, "redis-operator-9": 3, "redis-operator-10": 2},
		},
		"the larger quota stays with those that have most": {
			shards:     5,
			before:     []Member{"redis-operator-1", "redis-operator-1", "redis-operator-1", "redis-operator-0", "redis-operator-0"},
			expected:   operators(2),
			wantCounts: map[Member]int{"redis-operator-0": 2, "redis-operator-1": 3},
		},
		"the last member goes": {
			shards:     4,
			before:     []Member{"redis-operator-0", "redis-operator-1", "redis-operator-0", "redis-operator-1"},
			wantCounts: map[Member]int{"": 4},
			wantMoves:  4,
		},
		"more members than shards": {
			shards: 2, expected: operators(5),
			wantCounts: map[Member]int{
				"redis-operator-0": 1, "redis-operator-1": 1,
				"redis-operator-2": 0, "redis-operator-3": 0, "redis-operator-4": 0,
			},
		},
		"a home that is none of the members is given away": {
			shards: 2, before: []Member{"somebody-7", "redis-operator-0"}, expected: operators(1),
			wantCounts: map[Member]int{"redis-operator-0": 2}, wantMoves: 1,
		},
		"a name without ordinal comes last": {
			shards: 3, expected: []Member{"a", "z-0"},
			wantCounts: map[Member]int{"z-0": 2, "a": 1},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := New(settingsOf(tc.shards), Timings{})
			copy(p.Homes, tc.before)
			original := p.Clone()
			placed := Place(p, tc.expected)
			if diff := cmp.Diff(tc.wantCounts, homeCounts(placed)); diff != "" {
				t.Errorf("homes (-want +got):\n%s", diff)
			}
			if moved := p.Moves(placed); moved != tc.wantMoves || p.OptimalMoves(tc.expected) != tc.wantMoves {
				t.Errorf("moved %d, optimum %d, want %d", moved, p.OptimalMoves(tc.expected), tc.wantMoves)
			}
			if !p.Equal(original) {
				t.Errorf("Place changed its argument")
			}
		})
	}
}

// TestPlaceKeepsWhatIsPreferred pins the fixed order: of its homes a member keeps those that
// prefer it most.
func TestPlaceKeepsWhatIsPreferred(t *testing.T) {
	before := Place(New(settingsOf(64), Timings{}), operators(2))
	after := Place(before, operators(3))
	pref := newPreference(operators(3), 64)
	for member := range 2 {
		name := operators(2)[member]
		worstKept, bestGiven := -1, 99
		for _, shard := range before.HomesOf(name) {
			if rank := pref.rank(shard, member); after.Homes[shard] == name {
				worstKept = max(worstKept, rank)
			} else {
				bestGiven = min(bestGiven, rank)
			}
		}
		if worstKept > bestGiven {
			t.Errorf("%s kept a shard of rank %d and gave one of rank %d away", name, worstKept, bestGiven)
		}
	}
}

// TestPlaceInvalidSettings: Place never panics, whatever it is given.
func TestPlaceInvalidSettings(t *testing.T) {
	for _, p := range []Placement{
		{},
		{Settings: Settings{Shards: -1}},
		{Settings: Settings{Shards: 3}},
		{Settings: settingsOf(3), Homes: operators(9), Deputies: map[Shard]Member{-1: "x", 77: "y"}},
		{Settings: settingsOf(3), Processes: []Process{{State: Serving}, {Identity: "x", State: "?"}}},
	} {
		for _, members := range [][]Member{nil, operators(3), {"", "", "x", "-", "-1", "x-99999999999999999999"}} {
			placed := Place(p, members)
			if len(placed.Homes) != max(p.Shards, 0) {
				t.Errorf("%d homes for %d shards", len(placed.Homes), p.Shards)
			}
		}
	}
}

func TestScalingProperty(t *testing.T) {
	for _, shards := range []int{16, 64, 271, 1024} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			p := Place(New(settingsOf(shards), Timings{}), operators(1))
			for _, n := range upAndDown(50) {
				next := Place(p, operators(n))
				moved, optimum := p.Moves(next), naiveOptimum(p, operators(n))
				if moved != optimum || p.OptimalMoves(operators(n)) != optimum {
					t.Errorf("I4: to %d members: %d moved, %d must, OptimalMoves says %d",
						n, moved, optimum, p.OptimalMoves(operators(n)))
				}
				for member, homes := range homeCounts(next) {
					if homes < shards/n || homes > (shards+n-1)/n {
						t.Errorf("I4: %s has %d homes of %d with %d members", member, homes, shards, n)
					}
				}
				if reversed := operators(n); n%7 == 0 {
					slices.Reverse(reversed)
					if !Place(p, reversed).Equal(next) {
						t.Errorf("I3: the order of %d members matters", n)
					}
				}
				p = next
			}
		})
	}
}

// upAndDown is 2, 3 ... most, most-1 ... 1.
func upAndDown(most int) []int {
	var counts []int
	for n := 2; n <= most; n++ {
		counts = append(counts, n)
	}
	for n := most - 1; n >= 1; n-- {
		counts = append(counts, n)
	}
	return counts
}

// TestOptimalMovesByTrial compares the formula with a trial of every balanced assignment.
func TestOptimalMovesByTrial(t *testing.T) {
	const shards = 5
	for code := range 4 * 4 * 4 * 4 * 4 {
		before := New(settingsOf(shards), Timings{})
		for shard := range before.Homes {
			before.Homes[shard] = operators(4)[code>>(2*shard)&3]
		}
		for n := 1; n <= 4; n++ {
			best := shards
			tryBalanced(make([]Member, 0, shards), operators(n), shards, func(homes []Member) {
				best = min(best, before.Moves(Placement{Homes: homes}))
			})
			if got := before.OptimalMoves(operators(n)); got != best {
				t.Fatalf("%v to %d members: %d, by trial %d", before.Homes, n, got, best)
			}
		}
	}
}

func tryBalanced(homes, members []Member, shards int, try func([]Member)) {
	if len(homes) == shards {
		for _, member := range members {
			n := naiveCount(homes, member)
			if n < shards/len(members) || n > (shards+len(members)-1)/len(members) {
				return
			}
		}
		try(homes)
		return
	}
	for _, member := range members {
		tryBalanced(append(homes, member), members, shards, try)
	}
}

// TestRollingRestartProperty: a shard moves to a deputy and back, and nothing else moves.
func TestRollingRestartProperty(t *testing.T) {
	for _, shards := range []int{16, 64, 256, 1024} {
		for _, n := range []int{3, 5, 8} {
			for _, kind := range []string{"graceful", "killed", "container"} {
				t.Run(fmt.Sprintf("%d shards, %d members, %s", shards, n, kind), func(t *testing.T) {
					rollingRestart(t, shards, n, kind)
				})
			}
		}
	}
}

func rollingRestart(t *testing.T, shards, n int, kind string) {
	c := newCluster(t, shards, n)
	c.start(operators(n)...)
	homes, moves, last := c.p.Homes, make([]int, shards), acting(c.p)
	note := func() {
		if !slices.Equal(c.p.Homes, homes) {
			t.Errorf("I4: a restart moved homes")
		}
		for shard, member := range acting(c.p) {
			if member != last[shard] {
				moves[shard]++
				last[shard] = member
			}
		}
	}
	for _, member := range slices.Backward(operators(n)) {
		if kind == "graceful" {
			c.record(member, Leaving)
			note()
		}
		if kind == "container" {
			c.current[member] += "x"
			c.record(member, Joining)
		} else {
			c.kill(member, Confirmed)
			note()
			c.join(member)
		}
		note()
		checkDeputyBound(t, c.p)
		c.record(member, Serving)
		note()
	}
	if most := slices.Max(moves); most > 2 {
		t.Errorf("I4: a shard moved %d times", most)
	}
	if !slices.Equal(acting(c.p), homes) || len(c.p.Deputies) > 0 {
		t.Errorf("not all shards are home again")
	}
}

func checkDeputyBound(t *testing.T, p Placement) {
	t.Helper()
	load := make(map[Member]int)
	for _, member := range acting(p) {
		load[member]++
	}
	for member, n := range load {
		if bound := (p.Shards + len(load) - 1) / len(load); n > bound {
			t.Errorf("%s acts for %d shards, ceil(S/live) is %d", member, n, bound)
		}
	}
}

func TestDeputies(t *testing.T) {
	const last = Member("redis-operator-2")
	t.Run("a member that never starts moves no claim", func(t *testing.T) {
		c := newCluster(t, 64, 3)
		c.start(operators(3)...)
		before := acting(c.p)
		for n := 4; n <= 50; n++ {
			c.scale(n)
			if moved := differences(before, acting(c.p)); moved > 0 {
				t.Fatalf("%d claims moved for %d members of which 3 are live", moved, n)
			}
		}
		c.join("redis-operator-3")
		if moved := differences(before, acting(c.p)); moved > 0 {
			t.Fatalf("%d claims moved for a member that is joining", moved)
		}
		c.record("redis-operator-3", Serving)
		if moved, homes := differences(before, acting(c.p)), len(c.p.HomesOf("redis-operator-3")); moved != homes || homes == 0 {
			t.Errorf("%d claims moved, %d homes", moved, homes)
		}
	})
	t.Run("a deputy goes on when others return", func(t *testing.T) {
		c := newCluster(t, 64, 4)
		c.start(operators(4)...)
		c.kill(last, Expired)
		c.kill("redis-operator-3", Expired)
		deputies := maps.Clone(c.p.Deputies)
		c.start("redis-operator-3")
		for _, shard := range c.p.HomesOf(last) {
			if c.p.Deputies[shard] != deputies[shard] {
				t.Errorf("shard %d went from deputy %s to %s", shard, deputies[shard], c.p.Deputies[shard])
			}
		}
	})
}

func TestActingAtTheEdges(t *testing.T) {
	const last = Member("redis-operator-2")
	t.Run("nobody is live", func(t *testing.T) {
		c := newCluster(t, 64, 3)
		c.start(operators(3)...)
		c.kill(last, Confirmed)
		deputies := maps.Clone(c.p.Deputies)
		c.kill("redis-operator-1", Confirmed)
		c.kill("redis-operator-0", Confirmed)
		for shard := range Shard(64) {
			if member, ok := c.p.Acting(shard); ok {
				t.Fatalf("shard %d: %s acts", shard, member)
			}
		}
		c.start("redis-operator-0")
		for shard := range Shard(64) {
			if member, _ := c.p.Acting(shard); member != "redis-operator-0" {
				t.Fatalf("I2: shard %d: %q acts", shard, member)
			}
		}
		c.start(last)
		for shard, deputy := range deputies {
			if member, _ := c.p.Acting(shard); member != last {
				t.Errorf("shard %d is not home with %s again but with %s, before with %s", shard, last, member, deputy)
			}
		}
	})
	t.Run("a member that is no longer expected goes on until the new home is live", func(t *testing.T) {
		c := newCluster(t, 64, 3)
		c.start("redis-operator-0", last)
		before := acting(c.p)
		c.scale(2)
		for shard := range Shard(64) {
			home, _ := c.p.Home(shard)
			now, _ := c.p.Acting(shard)
			if home == "redis-operator-1" && now != before[shard] {
				t.Errorf("shard %d went from %s to %s", shard, before[shard], now)
			}
		}
		c.record(last, Leaving)
		for shard := range Shard(64) {
			if now, _ := c.p.Acting(shard); now != "redis-operator-0" {
				t.Errorf("I2: shard %d: %q acts", shard, now)
			}
		}
	})
	t.Run("scaled to nothing and back", func(t *testing.T) {
		c := newCluster(t, 64, 3)
		c.start(operators(3)...)
		before := acting(c.p)
		c.scale(0)
		if moved := differences(before, acting(c.p)); moved > 0 {
			t.Errorf("%d claims moved while all three live on", moved)
		}
		c.scale(3)
		if !slices.Equal(acting(c.p), c.p.Homes) {
			t.Errorf("not all shards are home")
		}
	})
}

func TestLive(t *testing.T) {
	c := newCluster(t, 16, 1)
	const member = Member("redis-operator-0")
	c.start(member)
	old := c.current[member]
	c.join(member) // another Pod of the same name: the first may still run
	if got, _ := c.p.Live(member); got != old {
		t.Errorf("live is %q while the new one is joining, want %q", got, old)
	}
	c.record(member, Serving)
	if got, _ := c.p.Live(member); got != c.current[member] {
		t.Errorf("live is %q, want the newest %q", got, c.current[member])
	}
	if got := len(c.p.ActingFor(c.current[member])); got != 16 {
		t.Errorf("the newest acts for %d shards", got)
	}
	if got := c.p.ActingFor(old); got != nil {
		t.Errorf("the older acts for %v", got)
	}
	c.kill(member, Confirmed)
	if got, _ := c.p.ActingIdentity(3); got != old {
		t.Errorf("acting is %q after the newest died, want %q", got, old)
	}
}
