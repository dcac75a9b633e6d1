package sharding

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/placement"
)

// handingOver is a process of six shards, all of which another one is to have and is warm for.
func handingOver(t *testing.T) *script {
	t.Helper()
	s := newScript(t)
	s.m = NewMachine(MachineConfig{
		Member: "op-0", Settings: Settings{Shards: 6, Hash: placement.HashFNV1aMix}, Timings: s.m.config.Timings,
		HandoverBound: 20 * time.Second, DrainBound: 5 * time.Second, FoldEvery: 5 * time.Minute,
	}, s.now)
	place := func(version string, state placement.State, others bool) PlacementSeen {
		p := placement.New(s.m.config.Settings, s.m.config.Timings)
		p.Expected = []Member{"op-0", "op-1"}
		p.Homes = []Member{"op-0", "op-0", "op-0", "op-1", "op-1", "op-1"}
		p.Processes = []placement.Process{{Identity: selfID, Member: "op-0", State: state, Joined: 1}}
		if others {
			p.Processes = append(p.Processes, placement.Process{Identity: otherID, Member: "op-1", State: placement.Serving, Joined: 2})
		}
		p = placement.Place(p, p.Expected)
		p.Version = version
		return PlacementSeen{Placement: &p}
	}
	s.joined().step(place("10", placement.Serving, false))
	var warmed []Shard
	for shard := range Shard(6) {
		warmed = append(warmed, shard)
		s.step(Warmed{Shard: shard, Seq: 1},
			ClaimChanged{Shard: shard, Type: claim.Acquired, Epoch: claim.Epoch(fmt.Sprint(20 + shard))})
	}
	s.step(place("11", placement.Serving, true), Stopping{}, place("12", placement.Leaving, true), PlacementWritten{})
	return s.step(PresenceSeen{Identity: otherID, Version: "40", Placement: "12", Warmed: warmed})
}

func TestHandsOverAFewShardsAtATime(t *testing.T) {
	s := handingOver(t).want("StopAdmitting 0", "Drain 0", "StopAdmitting 1", "Drain 1",
		"StopAdmitting 2", "Drain 2", "StopAdmitting 3", "Drain 3")
	s.step(Drained{Shard: 1, Seq: 1}).want("Release 1")
	s.step(ClaimChanged{Shard: 1, Type: claim.Released}).want("Revoke 1", "Drop 1")
	s.step(HolderSeen{Shard: 1}).want() // free: the winner has still to take it
	s.step(HolderSeen{Shard: 1, Holder: otherID}).want("StopAdmitting 4", "Drain 4")
	s.step(HolderSeen{Shard: 1, Holder: otherID}).want()
}

// A drain that waits for a call of its own does not keep the others for longer than the patience.
func TestSlowHandoversDoNotHoldUpTheOthers(t *testing.T) {
	s := handingOver(t)
	s.pass(handoverPatience-time.Millisecond).step(PresenceSeen{Identity: selfID, Version: "6"}, PresenceRenewed{Version: "6"}).want()
	s.pass(time.Millisecond).step(Tick{}).want("StopAdmitting 4", "Drain 4", "StopAdmitting 5", "Drain 5")
}

// Half of a stop's time is for handing over a few at a time.
func TestStopInAHurryHandsOverTheRest(t *testing.T) {
	s := handingOver(t)
	for i := range 3 { // each stands for another that has begun and does not end
		s.m.shards[i].handingSince = s.now.Add(10*time.Second - time.Millisecond)
	}
	s.m.shards[3].handingSince = s.now.Add(10*time.Second - time.Millisecond)
	s.pass(10*time.Second-time.Millisecond).step(PresenceSeen{Identity: selfID, Version: "6"}, PresenceRenewed{Version: "6"}).want()
	s.pass(time.Millisecond).step(Tick{}).want("StopAdmitting 4", "Drain 4", "StopAdmitting 5", "Drain 5")
}

// A winner lets shards be handed over once nothing else is being loaded, or a bound has passed.
func TestWinnerAnnouncesWhatIsWarmTogether(t *testing.T) {
	start := func() *script {
		s := newScript(t).joined()
		p := s.place("10", map[Identity]placement.State{selfID: placement.Serving, otherID: placement.Leaving})
		return s.step(p, Warmed{Shard: 0, Seq: 1})
	}
	want := func(s *script, warmed ...Shard) {
		t.Helper()
		last := s.publish[len(s.publish)-1]
		if diff := cmp.Diff(warmed, last.Warmed); diff != "" || last.Urgent != (len(warmed) > 0) {
			t.Errorf("urgent: %v, warmed (-want +published):\n%s", last.Urgent, diff)
		}
	}
	s := start()
	want(s)
	s.step(Warmed{Shard: 1, Seq: 1})
	want(s, 0, 1)

	slow := start()
	slow.pass(announceBound - time.Millisecond).step(Tick{})
	want(slow)
	slow.pass(time.Millisecond).step(Tick{})
	want(slow, 0)
	slow.step(Warmed{Shard: 1, Seq: 1})
	want(slow, 0, 1)
}
