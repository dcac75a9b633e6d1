package sharding

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"example.com/redis-operator/sharding/claim"
)

func TestHistory(t *testing.T) {
	start := time.Unix(1000, 0)
	cases := map[string]struct {
		acquired     ClaimChanged
		ownedUntil   time.Time
		admit        []Cause // one after another, a second apart, from two seconds after start on
		wantWinner   float64
		wantUnowned  float64
		wantFailover map[string]float64
	}{
		"a handover":          {ClaimChanged{}, start, []Cause{CauseHandover}, 1, 2, nil},
		"never owned":         {ClaimChanged{}, time.Time{}, []Cause{CauseHandover}, 0, 0, nil},
		"its own again":       {ClaimChanged{Again: true}, start, []Cause{CauseRecovered}, 0, 2, nil},
		"admitted again":      {ClaimChanged{}, start, []Cause{CauseHandover, CauseRecovered}, 1, 2, nil},
		"an unclean takeover": {ClaimChanged{Unclean: true}, start, []Cause{CauseFailover}, 0, 2, map[string]float64{"expired": 1}},
		"a confirmed death": {
			ClaimChanged{Unclean: true, Vacated: claim.EmptyConfirmed}, start, []Cause{CauseFailover}, 0, 2, map[string]float64{"confirmed": 1},
		},
		"an older process of the own Pod": {
			ClaimChanged{Unclean: true, Vacated: claim.EmptyOwnPod}, start, []Cause{CauseFailover}, 0, 2, map[string]float64{"confirmed": 1},
		},
		"an expired Lease": {
			ClaimChanged{Unclean: true, Vacated: claim.EmptyExpired}, start, []Cause{CauseFailover}, 0, 2, map[string]float64{"expired": 1},
		},
		"admitted after drain": {ClaimChanged{}, start, []Cause{CauseHandover, CauseDrainOver}, 1, 2, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := newMetrics()
			h := &history{metrics: m, shards: map[Shard]*shardHistory{}}
			tc.acquired.Type = claim.Acquired
			h.claimChanged(tc.acquired, tc.ownedUntil)
			for n, cause := range tc.admit {
				h.admitted(Admit{Cause: cause}, start.Add(time.Duration(2+n)*time.Second))
			}
			if got := counted(t, m.handovers.WithLabelValues("winner")); got != tc.wantWinner {
				t.Errorf("%v handovers won, want %v", got, tc.wantWinner)
			}
			if got := counted(t, m.unownedSeconds); got != tc.wantUnowned {
				t.Errorf("%v shard-seconds unowned, want %v", got, tc.wantUnowned)
			}
			for _, cause := range []string{"confirmed", "expired"} {
				if got := counted(t, m.failovers.WithLabelValues(cause)); got != tc.wantFailover[cause] {
					t.Errorf("%v failovers by %s, want %v", got, cause, tc.wantFailover[cause])
				}
			}
		})
	}
}

// counted is the value of one counter.
func counted(t *testing.T, counter prometheus.Counter) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(counter)
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("gathered %v, %v", families, err)
	}
	return families[0].GetMetric()[0].GetCounter().GetValue()
}
