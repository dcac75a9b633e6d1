package sharding

import (
	"fmt"
	"net/http"
	"testing"

	"example.com/redis-operator/sharding"
)

// A replica that owns nothing is ready, caches nothing and reconciles nothing.
func TestMoreReplicasThanShards(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, 2)
	namespaces := i.fill(4)
	i.scale(3)
	for ordinal := range 3 {
		i.start(ordinal)
	}
	i.eventually("two shards are served", i.isServed)
	i.eventually("every root object is reconciled", func() string { return i.isReconciled(namespaces) })
	idle := 0
	i.eventually("all replicas are ready and one owns nothing", func() string {
		idle = 0
		for _, r := range i.replicas {
			if err := r.sharding.ReadyCheck(&http.Request{}); err != nil {
				return fmt.Sprintf("%s is not ready: %v", r.member, err)
			}
			if s := r.sharding.Snapshot(); len(s.Admitted()) == 0 && cached(s) == 0 {
				idle++
			}
		}
		if idle != 1 {
			return fmt.Sprintf("%d replicas own and cache nothing", idle)
		}
		return ""
	})
}

// cached is how many namespaces a replica caches.
func cached(s sharding.Snapshot) int {
	scopes := 0
	for _, shard := range s.Shards {
		scopes += shard.Scopes
	}
	return scopes
}

// A rolling restart moves a shard at most twice, and all are home again.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, 8)
	namespaces := i.fill(12)
	i.scale(3)
	for ordinal := range 3 {
		i.start(ordinal)
	}
	i.eventually("three replicas share", func() string { return i.isBalanced(3) })
	i.eventually("every root object is reconciled", func() string { return i.isReconciled(namespaces) })
	homes := i.replicas[0].sharding.Snapshot().Placement.Homes
	before := map[sharding.Shard]int{}
	for shard := range sharding.Shard(8) {
		before[shard] = len(i.recorder.ownersOf(shard))
	}

	for ordinal := range 3 {
		i.replicas[ordinal].stop()
		i.deletePod(ordinal)
		restarted := i.start(ordinal)
		restarted.identity(t)
		i.eventually("all shards are home again", i.isServed)
		i.eventually("every root object is reconciled", func() string { return i.isReconciled(namespaces) })
	}
	after := i.replicas[len(i.replicas)-1].sharding.Snapshot().Placement.Homes
	for shard := range sharding.Shard(8) {
		if homes[shard] != after[shard] {
			t.Errorf("I4: the home of shard %d moved from %s to %s", shard, homes[shard], after[shard])
		}
		// Each move begins with the first call of the next owner.
		if moved := len(i.recorder.ownersOf(shard)) - before[shard]; moved > 2 {
			t.Errorf("I4: shard %d moved %d times: %v", shard, moved, i.recorder.ownersOf(shard))
		}
	}
}
