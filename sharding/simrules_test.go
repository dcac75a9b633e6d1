package sharding

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// simRule is a rule of the protocol that a simulation can do without, to see that it is needed.
type simRule int

const (
	noRule simRule = iota
	ruleSwapP
	ruleSwapAcquire
	ruleSwapEmpty
	ruleRelease
	ruleVerify
	ruleNonce
	ruleSent
	ruleMonotonic
	ruleDeadline
	ruleEpoch
	ruleConfirmed
	rulePodGone
	ruleWarm
	ruleDrain
	ruleReplay
	ruleEcho
	ruleSettings
	ruleCreateEmpty
	ruleSettle
	ruleMissingP
)

// simRules says of each rule what it is. docs/reliability.md has the same table, with what was found.
var simRules = []struct {
	rule simRule
	name string
}{
	{ruleSwapP, "P is written over the version that it was computed from"},
	{ruleSwapAcquire, "a shard Lease is acquired and renewed over the version known"},
	{ruleSwapEmpty, "an expired Lease is emptied over the version timed"},
	{ruleRelease, "a Lease is released over the own last version"},
	{ruleVerify, "a death is recorded for the version timed, after a read"},
	{ruleNonce, "every process and every rejoin has an identity of its own"},
	{ruleSent, "a claim counts from when its renewal was sent"},
	{ruleMonotonic, "clocks are read monotonically"},
	{ruleDeadline, "every call is checked against the claim's deadline"},
	{ruleEpoch, "every call is checked against the epoch it was admitted under"},
	{ruleConfirmed, "only a confirmed death empties a Lease early"},
	{rulePodGone, "a Pod that is gone confirms no death"},
	{ruleWarm, "the winner is warm before the loser drains"},
	{ruleDrain, "calls in flight end before the release"},
	{ruleReplay, "everything is replayed on admission"},
	{ruleEcho, "own writes have to come back on the watch"},
	{ruleSettings, "Leases of other settings are refused"},
	{ruleCreateEmpty, "a missing Lease is created without a holder"},
	{ruleSettle, "a Lease that was created is waited for"},
	{ruleMissingP, "a missing P is waited for"},
}

// breakMachine switches off those rules that the machine keeps by itself.
func (p *simProcess) breakMachine() {
	m := p.machine
	switch p.w.off {
	case ruleWarm:
		if m.p == nil {
			return
		}
		for identity, seen := range m.presences {
			seen.Placement, seen.Warmed = m.p.Version, nil
			for shard := range m.shards {
				seen.Warmed = append(seen.Warmed, Shard(shard))
			}
			m.presences[identity] = seen
		}
	case ruleMissingP:
		if m.p == nil && !m.absentSince.IsZero() {
			m.absentSince = p.now().Add(-m.config.LeaseDuration)
		}
	}
}

// TestSimulationFindsMissingRules switches each rule off in turn. The simulation has to notice within
// a thousand seeds: else it would not notice either if the code lost the rule.
func TestSimulationFindsMissingRules(t *testing.T) {
	const most = 1000
	for _, tc := range simRules {
		t.Run(tc.name, func(t *testing.T) {
			found := search(1, most, func(seed uint64) *simWorld { return simulate(seed, tc.rule, false) })
			if found == nil {
				t.Fatalf("no violation in %d seeds", most)
			}
			t.Logf("seed %d: %s", found.seed, found.violation.text)
		})
	}
}

// search runs seeds on all processors and returns the world of the first that is violated, nil if none
// is. Which one that is does not depend on the processors.
func search(first, last uint64, run func(seed uint64) *simWorld) *simWorld {
	var next atomic.Uint64
	next.Store(first - 1)
	var mu sync.Mutex // guards found
	var found *simWorld
	isNeeded := func(seed uint64) bool {
		mu.Lock()
		defer mu.Unlock()
		return seed <= last && (found == nil || seed < found.seed)
	}
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for seed := next.Add(1); isNeeded(seed); seed = next.Add(1) {
				w := run(seed)
				mu.Lock()
				if w.violation != nil && (found == nil || seed < found.seed) {
					found = w
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return found
}
