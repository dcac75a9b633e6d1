package sharding

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/placement"
)

// The processes of the contract. Restarted is the next container of alice's Pod.
const (
	alice     = Identity("redis-operator-0_uid-a_1")
	restarted = Identity("redis-operator-0_uid-a_2")
	bob       = Identity("redis-operator-1_uid-b_1")
	carol     = Identity("redis-operator-2_uid-c_1") // of whom there is only the name
)

// claimTimings are the timings of the contract. They keep the stages of a claim so far apart that an
// elector's jitter does not decide which comes first.
func claimTimings() placement.Timings {
	return placement.Timings{LeaseDuration: 20 * time.Second, RenewDeadline: 9 * time.Second, RetryPeriod: 2 * time.Second}
}

// claimTolerance is by how much a claim and its twin may differ in when something happens: an elector
// tries again after up to 2.2 retry periods, the twin after 1 s.
const claimTolerance = 5 * time.Second

// claimRig is one shard's Lease with the processes that claim it. Each starts a claim, and releases it,
// may be killed, cut off from the API for a time, or lose the answer to its next write.
type claimRig interface {
	start(who Identity)
	release(who Identity)
	kill(who Identity)
	cut(who Identity, d time.Duration)
	loseAnswer(who Identity)
	away(d time.Duration)   // the API, for all
	confirm(who Identity)   // its death
	store(by simLease)      // somebody writes the Lease by hand
	touch()                 // somebody annotates the Lease
	pass(d time.Duration)   // time passes
	outcome() *claimOutcome // since the beginning
}

// claimEvent is one thing that a claim told, as a word.
type claimEvent struct {
	word string
	at   time.Duration
}

// claimOutcome is what a scenario has led to.
type claimOutcome struct {
	events  map[Identity][]claimEvent
	holders []string // of the Lease, one after the other
}

func (o *claimOutcome) told(who Identity, word string, at time.Duration) {
	o.events[who] = append(o.events[who], claimEvent{word, at})
}

// held notes whom the Lease names: nobody is "-", a missing Lease "missing".
func (o *claimOutcome) held(by string) {
	if len(o.holders) == 0 || o.holders[len(o.holders)-1] != by {
		o.holders = append(o.holders, by)
	}
}

func (o *claimOutcome) words(who Identity) string {
	var words []string
	for _, e := range o.events[who] {
		words = append(words, e.word)
	}
	return strings.Join(words, " ")
}

// wordOf is an event of a claim without what differs by nature: epochs, and the reasons of a loss, which
// decide nothing.
func wordOf(kind claim.EventType, isUnclean, isAgain bool) string {
	word := string(kind)
	if isUnclean {
		word += "(unclean)"
	}
	if isAgain {
		word += "(again)"
	}
	return word
}

// claimScenario is one part of the contract.
type claimScenario struct {
	run         func(r claimRig)
	wantAlice   string
	wantBob     string
	wantRestart string
	wantHolders string
}

// startBoth starts alice, who gets the Lease, and bob, who waits for it.
func startBoth(r claimRig) {
	r.start(alice)
	r.pass(time.Second)
	r.start(bob)
}

var claimScenarios = map[string]claimScenario{
	"a free Lease is acquired and kept": {
		run:       func(r claimRig) { r.start(alice); r.pass(time.Minute) },
		wantAlice: "Acquired", wantHolders: "alice",
	},
	"a held Lease is waited for": {
		run:       func(r claimRig) { r.start(alice); r.pass(3 * time.Second); r.start(bob); r.pass(time.Minute) },
		wantAlice: "Acquired", wantHolders: "alice",
	},
	"a released Lease is taken at once, and clean": {
		run: func(r claimRig) {
			startBoth(r)
			r.pass(5 * time.Second)
			r.release(alice)
			r.pass(3 * time.Second)
		},
		wantAlice: "Acquired Released", wantBob: "Acquired", wantHolders: "alice - bob",
	},
	"a claim that was released starts again": {
		run: func(r claimRig) {
			r.start(alice)
			r.pass(5 * time.Second)
			r.release(alice)
			r.pass(5 * time.Second)
			r.start(alice)
			r.pass(30 * time.Second)
		},
		wantAlice: "Acquired Released Acquired", wantHolders: "alice - alice",
	},
	"a holder that is cut off loses in time, and another takes over": {
		run: func(r claimRig) {
			startBoth(r)
			r.pass(15 * time.Second)
			r.cut(alice, time.Minute)
			r.pass(90 * time.Second)
		},
		wantAlice: "Acquired Stalled Expiring Lost", wantBob: "Acquired(unclean)", wantHolders: "alice - bob",
	},
	"a renewal before the deadline keeps the claim": {
		run: func(r claimRig) {
			startBoth(r)
			r.pass(500 * time.Millisecond)
			r.away(9 * time.Second)
			r.pass(40 * time.Second)
		},
		wantAlice: "Acquired Stalled Recovered", wantHolders: "alice",
	},
	"a Lease that was lost and nobody took is taken up again": {
		run: func(r claimRig) {
			r.start(alice)
			r.pass(5 * time.Second)
			r.away(40 * time.Second)
			r.pass(time.Minute)
		},
		wantAlice: "Acquired Stalled Expiring Lost Acquired(again)", wantHolders: "alice",
	},
	"a confirmed death is taken over at once": {
		run: func(r claimRig) {
			startBoth(r)
			r.pass(5 * time.Second)
			r.kill(alice)
			r.pass(2 * time.Second)
			r.confirm(alice)
			r.pass(3 * time.Second)
		},
		wantAlice: "Acquired", wantBob: "Acquired(unclean)", wantHolders: "alice - bob",
	},
	"an unconfirmed death is waited for": {
		run: func(r claimRig) {
			startBoth(r)
			r.pass(5 * time.Second)
			r.kill(alice)
			r.pass(17 * time.Second)
			r.pass(15 * time.Second)
		},
		wantAlice: "Acquired", wantBob: "Acquired(unclean)", wantHolders: "alice - bob",
	},
	"the next container of a Pod takes over at once": {
		run: func(r claimRig) {
			r.start(alice)
			r.pass(5 * time.Second)
			r.kill(alice)
			r.start(restarted)
			r.pass(3 * time.Second)
		},
		wantAlice: "Acquired", wantRestart: "Acquired(unclean)", wantHolders: "alice - restarted",
	},
	"a Lease deleted under its holder is taken back": {
		run: func(r claimRig) {
			startBoth(r)
			r.pass(5 * time.Second)
			r.store(simLease{missing: true})
			r.pass(time.Minute)
		},
		wantAlice: "Acquired", wantHolders: "alice missing - alice",
	},
	"a Lease deleted while its holder is cut off is waited for": {
		run: func(r claimRig) {
			startBoth(r)
			r.pass(15 * time.Second)
			r.cut(alice, time.Minute)
			r.pass(time.Second)
			r.store(simLease{missing: true})
			r.pass(80 * time.Second)
		},
		wantAlice: "Acquired Stalled Expiring Lost", wantBob: "Acquired(unclean)", wantHolders: "alice missing - bob",
	},
	"a Lease emptied by hand is taken back": {
		run: func(r claimRig) {
			startBoth(r)
			r.pass(5 * time.Second)
			r.store(simLease{unsettled: true})
			r.pass(40 * time.Second)
		},
		wantAlice: "Acquired", wantHolders: "alice - alice",
	},
	"a Lease given to another by hand is lost at once": {
		run: func(r claimRig) {
			r.start(alice)
			r.pass(5 * time.Second)
			r.store(simLease{holder: carol})
			r.pass(40 * time.Second)
		},
		wantAlice: "Acquired Lost Acquired(unclean)", wantHolders: "alice carol - alice",
	},
	"a Lease changed by others conflicts, and is renewed": {
		run: func(r claimRig) {
			startBoth(r)
			for range 5 {
				r.pass(1700 * time.Millisecond)
				r.touch()
			}
			r.pass(30 * time.Second)
		},
		wantAlice: "Acquired", wantHolders: "alice",
	},
	"the answer to a renewal is lost": {
		run: func(r claimRig) {
			startBoth(r)
			r.pass(5 * time.Second)
			r.loseAnswer(alice)
			r.pass(time.Minute)
		},
		wantAlice: "Acquired", wantHolders: "alice",
	},
	"the answer to an acquisition is lost": {
		run:       func(r claimRig) { r.loseAnswer(alice); r.start(alice); r.pass(time.Minute) },
		wantAlice: "Acquired", wantHolders: "alice",
	},
	"the answer to an acquisition after a Lease was created is lost": {
		run: func(r claimRig) {
			r.store(simLease{unsettled: true})
			r.start(alice)
			r.pass(10 * time.Second)
			r.loseAnswer(alice)
			r.pass(time.Minute)
		},
		wantAlice: "Acquired(unclean)", wantHolders: "- alice",
	},
	"the answer to a release is lost": {
		run: func(r claimRig) {
			startBoth(r)
			r.pass(5 * time.Second)
			r.loseAnswer(alice)
			r.release(alice)
			r.pass(20 * time.Second)
		},
		wantAlice: "Acquired Released", wantBob: "Acquired", wantHolders: "alice - bob",
	},
	"a Lease of other settings is refused": {
		run: func(r claimRig) {
			r.store(simLease{settings: 2})
			r.start(alice)
			r.pass(3 * time.Second)
		},
		wantAlice: "Refused", wantHolders: "-",
	},
}

// TestClaimAndItsTwin runs every scenario with the product's claim over client-go's elector, and with
// the simulation's twin of it, and wants of both the same: what they tell, when, and whom the Lease names.
func TestClaimAndItsTwin(t *testing.T) {
	for name, tc := range claimScenarios {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRealRig(t)
				tc.run(r)
				product := r.outcome()
				for _, problem := range tc.check(product) {
					t.Error("the claim: " + problem)
				}
				for seed := range uint64(10) {
					twin := newTwinRig(seed, noRule)
					tc.run(twin)
					for _, problem := range append(tc.check(twin.outcome()), product.compare(twin.outcome())...) {
						t.Errorf("the twin, seed %d: %s", seed, problem)
					}
				}
			})
		})
	}
}

// TestContractFindsFaults plants faults in the twin, each of which has to break the contract.
func TestContractFindsFaults(t *testing.T) {
	for _, rule := range []simRule{ruleCreateEmpty, ruleSettle, ruleSettings} {
		t.Run(simRules[rule-1].name, func(t *testing.T) {
			var found []string
			for name, tc := range claimScenarios {
				sound, faulty := newTwinRig(1, noRule), newTwinRig(1, rule)
				tc.run(sound)
				tc.run(faulty)
				if problems := append(tc.check(faulty.outcome()), sound.outcome().compare(faulty.outcome())...); len(problems) > 0 {
					found = append(found, name)
				}
			}
			if len(found) == 0 {
				t.Fatal("no scenario finds it")
			}
			slices.Sort(found)
			t.Log(strings.Join(found, "; "))
		})
	}
}

// check compares an outcome with what is wanted of both.
func (s claimScenario) check(got *claimOutcome) []string {
	var problems []string
	want := map[Identity]string{alice: s.wantAlice, bob: s.wantBob, restarted: s.wantRestart}
	for _, who := range []Identity{alice, bob, restarted} {
		if words := got.words(who); words != want[who] {
			problems = append(problems, fmt.Sprintf("%s was told %q, want %q", nameOf(who), words, want[who]))
		}
	}
	if holders := strings.TrimPrefix(strings.Join(got.holders, " "), "- "); holders != s.wantHolders && "- "+holders != s.wantHolders {
		problems = append(problems, fmt.Sprintf("the holders were %q, want %q", holders, s.wantHolders))
	}
	return problems
}

// compare tells where another outcome differs, also in when something was told.
func (o *claimOutcome) compare(other *claimOutcome) []string {
	var problems []string
	if diff := cmp.Diff(o.holders, other.holders); diff != "" {
		problems = append(problems, "other holders (-want +got):\n"+diff)
	}
	for who, events := range o.events {
		others := other.events[who]
		if len(others) != len(events) {
			problems = append(problems, fmt.Sprintf("%s was told %v, want %v", nameOf(who), others, events))
			continue
		}
		for i, e := range events {
			if (others[i].at - e.at).Abs() > claimTolerance {
				problems = append(problems, fmt.Sprintf("%s was told %s at %s, want it at %s", nameOf(who), e.word, others[i].at, e.at))
			}
		}
	}
	return problems
}

func nameOf(who Identity) string {
	switch who {
	case "":
		return "-"
	case alice:
		return "alice"
	case restarted:
		return "restarted"
	case bob:
		return "bob"
	case carol:
		return "carol"
	}
	return string(who)
}
