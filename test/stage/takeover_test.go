package stage

import (
	"testing"
	"time"
)

func TestOverlaps(t *testing.T) {
	line := func(step Step, pod, identity string, at int) Transition {
		return Transition{Step: step, Pod: pod, Identity: identity, Shard: 7, Monotonic: time.Duration(at)}
	}
	cases := map[string]struct {
		transitions []Transition
		kills       []Kill
		want        int
	}{
		"handed over": {transitions: []Transition{
			line(Admitted, "a", "a1", 1), line(Stopped, "a", "a1", 2), line(Admitted, "b", "b1", 3)}},
		"handed over, told late": {transitions: []Transition{
			line(Admitted, "b", "b1", 3), line(Admitted, "a", "a1", 1), line(Stopped, "a", "a1", 2)}},
		"admitted too early": {want: 1, transitions: []Transition{
			line(Admitted, "a", "a1", 1), line(Admitted, "b", "b1", 2), line(Stopped, "a", "a1", 3)}},
		"never stopped": {want: 1, transitions: []Transition{
			line(Admitted, "a", "a1", 1), line(Admitted, "b", "b1", 3)}},
		"killed": {kills: []Kill{{Pod: "a", At: 2}}, transitions: []Transition{
			line(Admitted, "a", "a1", 1), line(Admitted, "b", "b1", 3)}},
		"killed after the takeover": {want: 1, kills: []Kill{{Pod: "a", At: 4}}, transitions: []Transition{
			line(Admitted, "a", "a1", 1), line(Admitted, "b", "b1", 3)}},
		"another Pod was killed": {want: 1, kills: []Kill{{Pod: "c", At: 2}}, transitions: []Transition{
			line(Admitted, "a", "a1", 1), line(Admitted, "b", "b1", 3)}},
		"admitted again by the same process": {transitions: []Transition{
			line(Admitted, "a", "a1", 1), line(Admitted, "a", "a1", 3)}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Overlaps(tc.transitions, tc.kills); len(got) != tc.want {
				t.Errorf("Overlaps = %q, want %d", got, tc.want)
			}
		})
	}
}
