package stage

import (
	"testing"
	"time"
)

// The clocks of the processes have nothing to do with each other.
func admission(identity, epoch string, clock int) Transition {
	return Transition{Step: Admitted, Pod: identity[:1], Identity: identity, Shard: 7, Epoch: epoch, Monotonic: time.Duration(clock)}
}

func TestMoves(t *testing.T) {
	cases := map[string]struct {
		transitions []Transition
		want        int
	}{
		"none":              {nil, 0},
		"first admission":   {[]Transition{admission("a1", "9", 1)}, 0},
		"there and back":    {[]Transition{admission("a1", "9", 50), admission("b1", "10", 7), admission("a2", "11", 60)}, 2},
		"told out of order": {[]Transition{admission("a2", "11", 60), admission("a1", "9", 50), admission("b1", "10", 7)}, 2},
		"admitted again by the same process": {[]Transition{
			admission("a1", "9", 50), admission("a1", "9", 55), admission("a1", "10", 60), admission("b1", "11", 7)}, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Moves(tc.transitions)[7]; got != tc.want {
				t.Errorf("Moves = %d, want %d", got, tc.want)
			}
		})
	}
}

// The newest admission is that of the greatest epoch, though another machine's clock shows more.
func TestTakeoversOfUnrelatedClocks(t *testing.T) {
	got := Takeovers([]Transition{admission("a1", "99", 5000), admission("b1", "100", 3)})
	if got[7].Identity != "b1" {
		t.Errorf("Takeovers = %+v, want b1", got)
	}
	stopped := admission("b1", "100", 4)
	stopped.Step = Stopped
	if got := Takeovers([]Transition{admission("a1", "99", 5000), admission("b1", "100", 3), stopped}); len(got) != 0 {
		t.Errorf("Takeovers = %+v after the end, want none", got)
	}
}

// Clocks that have nothing in common are no reason to report anything; one epoch of two processes is.
func TestOverlapsWithoutSharedClock(t *testing.T) {
	c := &LogCollector{}
	c.transitions = []Transition{admission("a1", "99", 5000), admission("b1", "100", 3), admission("a2", "101", 5001)}
	stopped := admission("a1", "99", 5002)
	stopped.Step = Stopped
	c.transitions = append(c.transitions, stopped)
	if got := c.Overlaps(); len(got) != 0 {
		t.Errorf("Overlaps = %q, want none", got)
	}
	c.transitions = append(c.transitions, admission("b2", "101", 6))
	if got := c.Overlaps(); len(got) != 1 {
		t.Errorf("Overlaps = %q, want one for epoch 101", got)
	}
}

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
