package placement

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestShardOfIsFixed pins the hash: with another one, every namespace of a running installation
// would change its shard. The values were computed by another program.
func TestShardOfIsFixed(t *testing.T) {
	cases := map[string]struct {
		settings Settings
		want     Shard
	}{
		"":            {settings: settingsOf(64), want: 38},
		"default":     {settings: settingsOf(64), want: 45},
		"tenant-000":  {settings: settingsOf(64), want: 10},
		"tenant-001":  {settings: settingsOf(1024), want: 953},
		"team-a-prod": {settings: settingsOf(271), want: 220},
		"one":         {settings: settingsOf(1), want: 0},
		"no shards":   {settings: settingsOf(0), want: NoShard},
		"no hash":     {settings: Settings{Shards: 64}, want: NoShard},
	}
	for namespace, tc := range cases {
		if got := tc.settings.ShardOf(namespace); got != tc.want {
			t.Errorf("shard of %q with %s is %d, want %d", namespace, tc.settings, got, tc.want)
		}
	}
}

// TestShardOfSpreadProperty: names as people give them fall as evenly as chance would have it. The
// bound on chi-squared is its mean plus five deviations.
func TestShardOfSpreadProperty(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // G404: a test that can be repeated
	teams := []string{"a", "b", "payments", "search", "data", "ml", "web", "core", "infra", "billing"}
	stages := []string{"dev", "test", "staging", "prod"}
	names := map[string]func(i int) string{
		"tenant-000":     func(i int) string { return fmt.Sprintf("tenant-%03d", i) },
		"tenant-0":       func(i int) string { return fmt.Sprintf("tenant-%d", i) },
		"00000":          func(i int) string { return fmt.Sprintf("%05d", i) },
		"pr-1234":        func(i int) string { return fmt.Sprintf("pr-%d", 1234+i) },
		"pr-1234-review": func(i int) string { return fmt.Sprintf("pr-%d-review", 1234+i) },
		"team-a-prod": func(i int) string {
			return fmt.Sprintf("team-%s-%d-%s", teams[i%10], i/40, stages[i/10%4])
		},
		"UUID": func(int) string {
			a, b := random.Uint64(), random.Uint64()
			return fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>52, b&0xffffffffffff)
		},
	}
	for style, name := range names {
		for _, shards := range []int{16, 64, 256, 1024} {
			for _, perShard := range []int{5, 50} {
				total := perShard * shards
				counts := make([]int, shards)
				for i := range total {
					counts[settingsOf(shards).ShardOf(name(i))]++
				}
				chiSquared := 0.0
				for _, n := range counts {
					d := float64(n - perShard)
					chiSquared += d * d / float64(perShard)
				}
				freedom := float64(shards - 1)
				if d := chiSquared - freedom; d*d > 25*2*freedom && d > 0 {
					t.Errorf("%s, %d names on %d shards: chi-squared %.0f, mean %.0f", style, total, shards, chiSquared, freedom)
				}
			}
		}
	}
}

func TestSettingsValidate(t *testing.T) {
	cases := map[string]struct {
		settings  Settings
		wantField string
	}{
		"default":  {settings: DefaultSettings()},
		"largest":  {settings: settingsOf(MaxShards)},
		"none":     {settings: settingsOf(0), wantField: "shards"},
		"negative": {settings: settingsOf(-64), wantField: "shards"},
		"too many": {settings: settingsOf(MaxShards + 1), wantField: "shards"},
		"no hash":  {settings: Settings{Shards: 64}, wantField: "hash"},
		"new hash": {settings: Settings{Shards: 64, Hash: "sha256"}, wantField: "hash"},
		"both":     {settings: Settings{Shards: -1, Hash: "sha256"}, wantField: "shards"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { wantFieldError(t, tc.settings.Validate(), tc.wantField) })
	}
}

// wantFieldError wants a *FieldError of the field, no error if field is empty.
func wantFieldError(t *testing.T, err error, field string) {
	t.Helper()
	var fieldError *FieldError
	switch {
	case field == "" && err != nil:
		t.Errorf("unexpected: %v", err)
	case field != "" && !errors.As(err, &fieldError):
		t.Errorf("got %v, want an error of field %s", err, field)
	case field != "" && fieldError.Field != field:
		t.Errorf("got field %q (%v), want %q", fieldError.Field, err, field)
	case field != "" && !strings.Contains(err.Error(), field):
		t.Errorf("%q does not name field %q", err, field)
	}
}

func TestSettingsErrorNamesBoth(t *testing.T) {
	err := &SettingsError{Ours: settingsOf(64), Theirs: Settings{Shards: 128, Hash: "other"}}
	for _, part := range []string{"64", HashFNV1aMix, "128", "other"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %q", err, part)
		}
	}
}
