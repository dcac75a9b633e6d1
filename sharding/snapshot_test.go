package sharding

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"example.com/redis-operator/sharding/placement"
)

// A shard is unowned not only while its Lease is free.
func TestUnownedShards(t *testing.T) {
	const dead, unknown = Identity("op-2_uid2_n0"), Identity("op-3_uid3_n0")
	holders := []Identity{selfID, otherID, "", dead, unknown, otherID} // shard 6 was not seen
	synctest.Test(t, func(t *testing.T) {
		c := newCoordinator(t)
		c.beginWithClaims(t)
		show := func(shard int, version string) {
			c.claims.Claim(Shard(shard)).Observe(&coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{ResourceVersion: version},
				Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(string(holders[shard]))},
			})
		}
		for shard := range holders {
			show(shard, "5")
		}
		c.look()
		if got := unowned(c.observe()); !slices.Equal(got, []Shard{2}) {
			t.Errorf("without a placement, unowned are %v, want those with a free Lease", got)
		}
		p := placement.New(c.options.settings(), c.options.timings())
		p.Version = "10"
		p.Processes = []placement.Process{
			{Identity: selfID, Member: "op-0", State: placement.Serving, Joined: 1},
			{Identity: otherID, Member: "op-1", State: placement.Leaving, Joined: 2},
			{Identity: dead, Member: "op-2", State: placement.Dead, Cause: placement.Expired, Joined: 3},
		}
		c.machine.p = &p
		if got := unowned(c.observe()); !slices.Equal(got, []Shard{2, 3, 4}) {
			t.Errorf("unowned are %v, want also those of dead and unknown processes", got)
		}
		<-time.After(9 * time.Second)
		show(1, "6")
		<-time.After(2 * time.Second)
		if got := unowned(c.observe()); !slices.Equal(got, []Shard{2, 3, 4, 5}) {
			t.Errorf("unowned are %v, want also the one that was not renewed", got)
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(newGauges(func() Snapshot { return *c.observe() }))
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if got := family.GetMetric()[0].GetGauge().GetValue(); family.GetName() == "sharding_shards_unowned" && got != 4 {
				t.Errorf("the metric says %v, want 4", got)
			}
		}
		c.claims.Stop()
		c.running.Wait()
	})
}

func unowned(s *Snapshot) []Shard {
	var shards []Shard
	for _, shard := range s.Shards {
		if shard.Unowned {
			shards = append(shards, shard.Shard)
		}
	}
	return shards
}
