package rediscluster

import (
	"testing"

	"example.com/redis-operator/controllers/rediscluster/plan"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestTurns(t *testing.T) {
	rolling := plan.Plan{Phase: plan.PhaseRolling, Steps: []plan.Step{{Kind: plan.Replace}}, Roll: plan.Roll{Outdated: 2}}
	between := plan.Plan{Phase: plan.PhaseRepairing, Roll: plan.Roll{Outdated: 1, Awaits: "a node"}}
	over := plan.Plan{Phase: plan.PhaseSettled}
	a, b := client.ObjectKey{Namespace: "n", Name: "a"}, client.ObjectKey{Namespace: "n", Name: "b"}
	turns := newTurns(1)
	admitted := func(key client.ObjectKey, isPaused bool, next plan.Plan) bool {
		return turns.admit(key, isPaused, next).IsRolling()
	}
	if !admitted(a, false, rolling) || admitted(b, false, rolling) {
		t.Error("want the first to be admitted and the second to wait")
	}
	if held := turns.admit(b, false, rolling); !held.Settled() || held.Roll.Awaits == "" {
		t.Errorf("a whole cluster that waits for its turn: %+v", held)
	}
	turns.admit(a, false, between)
	if admitted(b, false, rolling) || !admitted(a, false, rolling) {
		t.Error("want the first to keep its turn while a node is on its way")
	}
	turns.admit(a, false, over)
	if !admitted(b, false, rolling) {
		t.Error("want the second to have its turn once the first is done")
	}
	turns.admit(b, true, rolling)
	if !admitted(a, false, rolling) {
		t.Error("want a cluster that is paused to give its turn up")
	}
	turns.drop(func(key client.ObjectKey) bool { return key == a })
	if !admitted(b, false, rolling) {
		t.Error("want a cluster that is gone to give its turn up")
	}
}
