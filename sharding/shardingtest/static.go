package shardingtest

import (
	"fmt"
	"sync"
	"time"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/guard"
	"example.com/redis-operator/sharding/placement"
)

// Static is a real guard without claims: it owns the shards of the namespaces that it is told of, or
// all. It has so many shards that the namespaces of a test hardly ever share one; where that matters,
// compare Guard.ShardOf.
//
// Safe for concurrent use.
type Static struct {
	*guard.Guard

	mu    sync.Mutex // guards epoch
	epoch int
}

// NewStatic returns a guard that owns the given namespaces; without any, every namespace there is. It
// panics on options that guard.New refuses, of which there are none.
func NewStatic(namespaces ...string) *Static {
	settings := placement.Settings{Shards: placement.MaxShards, Hash: placement.HashFNV1aMix}
	g, err := guard.New(guard.Options{Settings: settings})
	if err != nil {
		panic(fmt.Sprintf("building a static guard: %v", err)) //nolint:forbidigo // unreachable: the settings are constants
	}
	s := &Static{Guard: g}
	for _, namespace := range namespaces {
		s.Own(namespace)
	}
	if len(namespaces) == 0 {
		for shard := range placement.Shard(settings.Shards) {
			s.admit(shard)
		}
	}
	return s
}

// Own begins to own a namespace, under a new epoch.
func (s *Static) Own(namespace string) { s.admit(s.ShardOf(namespace)) }

// Lose ends to own a namespace, at once and without a drain, and tells those who registered with
// Dropped.
func (s *Static) Lose(namespace string) {
	s.Revoke(s.ShardOf(namespace))
	s.NotifyDropped(namespace)
}

func (s *Static) admit(shard placement.Shard) {
	s.mu.Lock()
	s.epoch++
	epoch := claim.Epoch(fmt.Sprint(s.epoch))
	s.mu.Unlock()
	never := time.Now().Add(100 * 365 * 24 * time.Hour)
	s.Admit(shard, epoch, func() time.Time { return never })
}
