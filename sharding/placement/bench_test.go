package placement

import (
	"fmt"
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
			cases := []struct {
				name    string
				p       Placement
				members []Member
			}{
				{"steady", steady, operators(n)},
				{"death", death, operators(n)},
				{"one more", steady, operators(n + 1)},
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
