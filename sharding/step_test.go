package sharding

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/placement"
)

// script drives one machine by hand.
type script struct {
	t       *testing.T
	m       *Machine
	now     time.Time
	actions []Action // of the last step, without Wake and Publish
	publish []Publish
}

var (
	selfID  = Identity("op-0_uid0_n0")
	otherID = Identity("op-1_uid1_n1")
)

func newScript(t *testing.T) *script {
	settings := Settings{Shards: 2, Hash: placement.HashFNV1aMix}
	timings := placement.Timings{LeaseDuration: 10 * time.Second, RenewDeadline: 7 * time.Second, RetryPeriod: 2 * time.Second}
	s := &script{t: t, now: time.Unix(1000, 0)}
	s.m = NewMachine(MachineConfig{
		Member: "op-0", Settings: settings, Timings: timings, HandoverBound: 20 * time.Second, DrainBound: 5 * time.Second, FoldEvery: 5 * time.Minute,
	}, s.now)
	return s
}

// step takes events and keeps the actions of all of them.
func (s *script) step(events ...Event) *script {
	s.actions = nil
	for _, event := range events {
		for _, action := range s.m.Step(event, s.now) {
			switch a := action.(type) {
			case Wake:
			case Publish:
				s.publish = append(s.publish, a)
			default:
				s.actions = append(s.actions, action)
			}
		}
	}
	return s
}

func (s *script) pass(d time.Duration) *script {
	s.now = s.now.Add(d)
	return s
}

// want asserts the actions of the last step, by type and shard.
func (s *script) want(want ...string) *script {
	s.t.Helper()
	var got []string
	for _, action := range s.actions {
		text := strings.TrimPrefix(fmt.Sprintf("%T", action), "sharding.")
		if field := reflect.ValueOf(action).FieldByName("Shard"); field.IsValid() {
			text = fmt.Sprintf("%s %d", text, field.Int())
		}
		got = append(got, text)
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		s.t.Fatalf("actions are %v, want %v", got, want)
	}
	return s
}

// place is P with these processes serving and shard 0 at home with op-0, shard 1 with op-1.
func (s *script) place(version string, states map[Identity]placement.State) PlacementSeen {
	s.t.Helper()
	p := placement.New(s.m.config.Settings, s.m.config.Timings)
	p.Expected = []Member{"op-0", "op-1"}
	p.Homes = []Member{"op-0", "op-1"}
	for _, identity := range []Identity{selfID, otherID} {
		state, ok := states[identity]
		if !ok {
			continue
		}
		process := placement.Process{Identity: identity, Member: identity.Member(), State: state, Joined: 1}
		if state == placement.Dead {
			process.Cause = placement.Expired
		}
		p.Processes = append(p.Processes, process)
	}
	p = placement.Place(p, p.Expected)
	p.Version = version
	return PlacementSeen{Placement: &p}
}

func bothServe() map[Identity]placement.State {
	return map[Identity]placement.State{selfID: placement.Serving, otherID: placement.Serving}
}

// joined is a process that is recorded as serving and alone acts for everything.
func (s *script) joined() *script {
	s.step(Joined{Identity: selfID}, DirectorySynced{}, LeasesEnsured{},
		ExpectedSeen{Members: []Member{"op-0", "op-1"}},
		PresenceSeen{Identity: selfID, Version: "5"}, PresenceRenewed{Version: "5"})
	return s
}

// holding is a process that admits both shards, since it is the only one.
func (s *script) holding() *script {
	s.joined()
	s.step(s.place("10", map[Identity]placement.State{selfID: placement.Serving})).
		want("Contend 0", "Warm 0", "Contend 1", "Warm 1")
	s.step(Warmed{Shard: 0, Seq: 1}, Warmed{Shard: 1, Seq: 1}).want()
	s.step(ClaimChanged{Shard: 0, Type: claim.Acquired, Epoch: "20"}).want("Admit 0", "Replay 0")
	s.step(ClaimChanged{Shard: 1, Type: claim.Acquired, Epoch: "21"}).want("Admit 1", "Replay 1")
	return s
}

func TestHandoverWaitsForTheWinner(t *testing.T) {
	s := newScript(t).holding()
	s.step(s.place("11", bothServe())).want() // op-1 is to act for shard 1, and is not warm
	s.step(PresenceSeen{Identity: otherID, Version: "30", Placement: "10", Warmed: []Shard{1}}).want()
	s.step(PresenceSeen{Identity: otherID, Version: "31", Placement: "11", Warmed: []Shard{0}}).want()
	s.step(PresenceSeen{Identity: otherID, Version: "32", Placement: "11", Warmed: []Shard{1}}).
		want("StopAdmitting 1", "Drain 1")
	s.step(Drained{Shard: 1, Seq: 7}).want() // the answer to another drain
	s.step(Drained{Shard: 1, Seq: 1}).want("Release 1")
	s.step(ClaimChanged{Shard: 1, Type: claim.Released}).want("Revoke 1", "Drop 1")
}

func TestDrainThatOverrunsIsTriedAgain(t *testing.T) {
	s := newScript(t).holding()
	s.step(s.place("11", bothServe()), PresenceSeen{Identity: otherID, Version: "32", Placement: "11", Warmed: []Shard{1}}).
		want("StopAdmitting 1", "Drain 1")
	s.step(Drained{Shard: 1, Seq: 1, Overran: true}).want("Admit 1", "Replay 1")
	s.pass(time.Second).step(Tick{}).want()
	s.step(PresenceSeen{Identity: selfID, Version: "6"})
	s.pass(4*time.Second).step(Tick{}).want("StopAdmitting 1", "Drain 1")
}

func TestWinnerPublishesAndChecksPlacement(t *testing.T) {
	s := newScript(t).joined()
	s.step(s.place("10", bothServe())).want("Contend 0", "Warm 0")
	s.step(Warmed{Shard: 0, Seq: 1}).want()
	last := s.publish[len(s.publish)-1]
	if !last.Urgent || last.Placement != "10" || len(last.Warmed) != 1 || last.Warmed[0] != 0 {
		t.Fatalf("published %+v, want shard 0 as warm at version 10, urgent", last)
	}
	// Placement changes its mind before the Lease is acquired: the shard is given back unserved.
	s.step(s.place("11", map[Identity]placement.State{selfID: placement.Leaving, otherID: placement.Serving})).
		want("Release 0")
	s.step(ClaimChanged{Shard: 0, Type: claim.Acquired, Epoch: "20"}).want()
	s.step(ClaimChanged{Shard: 0, Type: claim.Released}).want("Revoke 0", "Drop 0")
}

// A claim that is acquired after placement has named another is given back without having been used.
func TestAcquiredTooLateIsGivenBack(t *testing.T) {
	s := newScript(t).joined()
	s.step(s.place("10", map[Identity]placement.State{selfID: placement.Serving}), Warmed{Shard: 1, Seq: 1},
		ClaimChanged{Shard: 1, Type: claim.Acquired, Epoch: "20", Unclean: true})
	s.step(s.place("11", bothServe())).want("Drain 1")
	s.step(Drained{Shard: 1, Seq: 1}).want("Release 1")
}

func TestUncleanTakeoverSettles(t *testing.T) {
	s := newScript(t).joined()
	s.step(s.place("10", bothServe()), Warmed{Shard: 0, Seq: 1})
	s.step(ClaimChanged{Shard: 0, Type: claim.Acquired, Epoch: "20", Unclean: true}).want()
	s.pass(settleAfterUnclean - time.Millisecond).step(Tick{}).want()
	s.pass(time.Millisecond).step(Tick{}).want("Admit 0", "Replay 0")
	if admit := s.actions[0].(Admit); admit.Cause != CauseFailover || admit.Epoch != "20" {
		t.Errorf("admitted as %+v, want a failover under epoch 20", admit)
	}
}

// A Lease that this process lost and takes up again comes from nobody else.
func TestOwnClaimAcquiredAgainIsNoHandover(t *testing.T) {
	s := newScript(t).holding()
	s.step(ClaimChanged{Shard: 0, Type: claim.Lost, Epoch: "20"}, ClaimChanged{Shard: 0, Type: claim.Acquired, Epoch: "40", Again: true}).
		want("StopAdmitting 0", "Revoke 0", "Admit 0", "Replay 0")
	if admit := s.actions[2].(Admit); admit.Cause != CauseRecovered {
		t.Errorf("admitted as %q, want recovered", admit.Cause)
	}
}

func TestClaimInTrouble(t *testing.T) {
	shard0 := func(kind claim.EventType) ClaimChanged { return ClaimChanged{Shard: 0, Type: kind, Epoch: "20"} }
	cases := map[string]struct {
		events []Event
		want   []string
	}{
		"stalled":               {[]Event{shard0(claim.Stalled)}, []string{"StopAdmitting 0"}},
		"stalled and recovered": {[]Event{shard0(claim.Stalled), shard0(claim.Recovered)}, []string{"StopAdmitting 0", "Admit 0", "Replay 0"}},
		"expiring":              {[]Event{shard0(claim.Stalled), shard0(claim.Expiring)}, []string{"StopAdmitting 0", "CancelCalls 0"}},
		"lost at the deadline": {
			[]Event{shard0(claim.Stalled), shard0(claim.Expiring), shard0(claim.Lost)},
			[]string{"StopAdmitting 0", "CancelCalls 0", "Revoke 0"},
		},
		"taken by another": {[]Event{shard0(claim.Lost)}, []string{"StopAdmitting 0", "Revoke 0"}},
		"lost and acquired again": {
			[]Event{shard0(claim.Lost), ClaimChanged{Shard: 0, Type: claim.Acquired, Epoch: "40"}},
			[]string{"StopAdmitting 0", "Revoke 0", "Admit 0", "Replay 0"},
		},
		"watch lags": {[]Event{ClaimsLagging{Lagging: true}, ClaimsLagging{}}, []string{
			"StopAdmitting 0", "StopAdmitting 1", "Admit 0", "Replay 0", "Admit 1", "Replay 1",
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { newScript(t).holding().step(tc.events...).want(tc.want...) })
	}
}

func TestStopAlone(t *testing.T) {
	s := newScript(t).holding()
	s.step(Stopping{}).want("WritePlacement", "StopAdmitting 0", "Drain 0", "StopAdmitting 1", "Drain 1")
	s.step(Drained{Shard: 0, Seq: 1}, Drained{Shard: 1, Seq: 1}).want("Release 0", "Release 1")
	s.step(ClaimChanged{Shard: 0, Type: claim.Released}, ClaimChanged{Shard: 1, Type: claim.Released},
		s.place("12", map[Identity]placement.State{selfID: placement.Leaving}), PlacementWritten{})
	written := s.actions[len(s.actions)-1].(WritePlacement)
	if process, _ := written.Placement.Process(selfID); process.State != placement.Dead {
		t.Fatalf("the last entry is %+v, want dead", process)
	}
	s.step(s.place("13", map[Identity]placement.State{selfID: placement.Dead})).want("Finish")
}

func TestStopHandsOver(t *testing.T) {
	s := newScript(t).holding()
	s.step(s.place("11", bothServe()), Stopping{})
	s.step(s.place("12", map[Identity]placement.State{selfID: placement.Leaving, otherID: placement.Serving}), PlacementWritten{}).want()
	s.step(PresenceSeen{Identity: otherID, Version: "40", Placement: "12", Warmed: []Shard{0}}).want("StopAdmitting 0", "Drain 0")
	// Nobody becomes warm for shard 1: the bound ends the waiting.
	s.pass(20*time.Second).step(Tick{}).want("StopAdmitting 1", "Drain 1")
}

func TestPlacementIsRecreatedFromTheLastCopy(t *testing.T) {
	s := newScript(t).holding()
	s.step(PlacementSeen{}).want("WritePlacement")
	write := s.actions[0].(WritePlacement)
	if write.Placement.Version != "" || !write.Placement.Equal(*s.m.p) {
		t.Errorf("P is created as %+v, want the last copy", write.Placement)
	}
}

func TestPlacementNeverReadIsWaitedFor(t *testing.T) {
	s := newScript(t).joined()
	s.step(PlacementSeen{}).want()
	for range 4 {
		s.pass(2 * time.Second)
		version := s.now.Format("05")
		s.step(PresenceSeen{Identity: selfID, Version: version}, PresenceRenewed{Version: version}).want()
	}
	s.pass(2 * time.Second).step(Tick{}).want("WritePlacement")
}

func TestOtherSettingsAreRefused(t *testing.T) {
	s := newScript(t).joined()
	theirs := Settings{Shards: 4, Hash: placement.HashFNV1aMix}
	s.step(PlacementUnreadable{Err: &placement.SettingsError{Ours: s.m.config.Settings, Theirs: theirs}}).want("Refuse")
	var settings *placement.SettingsError
	if err := s.actions[0].(Refuse).Err; !errors.As(err, &settings) || settings.Theirs.Shards != 4 {
		t.Errorf("refused with %v, want a SettingsError", err)
	}
}

func TestRecordedDeadHandsOverAndJoinsAgain(t *testing.T) {
	s := newScript(t).holding()
	s.step(s.place("11", map[Identity]placement.State{selfID: placement.Dead, otherID: placement.Serving})).want()
	s.step(PresenceSeen{Identity: otherID, Version: "40", Placement: "11", Warmed: []Shard{0, 1}}).
		want("StopAdmitting 0", "Drain 0", "StopAdmitting 1", "Drain 1")
	s.step(Drained{Shard: 0, Seq: 1}, Drained{Shard: 1, Seq: 1}).want("Release 0", "Release 1")
	s.step(ClaimChanged{Shard: 0, Type: claim.Released}, ClaimChanged{Shard: 1, Type: claim.Released}).
		want("Revoke 0", "Revoke 1", "Rejoin")
}

func TestConfirmedDeathIsRecorded(t *testing.T) {
	cases := map[string]struct {
		event Terminated
		want  bool
	}{
		"its Pod and identity":  {Terminated{PodUID: "uid1", Message: string(otherID)}, true},
		"another identity":      {Terminated{PodUID: "uid1", Message: "op-1_uid1_n2"}, false},
		"another Pod":           {Terminated{PodUID: "uid2", Message: string(otherID)}, false},
		"the own identity":      {Terminated{PodUID: "uid0", Message: string(selfID)}, false},
		"a message of its own":  {Terminated{PodUID: "uid1", Message: "panic"}, false},
		"with more in the file": {Terminated{PodUID: "uid1", Message: "op-1_uid1_n0\n" + string(otherID) + "\n"}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScript(t).holding()
			s.step(s.place("11", bothServe()))
			s.step(tc.event)
			if !tc.want {
				s.want()
				return
			}
			s.want("WritePlacement")
			process, _ := s.actions[0].(WritePlacement).Placement.Process(otherID)
			if process.State != placement.Dead || process.Cause != placement.Confirmed {
				t.Errorf("recorded %+v, want dead and confirmed", process)
			}
		})
	}
}

func TestExpiryIsVerifiedBeforeItIsRecorded(t *testing.T) {
	for _, unchanged := range []bool{true, false} {
		s := newScript(t).holding()
		s.step(s.place("11", bothServe()), PresenceSeen{Identity: otherID, Version: "40"})
		for n := range 5 {
			s.pass(2 * time.Second).step(PresenceSeen{Identity: selfID, Version: fmt.Sprint(50 + n)})
		}
		s.want("VerifyExpiry")
		s.step(ExpiryVerified{Identity: otherID, Version: "40", Unchanged: unchanged})
		if unchanged {
			s.want("WritePlacement")
		} else {
			s.want()
		}
	}
}

func TestOwnRenewalsMissingOnTheWatch(t *testing.T) {
	s := newScript(t).holding()
	s.step(PresenceRenewed{Version: "60"}).want()
	s.pass(5 * time.Second).step(Tick{})
	s.want("Relist", "StopAdmitting 0", "StopAdmitting 1")
	s.step(PresenceSeen{Identity: selfID, Version: "60"}).want("Admit 0", "Replay 0", "Admit 1", "Replay 1")
}

func TestReady(t *testing.T) {
	s := newScript(t).joined()
	s.step(s.place("10", bothServe()))
	if s.m.Ready() {
		t.Fatal("ready before the home shard is admitted")
	}
	s.step(Warmed{Shard: 0, Seq: 1}, ClaimChanged{Shard: 0, Type: claim.Acquired, Epoch: "20"})
	if !s.m.Ready() {
		t.Fatal("not ready although the home shard is admitted")
	}
	s.step(ClaimChanged{Shard: 0, Type: claim.Lost, Epoch: "20"})
	if !s.m.Ready() {
		t.Fatal("readiness is not latched")
	}
	late := newScript(t)
	if late.pass(readyBound).step(Tick{}); !late.m.Ready() {
		t.Fatal("not ready after the bound")
	}
}
