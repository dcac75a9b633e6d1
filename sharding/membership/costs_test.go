package membership

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.com/redis-operator/sharding/placement"
)

func TestParseCosts(t *testing.T) {
	cases := map[string]struct {
		text string
		want map[placement.Shard]placement.Cost
	}{
		"nothing":               {"", nil},
		"what is written":       {"3=120/1500,11=4/0", map[placement.Shard]placement.Cost{3: {Objects: 120, Milliseconds: 1500}, 11: {Objects: 4}}},
		"only what is readable": {"x=1/2,3=4,5=6/7,8=9/-1,-1=0/0,10=1e9/3,,", map[placement.Shard]placement.Cost{5: {Objects: 6, Milliseconds: 7}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := parseCosts(tc.text)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if again := parseCosts(formatCosts(got)); !cmp.Equal(got, again) {
				t.Errorf("written and read again: %v", again)
			}
		})
	}
}
