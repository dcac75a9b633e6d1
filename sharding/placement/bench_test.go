package placement

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkPlace measures what each replica computes when the members change, when one of them
// dies, and when nothing has changed.
func BenchmarkPlace(b *testing.B) {
	for _, shards := range []int{64, 1024} {
		for _, n := range []int{3, 50} {
			steady := Place(New(settingsOf(shards), Timings{}), operators(n))
			for i, member := range steady.Expected {
				steady.Processes = append(steady.Processes, Process{
					Identity: identityOf(member, i, 0), Member: member, State: Serving, Joined: i + 1,
				})
			}
			steady = Place(steady, steady.Expected)
			death := steady.Clone()
			death.Processes[0].State, death.Processes[0].Cause = Dead, Expired
			random := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // G404: a benchmark that can be repeated
			weighted := withWeights(steady, weightsOf(random, "zipf", shards))
			balanced := Place(weighted, operators(n))
			cases := []struct {
				name    string
				p       Placement
				members []Member
			}{
				{"steady", steady, operators(n)},
				{"death", death, operators(n)},
				{"one more", steady, operators(n + 1)},
				{"weighted", balanced, operators(n)},
				{"first weights", weighted, operators(n)},
				{"one more, weighted", balanced, operators(n + 1)},
				{"first", New(settingsOf(shards), Timings{}), operators(n)},
			}
			for _, bc := range cases {
				b.Run(fmt.Sprintf("shards=%d/members=%d/%s", shards, n, bc.name), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						Place(bc.p, bc.members)
					}
				})
			}
		}
	}
}

func BenchmarkShardOf(b *testing.B) {
	settings := DefaultSettings()
	b.ReportAllocs()
	for b.Loop() {
		settings.ShardOf("team-payments-prod")
	}
}
