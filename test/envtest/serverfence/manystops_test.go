package serverfence_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// trialsVariable is how many trials TestManyStops makes of each half of the fence.
const trialsVariable = "FENCE_TRIALS"

// TestManyStops makes the trial of TestStoppedInMidReconcile again and again, each process stopped at
// another moment, and holds each half of the fence to what it promises by itself: the server's that no
// stale write is accepted, the guard's that no call is begun once the clock has passed the claim's deadline.
// What the guard cannot help, a call that was stopped between its check and the wire, is counted.
func TestManyStops(t *testing.T) {
	trials := trialsWanted(t)
	cases := map[string]struct {
		guarded, fenced bool
		wantLine        string
	}{
		"the server's half alone": {false, true, "refused by the server"},
		"the guard's half alone":  {true, false, "refused by the guard"},
	}
	for name, tc := range cases {
		sum := trialSum{lines: map[string]int{}}
		t.Run(name, func(t *testing.T) {
			for i := range trials {
				t.Run(strconv.Itoa(i+1), func(t *testing.T) {
					t.Parallel()
					after := time.Duration(rand.IntN(300_000)) * time.Microsecond
					sum.add(newTrialStage(t, tc.fenced).stopAndGoOn(t, tc.guarded, tc.wantLine, after))
				})
			}
		})
		t.Logf("%s, %s", name, &sum)
		if sum.trials != trials {
			t.Errorf("%s: %d of %d trials were made", name, sum.trials, trials)
		}
		if tc.fenced && sum.stale > 0 {
			t.Errorf("%s: the server accepted %d stale writes", name, sum.stale)
		}
		if tc.guarded && sum.lines[late] > 0 {
			t.Errorf("%s: %d calls were begun past the deadline", name, sum.lines[late])
		}
		if explained := sum.lines[caught] + sum.lines[exited]; sum.stale > explained {
			t.Errorf("%s: %d stale writes were accepted, and %d calls were caught", name, sum.stale, explained)
		}
	}
}

// trialSum adds up trials.
type trialSum struct {
	mu     sync.Mutex // guards the rest
	trials int
	stale  int
	lines  map[string]int
}

func (s *trialSum) add(r trialResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trials++
	s.stale += r.stale
	for line, count := range r.lines {
		s.lines[line] += count
	}
}

// String is for the log.
func (s *trialSum) String() string {
	return fmt.Sprintf("%d trials: %d stale writes accepted; the processes say %v", s.trials, s.stale, s.lines)
}

func trialsWanted(t *testing.T) int {
	t.Helper()
	text := os.Getenv(trialsVariable)
	if text == "" {
		if os.Getenv("TEST_ALL") != "" {
			return 100
		}
		return 2
	}
	trials, err := strconv.Atoi(text)
	if err != nil || trials < 1 {
		t.Fatalf("%s=%s is no number of trials", trialsVariable, text)
	}
	return trials
}
