package placement

import (
	"testing"
)

// costsOf gives every shard the same cost but for those listed.
func costsOf(shards, objects int, others map[Shard]int) map[Shard]Cost {
	costs := make(map[Shard]Cost, shards)
	for shard := range Shard(shards) {
		costs[shard] = Cost{Objects: objects}
	}
	for shard, objects := range others {
		costs[shard] = Cost{Objects: objects}
	}
	return costs
}

func TestFold(t *testing.T) {
	plain := Place(New(settingsOf(8), Timings{}), operators(2))
	folded := plain.Fold(costsOf(8, 100, nil))
	first := folded.HomesOf("redis-operator-0")
	missing := costsOf(8, 100, nil)
	delete(missing, 3)
	cases := map[string]struct {
		p           Placement
		costs       map[Shard]Cost
		wantChanged bool
		wantMoves   bool
		wantWeight  map[Shard]int64
	}{
		"the first weights":                {plain, costsOf(8, 100, nil), true, false, map[Shard]int64{0: 100}},
		"not before all are known":         {plain, missing, false, false, nil},
		"none at all":                      {plain, nil, false, false, nil},
		"nothing to speak of":              {plain, costsOf(8, 3, nil), false, false, nil},
		"enough to speak of":               {plain, costsOf(8, 4, nil), true, false, map[Shard]int64{0: 4}},
		"what is missing stays":            {folded, map[Shard]Cost{3: {Objects: 900}}, true, true, map[Shard]int64{2: 100, 3: 896}},
		"noise":                            {folded, costsOf(8, 105, map[Shard]int{1: 96}), false, false, nil},
		"all twice as heavy":               {folded, costsOf(8, 200, nil), true, false, map[Shard]int64{0: 200}},
		"almost empty later on":            {folded, costsOf(8, 1, nil), true, false, map[Shard]int64{0: 1}},
		"two of one member become heavier": {folded, costsOf(8, 100, map[Shard]int{first[0]: 400, first[1]: 400}), true, true, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			original := tc.p.Clone()
			next := tc.p.Fold(tc.costs)
			if !tc.p.Equal(original) {
				t.Errorf("Fold changed its receiver")
			}
			if changed := !next.Equal(tc.p); changed != tc.wantChanged {
				t.Errorf("changed %v, want %v", changed, tc.wantChanged)
			}
			if moved := tc.p.Moves(next); (moved > 0) != tc.wantMoves {
				t.Errorf("%d homes moved, want any: %v", moved, tc.wantMoves)
			}
			for shard, want := range tc.wantWeight {
				if got := next.Weights[shard]; got != want {
					t.Errorf("shard %d weighs %d, want %d", shard, got, want)
				}
			}
			if err := next.Validate(); err != nil {
				t.Error(err)
			}
			if again := next.Fold(tc.costs); !again.Equal(next) {
				t.Errorf("folding the same costs again changes something")
			}
		})
	}
}

func TestCost(t *testing.T) {
	cases := map[string]struct {
		a, b       Cost
		wantWeight int64 // of a
		wantNear   bool
	}{
		"nothing weighs something":  {Cost{}, Cost{Objects: 3}, 1, true},
		"objects and time":          {Cost{Objects: 20, Milliseconds: 1500}, Cost{Objects: 35}, 35, true},
		"a few of few":              {Cost{Objects: 3}, Cost{Objects: 6}, 3, false},
		"a few of many":             {Cost{Objects: 320}, Cost{Objects: 330}, 320, true},
		"many of many":              {Cost{Objects: 320}, Cost{Objects: 331}, 320, false},
		"more than a weight can be": {Cost{Objects: 1 << 40}, Cost{Objects: 1 << 41}, MaxWeight, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.a.Weight(); got != tc.wantWeight {
				t.Errorf("weight %d, want %d", got, tc.wantWeight)
			}
			if tc.a.IsNear(tc.b) != tc.wantNear || tc.b.IsNear(tc.a) != tc.wantNear {
				t.Errorf("near is not %v both ways", tc.wantNear)
			}
		})
	}
}

// TestSteps: a weight in P differs from the cost by no more than 1/64.
func TestSteps(t *testing.T) {
	for weight := int64(1); weight < 100_000; weight += 1 + weight/50 {
		if got := steps(weight); max(got-weight, weight-got)*64 > weight {
			t.Errorf("%d becomes %d", weight, got)
		}
	}
}
