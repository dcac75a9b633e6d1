package placement

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// weightsOf draws weights of a kind that installations have.
func weightsOf(random *rand.Rand, kind string, shards int) map[Shard]int64 {
	weights := make(map[Shard]int64, shards)
	for shard := range Shard(shards) {
		switch kind {
		case "equal":
			weights[shard] = 7
		case "uniform":
			weights[shard] = 1 + random.Int64N(100)
		case "giant":
			weights[shard] = 1 + random.Int64N(10)
		case "zipf":
			weights[shard] = int64(2000 / math.Pow(float64(1+shard), 1.1))
		}
	}
	if kind == "giant" {
		weights[Shard(random.IntN(shards))] = 5000
	}
	order := random.Perm(shards)
	shuffled := make(map[Shard]int64, shards)
	for i, shard := range order {
		shuffled[Shard(shard)] = weights[Shard(i)]
	}
	return shuffled
}

var weightKinds = []string{"equal", "uniform", "giant", "zipf"}

// weightsByMember sums up plainly what each expected member has.
func weightsByMember(p Placement) map[Member]int64 {
	loads := make(map[Member]int64)
	for _, member := range p.Expected {
		loads[member] = 0
	}
	for shard, home := range p.Homes {
		loads[home] += max(1, p.Weights[Shard(shard)])
	}
	return loads
}

// meanOrHeaviest is what the bound of I4 is a multiple of.
func meanOrHeaviest(p Placement) float64 {
	total, heaviest := int64(0), int64(0)
	for shard := range Shard(p.Shards) {
		weight := max(1, p.Weights[shard])
		total += weight
		heaviest = max(heaviest, weight)
	}
	return max(float64(total)/float64(len(p.Expected)), float64(heaviest))
}

// checkWeightBound is I4 with weights: no member is over the bound, but for those that no single
// move and no swap of two shards can make lighter without making another as heavy.
func checkWeightBound(t *testing.T, p Placement) {
	t.Helper()
	loads := weightsByMember(p)
	bound := WeightBound * meanOrHeaviest(p)
	for member, load := range loads {
		if float64(load) <= bound {
			continue
		}
		if hint := improvement(p, loads, member); hint != "" {
			t.Errorf("I4: %s weighs %d, over the bound of %.1f, and %s", member, load, bound, hint)
		}
	}
}

func improvement(p Placement, loads map[Member]int64, member Member) string {
	own := p.HomesOf(member)
	heaviest := slices.MaxFunc(own, func(a, b Shard) int {
		return int(p.weightOf(a)-p.weightOf(b))*p.Shards + int(b-a)
	})
	for _, out := range own {
		if out == heaviest {
			continue
		}
		for other, load := range loads {
			if other != member && load+p.weightOf(out) < loads[member] {
				return fmt.Sprintf("shard %d could go to %s", out, other)
			}
			for _, back := range p.HomesOf(other) {
				net := p.weightOf(out) - p.weightOf(back)
				if other != member && net > 0 && load+net < loads[member] {
					return fmt.Sprintf("shard %d could be swapped for %d of %s", out, back, other)
				}
			}
		}
	}
	return ""
}

func withWeights(p Placement, weights map[Shard]int64) Placement {
	p = p.Clone()
	p.Weights = weights
	return p
}

// TestWeightedScaling goes through random numbers of members and changes of weights.
func TestWeightedScaling(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 11)) //nolint:gosec // G404: a test that can be repeated
		shards := []int{1, 7, 64, 200}[random.IntN(4)]
		kind := weightKinds[random.IntN(len(weightKinds))]
		p := withWeights(New(settingsOf(shards), Timings{}), weightsOf(random, kind, shards))
		for range 15 {
			before := p
			switch random.IntN(3) {
			case 0:
				kind = weightKinds[random.IntN(len(weightKinds))]
				before = withWeights(before, weightsOf(random, kind, shards))
				p = Place(before, before.Expected)
			case 1:
				before = withWeights(before, jitter(random, before.Weights))
				p = Place(before, before.Expected)
			default:
				p = Place(p, operators(random.IntN(20)))
			}
			if len(p.Expected) > 0 {
				checkWeightBound(t, p)
				checkWeightedMoves(t, before, p)
			}
			checkAgreement(t, random, p)
			if again := Place(p, p.Expected); !again.Equal(p) {
				t.Errorf("placing twice differs:\n%s", cmp.Diff(p, again))
			}
			if t.Failed() {
				t.Fatalf("seed %d: %d shards of kind %s, from %d to %d members", seed, shards, kind,
					len(before.Expected), len(p.Expected))
			}
		}
	}
}

func jitter(random *rand.Rand, weights map[Shard]int64) map[Shard]int64 {
	changed := maps.Clone(weights)
	for shard := range Shard(len(weights)) {
		changed[shard] += changed[shard] * random.Int64N(20) / 100
	}
	return changed
}

// checkWeightedMoves holds Place to the greedy bound: homeless shards, what fills new members, and
// from members over the limit no more than brings them within it.
func checkWeightedMoves(t *testing.T, before, after Placement) {
	t.Helper()
	loads, limit := weightsByMember(after), int64(1.10*math.Ceil(meanOrHeaviest(after)))
	was := make(map[Member]int64)
	for shard, home := range before.Homes {
		was[home] += after.weightOf(Shard(shard))
	}
	gave, got := make(map[Member][]int64), make(map[Member]int)
	newcomers, housed := false, true
	for _, member := range after.Expected {
		newcomers = newcomers || !before.IsExpected(member)
	}
	for shard, home := range after.Homes {
		from := before.Homes[shard]
		if housed = housed && after.IsExpected(from); from != home && after.IsExpected(from) {
			gave[from] = append(gave[from], after.weightOf(Shard(shard)))
		}
		if from != home {
			got[home]++
		}
	}
	if newcomers || !housed {
		return // what is homeless moves in any case, and what fills a new member may be of anybody
	}
	for member, weights := range gave {
		if was[member] <= limit && got[member] == 0 {
			t.Errorf("I4: %s was within the limit and gave up %v", member, weights)
		}
		// With a grain for rounding: a member that only gave cannot take its lightest back.
		if got[member] == 0 && float64(loads[member]+slices.Min(weights)) < 0.99*float64(limit) {
			t.Errorf("I4: %s gave up %v though less would do: it has %d of %d", member, weights, loads[member], limit)
		}
	}
}

// TestWeightedHistories: what processes do moves no home, and shards are served, with weights too.
func TestWeightedHistories(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 13)) //nolint:gosec // G404: a test that can be repeated
		shards := []int{5, 16, 64}[random.IntN(3)]
		c := newCluster(t, shards, 1+random.IntN(8))
		c.p = withWeights(c.p, weightsOf(random, weightKinds[random.IntN(4)], shards))
		c.p = Place(c.p, c.p.Expected)
		for step := range 60 {
			before := c.p
			what := randomStep(c, random)
			checkAgreement(t, random, c.p)
			checkHistory(t, before, c.p)
			if again := Place(c.p, c.p.Expected); !again.Equal(c.p) {
				t.Errorf("placing twice differs:\n%s", cmp.Diff(c.p, again))
			}
			if t.Failed() {
				t.Fatalf("seed %d, %d shards, step %d: %s", seed, shards, step, what)
			}
		}
	}
}

// TestWeightedNewMember: who joins gets a share, even where the heaviest shard alone sets the bound.
func TestWeightedNewMember(t *testing.T) {
	for _, kind := range weightKinds {
		random := rand.New(rand.NewPCG(3, 3)) //nolint:gosec // G404: a test that can be repeated
		p := withWeights(New(settingsOf(64), Timings{}), weightsOf(random, kind, 64))
		p = Place(p, operators(2))
		for n := 3; n <= 20; n++ {
			p = Place(p, operators(n))
			level := waterLevel(slices.Collect(maps.Values(p.Weights)), n)
			if load := weightsByMember(p)[operators(n)[n-1]]; float64(load) < 0.5*float64(level) {
				t.Errorf("%s: member %d of %d weighs %d, an even share is %d", kind, n, n, load, level)
			}
			checkWeightBound(t, p)
		}
	}
}

func TestWaterLevel(t *testing.T) {
	cases := map[string]struct {
		weights []int64
		members int
		want    int64
	}{
		"even":                     {[]int64{3, 3, 3, 3}, 2, 6},
		"one fills a member":       {[]int64{90, 5, 5, 10}, 3, 10},
		"the next does then":       {[]int64{90, 30, 5, 5}, 3, 10},
		"one member has all":       {[]int64{90, 30}, 1, 120},
		"more members than shards": {[]int64{4}, 3, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := waterLevel(tc.weights, tc.members); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

// held is a placement where each member has homes of the given weights, numbered in this order.
func held(members ...[]int64) Placement {
	shards := 0
	for _, weights := range members {
		shards += len(weights)
	}
	p := withWeights(New(settingsOf(shards), Timings{}), make(map[Shard]int64))
	p.Expected = operators(len(members))
	shard := Shard(0)
	for member, weights := range members {
		for _, weight := range weights {
			p.Homes[shard], p.Weights[shard] = p.Expected[member], weight
			shard++
		}
	}
	return p
}

// TestWeightedGreed pins which shards a member over the limit gives up.
func TestWeightedGreed(t *testing.T) {
	cases := map[string]struct {
		p    Placement
		want []Shard // that move
	}{
		"within the limit":             {held([]int64{60, 40}, []int64{50, 40}), nil},
		"the lightest that suffices":   {held([]int64{100, 40, 25, 22, 4}, []int64{60, 60}), []Shard{3}},
		"the heaviest while none does": {held([]int64{100, 40, 20, 8}, []int64{50}), []Shard{1, 2}},
		"a giant stays where it is":    {held([]int64{500, 30, 30, 30, 3}, []int64{20}, []int64{20}), []Shard{1, 2}},
		"two giants part":              {held([]int64{500, 400, 1}, []int64{20}, []int64{30}), []Shard{1}},
		"nothing to be done":           {held([]int64{10, 10}, []int64{10}), nil},
		// No shard fits anywhere else, and no swap of one for one is enough.
		"several come back for one": {
			held([]int64{880, 560}, []int64{296, 148, 102, 92, 90, 66, 60, 54, 50, 45, 40, 36, 30, 27, 15, 5}, []int64{1185}, []int64{1185}),
			[]Shard{1, 2, 3},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			after := Place(tc.p, tc.p.Expected)
			var moved []Shard
			for shard, home := range after.Homes {
				if home != tc.p.Homes[shard] {
					moved = append(moved, Shard(shard))
				}
			}
			if diff := cmp.Diff(tc.want, moved); diff != "" {
				t.Errorf("moved (-want +got):\n%s\n%v", diff, weightsByMember(after))
			}
		})
	}
}

// TestWeightedDeputies: shards whose home is away are spread by weight.
func TestWeightedDeputies(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5)) //nolint:gosec // G404: a test that can be repeated
	c := newCluster(t, 64, 5)
	c.start(operators(5)...)
	c.p = withWeights(c.p, weightsOf(random, "uniform", 64))
	c.p = Place(c.p, c.p.Expected)
	homes := slices.Clone(c.p.Homes)
	c.kill("redis-operator-3", Expired)
	if !slices.Equal(homes, c.p.Homes) {
		t.Errorf("I4: a death moved homes")
	}
	loads, total, heaviest := make(map[Member]int64), int64(0), int64(0)
	for shard, member := range acting(c.p) {
		loads[member] += c.p.weightOf(Shard(shard))
		total += c.p.weightOf(Shard(shard))
	}
	for _, shard := range c.p.HomesOf("redis-operator-3") {
		heaviest = max(heaviest, c.p.weightOf(shard))
	}
	for member, load := range loads {
		if load > total/4+heaviest/2 {
			t.Errorf("%s acts for %d of %d, the heaviest shard that was vacant weighs %d", member, load, total, heaviest)
		}
	}
}
