package sharding

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
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

// The states that a shard can be in and those that are counted are the same.
func TestShardStates(t *testing.T) {
	reached := map[string]bool{}
	for _, holding := range []claimState{claimNone, claimContending, claimHeld, claimReleasing} {
		for _, loaded := range []scopeState{scopesNone, scopesWarming, scopesWarm} {
			for _, admission := range []admissionState{notAdmitting, admitting, draining} {
				for _, suspended := range []bool{false, true} {
					s := shardState{claim: holding, scopes: loaded, admission: admission, suspended: suspended, epoch: "5"}
					reached[s.describe()] = true
				}
			}
		}
	}
	delete(reached, stateIdle)
	registry := prometheus.NewRegistry()
	registry.MustRegister(newGauges(func() Snapshot { return Snapshot{} }))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var labelled []string
	for _, family := range families {
		if family.GetName() == "sharding_shards" {
			for _, metric := range family.GetMetric() {
				labelled = append(labelled, metric.GetLabel()[0].GetValue())
			}
		}
	}
	want := slices.Sorted(slices.Values(shardStates))
	if got := slices.Sorted(maps.Keys(reached)); !slices.Equal(got, want) {
		t.Errorf("shards can be %v, counted are %v", got, want)
	}
	if got := slices.Sorted(slices.Values(labelled)); !slices.Equal(got, want) {
		t.Errorf("the metric has states %v, counted are %v", got, want)
	}
}

func TestShardStatesAreDocumented(t *testing.T) {
	for file, pattern := range map[string]string{
		"metrics.go":                  `sharding_shards\{state\} .* by state: (.*)\n`,
		"../docs/operations.md":       "`sharding_shards\\{state\\}` .* by state: (.*) \\|\n",
		"../dashboards/sharding.json": `the shards that the replicas deal with\? Bad: (.*) that does not end`,
	} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(pattern).FindSubmatch(content)
		if found == nil {
			t.Errorf("%s does not list the states", file)
			continue
		}
		var listed []string
		for _, word := range regexp.MustCompile(`, | or `).Split(string(found[1]), -1) {
			listed = append(listed, word)
			if !slices.Contains(shardStates, word) {
				t.Errorf("%s names a state %q, which does not exist", file, word)
			}
		}
		if !strings.HasSuffix(file, ".json") && len(listed) != len(shardStates) {
			t.Errorf("%s lists %v, there are %v", file, listed, shardStates)
		}
	}
}
