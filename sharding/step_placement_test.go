package sharding

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"example.com/redis-operator/sharding/placement"
)

var errBroken = errors.New("edited by hand")

// onlySelf is P with this process alone.
func onlySelf() map[Identity]placement.State {
	return map[Identity]placement.State{selfID: placement.Serving}
}

// What cannot be read is replaced by the last copy, under the version of what cannot be read.
func TestUnreadablePlacementIsReplacedByTheLastCopy(t *testing.T) {
	s := newScript(t).holding()
	s.step(PlacementUnreadable{Version: "9", Err: errBroken}).want() // a watch that lags
	s.step(PlacementUnreadable{Version: "12", Err: errBroken}).want("WritePlacement")
	write := s.actions[0].(WritePlacement).Placement
	if write.Version != "12" || !write.Equal(*s.m.p) {
		t.Errorf("P is written as %+v over version %q, want the last copy over 12", write, write.Version)
	}
	s.step(s.place("11", onlySelf())).want() // the watch shows an older one
	s.step(PlacementUnreadable{Version: "12", Err: errBroken}, PlacementWritten{Err: errBroken}).want()
	s.pass(time.Second).step(Tick{}).want("WritePlacement")
	s.step(s.place("13", onlySelf()), PlacementWritten{}).want()
}

// Deleted, what cannot be read is created again.
func TestUnreadablePlacementThatIsDeletedIsCreated(t *testing.T) {
	s := newScript(t).holding()
	s.step(PlacementUnreadable{Version: "12", Err: errBroken}).want("WritePlacement")
	s.step(PlacementSeen{}, PlacementWritten{}).want("WritePlacement")
	if write := s.actions[0].(WritePlacement).Placement; write.Version != "" {
		t.Errorf("P is written over version %q, want a creation", write.Version)
	}
}

// Two releases must not overwrite each other's placement.
func TestPlacementOfAnotherReleaseIsLeftAlone(t *testing.T) {
	s := newScript(t).holding()
	s.step(PlacementUnreadable{Version: "12", Err: fmt.Errorf("reading: %w", placement.ErrOtherFormat)}).want()
	s.step(ExpectedSeen{Members: []Member{"op-0"}}).want()
}

// A process that never read P waits for those who may have a copy, then builds P anew.
func TestUnreadablePlacementNeverReadIsWaitedFor(t *testing.T) {
	s := newScript(t).joined()
	s.step(PlacementUnreadable{Version: "12", Err: errBroken}).want()
	for range 4 {
		s.pass(2 * time.Second)
		version := s.now.Format("05")
		s.step(PresenceSeen{Identity: selfID, Version: version}, PresenceRenewed{Version: version}).want()
	}
	s.pass(2 * time.Second).step(Tick{}).want("WritePlacement")
	if write := s.actions[0].(WritePlacement).Placement; write.Version != "12" {
		t.Errorf("P is written over version %q, want 12", write.Version)
	}
}

// A write that has lost against something which no read shows is not repeated without a pause.
func TestConflictWithoutNewsIsNotRepeatedAtOnce(t *testing.T) {
	s := newScript(t).holding()
	s.step(ExpectedSeen{Members: []Member{"op-0"}, Version: "30"}).want("WritePlacement")
	s.step(PlacementWritten{}).want()
	s.pass(499 * time.Millisecond).step(Tick{}).want()
	s.pass(time.Millisecond).step(Tick{}).want("WritePlacement")
	// One that has lost against what was seen meanwhile is.
	s.step(s.place("12", onlySelf()), PlacementWritten{}).want("WritePlacement")
}

func TestPlacementEvent(t *testing.T) {
	cases := map[string]struct {
		err  error
		want Event
	}{
		"missing":    {fmt.Errorf("loading: %w", placement.ErrMissing), PlacementSeen{}},
		"broken":     {&placement.UnreadableError{Version: "7", Err: errBroken}, PlacementUnreadable{Version: "7"}},
		"settings":   {fmt.Errorf("reading: %w", &placement.SettingsError{}), PlacementUnreadable{}},
		"no answer":  {errors.New("timeout"), nil},
		"a conflict": {placement.ErrConflict, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := placementEvent(placement.Placement{}, tc.err)
			if unreadable, ok := got.(PlacementUnreadable); ok {
				if !errors.Is(unreadable.Err, tc.err) {
					t.Errorf("the event has error %v, want %v", unreadable.Err, tc.err)
				}
				got = PlacementUnreadable{Version: unreadable.Version}
			}
			if got != tc.want {
				t.Errorf("got %#v, want %#v", got, tc.want)
			}
		})
	}
	if isFinal(&placement.UnreadableError{Err: &placement.FieldError{}}) || !isFinal(fmt.Errorf("loading: %w", &placement.SettingsError{})) {
		t.Error("a broken placement ends a starting process, or other settings do not")
	}
}

// A process that has just joined knows of no Lease, and so keeps every dead identity that one may name.
func TestDeadIdentitiesAreKeptUntilEveryLeaseWasSeen(t *testing.T) {
	const buried, named = Identity("op-1_uid1_n0"), Identity("op-1_uid1_n00")
	s := newScript(t)
	seen := s.place("10", map[Identity]placement.State{otherID: placement.Serving})
	seen.Placement.Processes[0].Joined = 3
	for joined, identity := range []Identity{buried, named} {
		seen.Placement.Processes = append([]placement.Process{{
			Identity: identity, Member: "op-1", State: placement.Dead, Cause: placement.Confirmed, Joined: joined + 1,
		}}, seen.Placement.Processes...)
	}
	wantKept := func(want ...Identity) {
		t.Helper()
		var got []Identity
		for _, process := range s.actions[len(s.actions)-1].(WritePlacement).Placement.Processes {
			if process.State == placement.Dead {
				got = append(got, process.Identity)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("P keeps the dead %v, want %v", got, want)
		}
	}
	s.step(seen, ExpectedSeen{Members: []Member{"op-0", "op-1"}}, Joined{Identity: selfID})
	wantKept(buried, named)
	s.step(HolderSeen{Shard: 0, Holder: named}, PlacementWritten{Err: errBroken})
	s.pass(time.Second).step(Tick{})
	wantKept(buried, named)
	s.step(HolderSeen{Shard: 1}, PlacementWritten{Err: errBroken})
	s.pass(time.Second).step(Tick{})
	wantKept(named)
	// New claims have seen nothing again.
	s.step(Joined{Identity: "op-0_uid0_n1"}, PlacementWritten{Err: errBroken})
	s.pass(time.Second).step(Tick{})
	wantKept(buried, named)
}

// A death that was observed is recorded only while what it was concluded from holds.
func TestObservedDeathEndsWithItsProof(t *testing.T) {
	cases := map[string]struct {
		meanwhile func(*script)
		wantDead  bool
	}{
		"nothing":      {func(*script) {}, true},
		"seen again":   {func(s *script) { s.step(PresenceSeen{Identity: otherID, Version: "41"}) }, false},
		"gone":         {func(s *script) { s.step(PresenceSeen{Identity: otherID}) }, false},
		"shown again":  {func(s *script) { s.step(PresenceSeen{Identity: otherID, Version: "40"}) }, true},
		"watch broken": {func(s *script) { s.pass(9 * time.Second) }, false},
		"after a break": {func(s *script) {
			s.pass(9 * time.Second).step(PresenceSeen{Identity: selfID, Version: "70"})
		}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScript(t).holding()
			s.step(s.place("11", bothServe()), PresenceSeen{Identity: otherID, Version: "40"})
			for n := range 5 {
				s.pass(2 * time.Second).step(PresenceSeen{Identity: selfID, Version: fmt.Sprint(50 + n)})
			}
			s.want("VerifyExpiry")
			s.step(ExpiryVerified{Identity: otherID, Version: "40", Unchanged: true}).want("WritePlacement")
			tc.meanwhile(s)
			s.step(PlacementWritten{Err: errBroken})
			s.pass(500 * time.Millisecond).step(Tick{})
			isDead := false
			for _, action := range s.actions {
				if write, ok := action.(WritePlacement); ok {
					process, _ := write.Placement.Process(otherID)
					isDead = process.State == placement.Dead
				}
			}
			if isDead != tc.wantDead {
				t.Errorf("recorded dead: %v, want %v", isDead, tc.wantDead)
			}
		})
	}
}

// The presence of a dead process that is there again after it was collected is collected again, once it
// has run out.
func TestPresenceOfTheDeadIsCollectedAgain(t *testing.T) {
	s := newScript(t).holding()
	s.step(PresenceSeen{Identity: otherID, Version: "30"})
	s.step(s.place("11", map[Identity]placement.State{selfID: placement.Serving, otherID: placement.Dead})).want("CollectPresence")
	s.step(PresenceSeen{Identity: otherID}).want()
	s.step(PresenceSeen{Identity: otherID, Version: "33"}).want()
	for n := range 4 {
		s.pass(2 * time.Second).step(PresenceSeen{Identity: selfID, Version: fmt.Sprint(50 + n)}).want()
	}
	s.pass(2 * time.Second).step(PresenceSeen{Identity: selfID, Version: "60"}).want("CollectPresence")
	s.pass(2 * time.Second).step(PresenceSeen{Identity: selfID, Version: "61"}).want()
}
