package stage

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestGaps(t *testing.T) {
	line := func(step Step, pod, identity string, at int) Transition {
		return Transition{Step: step, Pod: pod, Identity: identity, Shard: 7, Monotonic: time.Duration(at)}
	}
	cases := map[string]struct {
		transitions []Transition
		kills       []Kill
		want        []Gap
		wantLengths []time.Duration
	}{
		"handed over, told late": {
			transitions: []Transition{
				line(Admitted, "b", "b1", 5), line(Admitted, "a", "a1", 1), line(Stopped, "a", "a1", 2)},
			want:        []Gap{{Shard: 7, From: "a1", To: "b1", ToPod: "b", Start: 2, Admitted: 5}},
			wantLengths: []time.Duration{3},
		},
		"until the first reconcile of that admission": {
			transitions: []Transition{
				line(Admitted, "a", "a1", 1), line(FirstReconciled, "a", "a1", 2), line(Stopped, "a", "a1", 3),
				line(Admitted, "b", "b1", 5), line(FirstReconciled, "b", "b1", 9)},
			want:        []Gap{{Shard: 7, From: "a1", To: "b1", ToPod: "b", Start: 3, Admitted: 5, Reconciled: 9}},
			wantLengths: []time.Duration{6},
		},
		"stopped and gone on": {
			transitions: []Transition{
				line(Admitted, "a", "a1", 1), line(Stopped, "a", "a1", 2), line(Admitted, "a", "a1", 6)},
			want:        []Gap{{Shard: 7, From: "a1", To: "a1", ToPod: "a", Start: 2, Admitted: 6}},
			wantLengths: []time.Duration{4},
		},
		"killed, the second time": {
			kills:       []Kill{{Pod: "a", At: 3}, {Pod: "a", At: 8}},
			transitions: []Transition{line(Admitted, "a", "a2", 4), line(Admitted, "b", "b1", 9)},
			want:        []Gap{{Shard: 7, From: "a2", To: "b1", ToPod: "b", Killed: true, Start: 8, Admitted: 9}},
			wantLengths: []time.Duration{1},
		},
		"overlapping: no gap": {
			transitions: []Transition{line(Admitted, "a", "a1", 1), line(Admitted, "b", "b1", 3), line(Stopped, "a", "a1", 4)},
		},
		"admitted once": {transitions: []Transition{line(Admitted, "a", "a1", 1), line(FirstReconciled, "a", "a1", 2)}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			gaps := Gaps(tc.transitions, tc.kills)
			if diff := cmp.Diff(tc.want, gaps); diff != "" {
				t.Errorf("gaps (-want +got):\n%s", diff)
			}
			var lengths []time.Duration
			for _, gap := range gaps {
				lengths = append(lengths, gap.Length())
			}
			if diff := cmp.Diff(tc.wantLengths, lengths); diff != "" {
				t.Errorf("lengths (-want +got):\n%s", diff)
			}
		})
	}
}
