package claim_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/shardingtest"
)

// Watches that end at once are begun again with a pause, and the lists between them still time a
// holder that is gone.
func TestWatchesThatEndAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := installed(t)
		heldBy(t, api, bob, 10)
		deaf := &shardingtest.Deaf{LeasesGetter: api}
		p := &process{t: t, api: api}
		o := p.options(alice)
		o.Client = deaf
		set, err := claim.NewSet(o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = set.Run(ctx) }()
		synctest.Wait()
		before := deaf.Watches.Load()
		pass(30 * time.Second)
		if n := deaf.Watches.Load() - before; n < 15 || n > 40 {
			t.Errorf("%d watches in 30 s, want one every second or so", n)
		}
		set.Claim(0).Start(ctx)
		synctest.Wait()
		p.wantTold("Acquired")
		set.Stop()
	})
}
