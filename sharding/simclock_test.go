package sharding

import (
	"testing"
	"time"
	"unsafe"
)

// goTime is how package time lays out a Time; TestSimulatedTime fails if that changes.
type goTime struct {
	wall uint64
	ext  int64
	_    *time.Location
}

const (
	hasMonotonic  = 1 << 63
	nsecBits      = 30
	secondsAt1970 = (1969*365+1969/4-1969/100+1969/400)*86400 - (1884*365+1884/4-1884/100+1884/400)*86400
)

// simTime returns a time with a wall clock, counted from 1970, and a monotonic reading that have nothing
// to do with each other, as a process sees it whose wall clock was set.
func simTime(monotonic, wall time.Duration) time.Time {
	seconds, nanos := uint64(wall/time.Second), uint64(wall%time.Second) //nolint:gosec // G115: never negative
	t := goTime{wall: hasMonotonic | (seconds+secondsAt1970)<<nsecBits | nanos, ext: int64(monotonic)}
	return *(*time.Time)(unsafe.Pointer(&t)) //nolint:gosec // G103: package time makes no such time
}

const (
	simWallAtStart = 50 * 365 * 24 * time.Hour // since 1970
	simMonoAtStart = time.Hour
)

// simClock is the clock of one process: its monotonic reading only grows, its wall clock is set at will.
type simClock struct{ monoAhead, wallAhead time.Duration } // of the world's time

func (w *simWorld) newClock() simClock {
	return simClock{
		monoAhead: simMonoAtStart + time.Duration(w.rng.IntN(1_000_000))*time.Millisecond,
		wallAhead: simWallAtStart + time.Duration(w.rng.IntN(10_000)-5_000)*time.Millisecond,
	}
}

// now is what time.Now answers in the process.
func (p *simProcess) now() time.Time {
	t := simTime(p.w.at+p.clock.monoAhead, p.w.at+p.clock.wallAhead)
	if p.w.off == ruleMonotonic {
		t = t.Round(0) // without its monotonic reading
	}
	return t
}

// reading is what the process's claims and guard go by.
func (p *simProcess) reading() time.Duration {
	if p.w.off == ruleMonotonic {
		return p.w.at + p.clock.wallAhead
	}
	return p.w.at + p.clock.monoAhead
}

// setClock has somebody set the wall clock of the process's machine.
func (p *simProcess) setClock() {
	jump := time.Duration(p.w.rng.IntN(60_000)-30_000) * time.Millisecond
	if p.w.rng.IntN(3) == 0 {
		jump *= 120
	}
	p.w.logf("%s: the wall clock jumps by %s", p.identity, jump)
	p.clock.wallAhead += jump
}

func TestSimulatedTime(t *testing.T) {
	a, b := simTime(5*time.Second, 900*time.Second), simTime(7*time.Second, 300*time.Second+1)
	if got := b.Sub(a); got != 2*time.Second {
		t.Errorf("the difference is %s, want that of the monotonic readings, 2s", got)
	}
	if got := a.Add(time.Second).Sub(b); got != -time.Second {
		t.Errorf("after adding a second the difference is %s, want -1s", got)
	}
	if got := b.Round(0); !got.Equal(time.Unix(300, 1)) {
		t.Errorf("the wall clock shows %s, want %s", got, time.Unix(300, 1))
	}
}
