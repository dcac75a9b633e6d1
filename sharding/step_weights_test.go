package sharding

import (
	"maps"
	"testing"
	"time"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/placement"
)

func costs(objects ...int) map[Shard]placement.Cost {
	costs := map[Shard]placement.Cost{}
	for shard, n := range objects {
		costs[Shard(shard)] = placement.Cost{Objects: n}
	}
	return costs
}

// holder is a process that acts for shard 0 and holds it, and has published what it costs.
func holder(t *testing.T) *script {
	return newScript(t).joined().step(s0(t, "10"), Warmed{Shard: 0, Seq: 1},
		ClaimChanged{Shard: 0, Type: claim.Acquired, Epoch: "11"}, CostsMeasured{Costs: costs(100, 7)})
}

func s0(t *testing.T, version string) PlacementSeen { return newScript(t).place(version, bothServe()) }

func (s *script) lastPublished(t *testing.T) map[Shard]placement.Cost {
	t.Helper()
	if len(s.publish) == 0 {
		t.Fatal("nothing was published")
	}
	last := s.publish[len(s.publish)-1]
	if last.Urgent {
		t.Errorf("costs are urgent")
	}
	return last.Costs
}

func TestCostsArePublishedWhereTheyMatter(t *testing.T) {
	s := holder(t)
	if got, want := s.lastPublished(t), costs(100); !maps.Equal(got, want) {
		t.Errorf("published %v, want %v: shard 1 is not held", got, want)
	}
	before := len(s.publish)
	s.step(CostsMeasured{Costs: costs(102, 50)})
	if len(s.publish) != before {
		t.Errorf("noise was published: %v", s.lastPublished(t))
	}
	s.step(CostsMeasured{Costs: costs(120, 50)})
	if got, want := s.lastPublished(t), costs(120); !maps.Equal(got, want) {
		t.Errorf("published %v, want %v", got, want)
	}
	s.step(ClaimChanged{Shard: 0, Type: claim.Lost, Epoch: "11"}, CostsMeasured{Costs: costs(120, 50)})
	if got := s.lastPublished(t); len(got) != 0 {
		t.Errorf("published %v of a shard that is lost", got)
	}
}

// other has the other process publish what shard 1 costs.
func other(objects int) PresenceSeen {
	return PresenceSeen{Identity: otherID, Version: "6", Placement: "10", Costs: map[Shard]placement.Cost{1: {Objects: objects}}}
}

// writtenWeights returns the weights in the P that the last step writes; nil if it writes none.
func (s *script) writtenWeights() map[Shard]int64 {
	for _, action := range s.actions {
		if write, ok := action.(WritePlacement); ok {
			return write.Placement.Weights
		}
	}
	return nil
}

func TestWeightsAreFoldedAtMostEveryFiveMinutes(t *testing.T) {
	s := holder(t)
	if got := s.pass(299 * time.Second).step(other(40)).writtenWeights(); got != nil {
		t.Fatalf("folded %v before five minutes have passed", got)
	}
	want := map[Shard]int64{0: 100, 1: 40}
	if got := s.pass(time.Second).step(Tick{}).writtenWeights(); !maps.Equal(got, want) {
		t.Fatalf("folded %v, want %v", got, want)
	}
	stored := s0(t, "12")
	stored.Placement.Weights = want
	s.step(stored, PlacementWritten{}, other(90))
	if got := s.pass(299 * time.Second).step(Tick{}).writtenWeights(); got != nil {
		t.Fatalf("folded %v less than five minutes after the last time", got)
	}
	if got := s.pass(time.Second).step(Tick{}).writtenWeights(); got[1] != 90 {
		t.Errorf("folded %v, want 90 for shard 1", got)
	}
}

func TestWhoFolds(t *testing.T) {
	cases := map[string]struct {
		arrange func(s *script)
		last    Event
		want    bool
	}{
		"the home of shard 0":      {func(*script) {}, Tick{}, true},
		"not while it is to stop":  {func(*script) {}, Stopping{}, false},
		"not before all are known": {func(s *script) { s.step(PresenceSeen{Identity: otherID, Version: "7", Placement: "10"}) }, Tick{}, false},
		"not another's": {func(s *script) {
			p := s.place("12", bothServe())
			p.Placement.Homes = []Member{"op-1", "op-0"}
			s.step(p)
		}, Tick{}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := holder(t).step(other(40))
			tc.arrange(s)
			if got := s.pass(6 * time.Minute).step(tc.last).writtenWeights(); (got != nil) != tc.want {
				t.Errorf("folded %v, want any: %v", got, tc.want)
			}
		})
	}
}

// TestPublishedCostsPreferWhoActs: during a handover two processes have measured a shard.
func TestPublishedCostsPreferWhoActs(t *testing.T) {
	s := holder(t)
	s.step(PresenceSeen{Identity: otherID, Version: "6", Placement: "10", Costs: costs(900, 40)})
	s.step(PresenceSeen{Identity: "op-1_uid1_n0", Version: "8", Placement: "9", Costs: map[Shard]placement.Cost{0: {Objects: 7}, 1: {Objects: 77}, 9: {}}})
	for range 20 { // whatever the order in which presences are looked at
		if got, want := s.m.publishedCosts(), costs(100, 40); !maps.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

func TestCostMeter(t *testing.T) {
	meter, now := newCostMeter(time.Minute), time.Unix(1000, 0)
	if meter.isDue(now) || meter.isDue(now.Add(59*time.Second)) || !meter.isDue(now.Add(time.Minute)) {
		t.Fatal("a measurement is not due after a minute")
	}
	for range 60 {
		now = now.Add(2 * time.Minute)
		meter.reconciled(1, 6*time.Second)
		got := meter.measure(now, 2, map[Shard]int{0: 3, 1: 5})
		if got[0] != (placement.Cost{Objects: 3}) || got[1].Objects != 5 || got[1].Milliseconds > 3000 {
			t.Fatalf("measured %v", got)
		}
	}
	if got := meter.measure(now.Add(time.Minute), 2, nil)[1].Milliseconds; got < 2300 || got > 2400 {
		t.Errorf("%d ms a minute after three seconds a minute and one minute of nothing, want four fifths", got)
	}
}
