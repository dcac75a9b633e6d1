package placement

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	idA1 = Identity("redis-operator-0_uidA_1") // Pod uidA, first container
	idA2 = Identity("redis-operator-0_uidA_2") // Pod uidA, restarted container
	idB1 = Identity("redis-operator-0_uidB_1") // the Pod that replaced uidA
)

func entry(identity Identity, state State, cause DeathCause, joined int) Process {
	return Process{Identity: identity, Member: identity.Member(), State: state, Cause: cause, Joined: joined}
}

type recordCase struct {
	before    []Process
	identity  Identity
	state     State
	want      []Process
	wantErr   error
	wantField string
	wantFrom  State // of a StateError
}

func TestRecord(t *testing.T) {
	cases := map[string]recordCase{
		"registers": {
			identity: idA1, state: Joining,
			want: []Process{entry(idA1, Joining, "", 1)},
		},
		"goes forward": {
			before:   []Process{entry(idA1, Joining, "", 1)},
			identity: idA1, state: Serving,
			want: []Process{entry(idA1, Serving, "", 1)},
		},
		"leaves before it served": {
			before:   []Process{entry(idA1, Joining, "", 1)},
			identity: idA1, state: Leaving,
			want: []Process{entry(idA1, Leaving, "", 1)},
		},
		"the same again": {
			before:   []Process{entry(idA1, Serving, "", 1)},
			identity: idA1, state: Serving,
			want: []Process{entry(idA1, Serving, "", 1)},
		},
		"a restarted container buries the one before": {
			before:   []Process{entry(idA1, Serving, "", 4)},
			identity: idA2, state: Joining,
			want: []Process{entry(idA1, Dead, Confirmed, 4), entry(idA2, Joining, "", 5)},
		},
		"a death once recorded keeps its cause": {
			before:   []Process{entry(idA1, Dead, Expired, 4)},
			identity: idA2, state: Joining,
			want: []Process{entry(idA1, Dead, Expired, 4), entry(idA2, Joining, "", 5)},
		},
		"another Pod of the name proves nothing": {
			before:   []Process{entry(idA1, Serving, "", 4)},
			identity: idB1, state: Joining,
			want: []Process{entry(idA1, Serving, "", 4), entry(idB1, Joining, "", 5)},
		},
		"dead is final": {
			before:   []Process{entry(idA1, Dead, Expired, 1)},
			identity: idA1, state: Serving, wantErr: ErrDead,
		},
		"dead cannot register again": {
			before:   []Process{entry(idA1, Dead, Expired, 1)},
			identity: idA1, state: Joining, wantErr: ErrDead,
		},
		"unknown cannot serve": {
			identity: idA1, state: Serving, wantErr: ErrUnknownIdentity,
		},
		"leaving is not serving again": {
			before:   []Process{entry(idA1, Leaving, "", 1)},
			identity: idA1, state: Serving, wantFrom: Leaving,
		},
		"serving is not joining again": {
			before:   []Process{entry(idA1, Serving, "", 1)},
			identity: idA1, state: Joining, wantFrom: Serving,
		},
		"its own death": {
			before:   []Process{entry(idA1, Serving, "", 1)},
			identity: idA1, state: Dead, wantField: "state",
		},
		"no state":         {identity: idA1, state: "up", wantField: "state"},
		"no identity":      {identity: "redis-operator-0", state: Joining, wantField: "identity"},
		"empty nonce":      {identity: "redis-operator-0_uid_", state: Joining, wantField: "identity"},
		"four parts":       {identity: "redis-operator-0_uid_1_2", state: Joining, wantField: "identity"},
		"empty everything": {identity: "", state: Joining, wantField: "identity"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { tc.check(t) })
	}
}

func (tc recordCase) check(t *testing.T) {
	t.Helper()
	p := Place(New(settingsOf(16), Timings{}), operators(2))
	p.Processes = tc.before
	original := p.Clone()
	next, err := p.Record(tc.identity, tc.state)
	var stateError *StateError
	switch {
	case tc.wantErr != nil:
		if !errors.Is(err, tc.wantErr) {
			t.Errorf("got %v, want %v", err, tc.wantErr)
		}
	case tc.wantFrom != "":
		if !errors.As(err, &stateError) || stateError.From != tc.wantFrom || stateError.To != tc.state {
			t.Errorf("got %v, want a StateError from %s", err, tc.wantFrom)
		}
	default:
		wantFieldError(t, err, tc.wantField)
	}
	if diff := cmp.Diff(tc.want, next.Processes); diff != "" {
		t.Errorf("processes (-want +got):\n%s", diff)
	}
	if !p.Equal(original) {
		t.Errorf("Record changed its receiver")
	}
	if err == nil && !Place(next, next.Expected).Equal(next) {
		t.Errorf("the result is not placed")
	}
}

func TestMarkDead(t *testing.T) {
	serving := Place(New(settingsOf(16), Timings{}), operators(2))
	serving, err := serving.Record(idA1, Joining)
	if err != nil {
		t.Fatal(err)
	}
	if serving, err = serving.Record(idA1, Serving); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		causes    []DeathCause
		identity  Identity
		want      DeathCause
		wantErr   error
		wantField string
	}{
		"confirmed":            {causes: []DeathCause{Confirmed}, identity: idA1, want: Confirmed},
		"expired":              {causes: []DeathCause{Expired}, identity: idA1, want: Expired},
		"expired then sure":    {causes: []DeathCause{Expired, Confirmed}, identity: idA1, want: Confirmed},
		"sure stays sure":      {causes: []DeathCause{Confirmed, Expired}, identity: idA1, want: Confirmed},
		"twice":                {causes: []DeathCause{Expired, Expired}, identity: idA1, want: Expired},
		"nobody":               {causes: []DeathCause{Expired}, identity: idB1, wantErr: ErrUnknownIdentity},
		"for no known reason":  {causes: []DeathCause{"bored"}, identity: idA1, wantField: "cause"},
		"for no reason at all": {causes: []DeathCause{""}, identity: idA1, wantField: "cause"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p, original := serving, serving.Clone()
			var err error
			for _, cause := range tc.causes {
				p, err = p.MarkDead(tc.identity, cause)
			}
			if tc.wantErr != nil && !errors.Is(err, tc.wantErr) {
				t.Errorf("got %v, want %v", err, tc.wantErr)
			}
			if tc.wantErr == nil {
				wantFieldError(t, err, tc.wantField)
			}
			if got, _ := p.Process(tc.identity); got.Cause != tc.want || (err == nil && got.State != Dead) {
				t.Errorf("got %+v, want cause %q", got, tc.want)
			}
			if _, ok := p.Acting(0); err == nil && ok {
				t.Errorf("somebody acts though the only process is dead")
			}
			if !serving.Equal(original) {
				t.Errorf("MarkDead changed its receiver")
			}
		})
	}
}

func TestPrune(t *testing.T) {
	c := newCluster(t, 16, 3)
	members := operators(3)
	c.start(members...)
	c.kill(members[0], Expired) // nobody follows it yet
	c.kill(members[1], Expired)
	c.join(members[1]) // superseded
	c.start(members[2])
	old, _ := c.p.Process(identityOf(members[2], 3, 0)) // alive, though another one serves
	if old.State != Serving {
		t.Fatalf("the older process is %q", old.State)
	}
	superseded := identityOf(members[1], 2, 0)
	gone := func(p Placement) []Identity {
		var identities []Identity
		for _, process := range c.p.Processes {
			if _, ok := p.Process(process.Identity); !ok {
				identities = append(identities, process.Identity)
			}
		}
		return identities
	}
	if diff := cmp.Diff([]Identity{superseded}, gone(c.p.Prune(noLease, true))); diff != "" {
		t.Errorf("pruned (-want +got):\n%s", diff)
	}
	isNamed := func(identity Identity) bool { return identity == superseded }
	if got := gone(c.p.Prune(isNamed, true)); got != nil {
		t.Errorf("pruned %v though a Lease names it", got)
	}
	if got := gone(c.p.Prune(noLease, false)); got != nil {
		t.Errorf("pruned %v though there are Leases that were not looked at", got)
	}
	c.scale(0)
	want := []Identity{identityOf(members[0], 1, 0), superseded}
	if diff := cmp.Diff(want, gone(c.p.Prune(noLease, true))); diff != "" {
		t.Errorf("pruned when nobody is expected (-want +got):\n%s", diff)
	}
}

// TestDeadAreBounded: a container that crashes for ever before it has seen the Leases does not fill P, and
// yet none is forgotten that a Lease names.
func TestDeadAreBounded(t *testing.T) {
	p := Place(New(settingsOf(16), Timings{}), operators(1))
	named := identityOf("redis-operator-0", 1, 3)
	isNamed := func(identity Identity) bool { return identity == named }
	for i := range 100 {
		recorded, err := p.Record(identityOf("redis-operator-0", 1, i), Joining)
		if err != nil {
			t.Fatal(err)
		}
		p = recorded.Prune(isNamed, false)
	}
	if len(p.Processes) != maxDeadKept+2 {
		t.Errorf("%d entries, want %d dead ones, the one that is named and the living", len(p.Processes), maxDeadKept)
	}
	if newest := p.Processes[len(p.Processes)-1]; newest.State != Joining {
		t.Errorf("the newest is %+v", newest)
	}
	if oldest := p.Processes[0].Identity; oldest != named {
		t.Errorf("the oldest kept is %s, want the one that is named", oldest)
	}
	if oldest := p.Processes[1].Identity; oldest != identityOf("redis-operator-0", 1, 99-maxDeadKept) {
		t.Errorf("the oldest of the others is %s", oldest)
	}
}

func TestExpect(t *testing.T) {
	cases := map[string]struct {
		own         string // of P itself
		recorded    string
		members     []Member
		version     string
		wantMembers int
		wantVersion string
		wantStale   bool
		wantField   string
	}{
		"first":                 {members: operators(3), version: "10", wantMembers: 3, wantVersion: "10"},
		"newer":                 {recorded: "10", members: operators(3), version: "11", wantMembers: 3, wantVersion: "11"},
		"newer by number":       {recorded: "9", members: operators(3), version: "10", wantMembers: 3, wantVersion: "10"},
		"older":                 {recorded: "10", members: operators(3), version: "9", wantStale: true},
		"same version, others":  {recorded: "10", members: operators(3), version: "10", wantStale: true},
		"same members, newer":   {recorded: "10", members: operators(2), version: "12", wantMembers: 2, wantVersion: "10"},
		"same members, older":   {recorded: "10", members: operators(2), version: "8", wantMembers: 2, wantVersion: "10"},
		"no versions at all":    {members: operators(3), wantMembers: 3},
		"no version any more":   {recorded: "10", members: operators(3), wantField: "statefulSetVersion"},
		"not a version":         {members: operators(3), version: "ten", wantField: "statefulSetVersion"},
		"not a member":          {members: []Member{"a_b"}, version: "10", wantField: "expected"},
		"an empty member":       {members: []Member{""}, version: "10", wantField: "expected"},
		"older, in one cluster": {own: "12", recorded: "10", members: operators(3), version: "9", wantStale: true},
		"restored from a cluster that counts further": {own: "12", recorded: "1000", members: operators(3), version: "9",
			wantMembers: 3, wantVersion: "9"},
		"nobody":                   {recorded: "10", version: "11", wantVersion: "11"},
		"twice the same in a list": {members: append(operators(2), operators(3)...), version: "10", wantMembers: 3, wantVersion: "10"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := Place(New(settingsOf(16), Timings{}), operators(2))
			p.StatefulSetVersion, p.Version = tc.recorded, tc.own
			original := p.Clone()
			next, err := p.Expect(tc.members, tc.version)
			var stale *StaleError
			if tc.wantStale {
				if !errors.As(err, &stale) || stale.Recorded != tc.recorded || stale.Seen != tc.version {
					t.Errorf("got %v, want a StaleError", err)
				}
			} else {
				wantFieldError(t, err, tc.wantField)
			}
			if len(next.Expected) != tc.wantMembers || next.StatefulSetVersion != tc.wantVersion {
				t.Errorf("got %d members at %q, want %d at %q",
					len(next.Expected), next.StatefulSetVersion, tc.wantMembers, tc.wantVersion)
			}
			if !p.Equal(original) {
				t.Errorf("Expect changed its receiver")
			}
		})
	}
}

func TestIdentity(t *testing.T) {
	identity, err := NewIdentity("redis-operator-3", "8a6e", "x1")
	if err != nil || identity != "redis-operator-3_8a6e_x1" {
		t.Fatalf("got %q, %v", identity, err)
	}
	if identity.Member() != "redis-operator-3" || identity.PodUID() != "8a6e" {
		t.Errorf("got member %q and UID %q", identity.Member(), identity.PodUID())
	}
	for _, parts := range [][3]string{{"", "u", "n"}, {"p", "", "n"}, {"p", "u", ""}, {"p_q", "u", "n"}, {"p", "u", "n_m"}} {
		if got, err := NewIdentity(parts[0], parts[1], parts[2]); err == nil {
			t.Errorf("%v gave %q", parts, got)
		}
	}
}

func TestErrorsNameTheirSubject(t *testing.T) {
	if got, want := fmt.Sprint(&StaleError{Seen: "9", Recorded: "10"}),
		"StatefulSet seen at version 9, placement already computed from 10"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := fmt.Sprint(&StateError{Identity: idA1, From: Leaving, To: Serving}),
		`process redis-operator-0_uidA_1 cannot go from "leaving" to "serving"`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
