package sharding

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
)

// newCoordinator is one whose actions on the guard can be performed; it reaches no API.
func newCoordinator(t *testing.T) *coordinator {
	t.Helper()
	s, err := New(&rest.Config{}, validOptions())
	if err != nil {
		t.Fatal(err)
	}
	noNames := func(Shard) map[string]int { return nil }
	return &coordinator{
		scopes: newScopes(logr.Discard(), nil, noNames, s.ShardOf), holders: map[Shard]Identity{},
		s: s, options: s.options, log: logr.Discard(), queue: newEventQueue(), failed: make(chan error, 1), work: t.Context(),
		history: &history{metrics: s.metrics, shards: map[Shard]*shardHistory{}},
	}
}

// A drain takes effect before the next action is begun, whenever its goroutine runs.
func TestDrainClosesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCoordinator(t)
		deadline := time.Now().Add(time.Minute)
		admit := func() { c.s.guard.Admit(3, "5", func() time.Time { return deadline }) }
		admit()
		namespace := namespaceOf(c.s, 3)
		ctx, done, err := c.s.guard.Enter(t.Context(), namespace)
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		c.perform(StopAdmitting{Shard: 3, Epoch: "5", Cause: CauseHandover})
		c.perform(Drain{Shard: 3, Seq: 1})
		if err := c.s.guard.Check(ctx); !errors.Is(err, ErrDraining) {
			t.Errorf("Check answers %v right after the drain was begun, want ErrDraining", err)
		}
		admit()
		synctest.Wait()
		if !c.s.guard.Admits(3) {
			t.Error("a drain that ran late closed a shard that is admitted again")
		}
		c.running.Wait()
	})
}

// namespaceOf finds a namespace of a shard.
func namespaceOf(s *Sharding, shard Shard) string {
	for name := "x"; ; name += "x" {
		if s.ShardOf(name) == shard {
			return name
		}
	}
}
