package placement

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// realNames are a thousand names of each kind that clusters have.
func realNames() map[string][]string {
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // G404: a test that can be repeated
	kinds := map[string]func(i int) string{
		"tenant-000":  func(i int) string { return fmt.Sprintf("tenant-%03d", i) },
		"pr-1234":     func(i int) string { return fmt.Sprintf("pr-%d", 1234+i) },
		"team-a-prod": func(i int) string { return fmt.Sprintf("team-%c%c-prod", 'a'+i/26%26, 'a'+i%26) + fmt.Sprint(i/676) },
		"stages": func(i int) string {
			return fmt.Sprintf("shop-%d-%s", i/4, []string{"dev", "test", "staging", "prod"}[i%4])
		},
		"UUID": func(int) string {
			a, b := random.Uint64(), random.Uint64()
			return fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>52, b&0xffffffffffff)
		},
	}
	names := make(map[string][]string)
	for kind, name := range kinds {
		for i := range 1000 {
			names[kind] = append(names[kind], name(i))
		}
	}
	return names
}

// TestNeighboursProperty: names that follow each other, as those of one team or one day do, share a
// shard no more often than any two names. The bound is chance plus five deviations.
func TestNeighboursProperty(t *testing.T) {
	for kind, names := range realNames() {
		for _, shards := range []int{16, 64, 100, 1024} {
			for _, apart := range []int{1, 2, 10} {
				together, pairs := 0, len(names)-apart
				for i := range pairs {
					if settingsOf(shards).ShardOf(names[i]) == settingsOf(shards).ShardOf(names[i+apart]) {
						together++
					}
				}
				chance := float64(pairs) / float64(shards)
				if float64(together) > chance+5*math.Sqrt(chance)+1 {
					t.Errorf("%s, %d apart: %d of %d pairs share one of %d shards, by chance %.0f",
						kind, apart, together, pairs, shards, chance)
				}
			}
		}
	}
}

// TestFullestShardProperty: of a thousand namespaces of one kind, or of all kinds together, every
// one of 64 shards has its part, give or take 4.5 deviations.
func TestFullestShardProperty(t *testing.T) {
	all := realNames()
	var mixed []string
	for _, names := range all {
		mixed = append(mixed, names[:200]...)
	}
	all["mixed"] = mixed
	for kind, names := range all {
		counts := make([]int, DefaultShards)
		for _, name := range names {
			counts[DefaultSettings().ShardOf(name)]++
		}
		part := float64(len(names)) / DefaultShards
		for shard, n := range counts {
			if deviations := (float64(n) - part) / math.Sqrt(part); math.Abs(deviations) > 4.5 {
				t.Errorf("%s: shard %d has %d of %d namespaces", kind, shard, n, len(names))
			}
		}
	}
}

// TestHashAvalancheProperty: a change of one bit of a name changes every bit of the hash for half of
// the names. FNV-1a alone fails it for the last bytes, which is where names differ.
func TestHashAvalancheProperty(t *testing.T) {
	for kind, names := range realNames() {
		var flips [64]int
		trials := 0
		for _, name := range names {
			for last := len(name) - 3; last < len(name); last++ {
				changed := []byte(name)
				changed[last] ^= 1
				difference := mix(fnv1a(name)) ^ mix(fnv1a(changed))
				for ; difference != 0; difference &= difference - 1 {
					flips[bits.TrailingZeros64(difference)]++
				}
				trials++
			}
		}
		for bit, n := range flips {
			if part := float64(n) / float64(trials); part < 0.45 || part > 0.55 {
				t.Errorf("%s: bit %d changes for %.2f of the names", kind, bit, part)
			}
		}
	}
}
