package membership_test

import (
	"strconv"
	"testing"
	"time"

	"example.com/redis-operator/sharding/membership"
)

const (
	lease      = 10 * time.Second
	retry      = 2 * time.Second
	breakAfter = 4 * time.Second
	other      = "op-1_uid1_n1"
)

// watchingObserver sees an own renewal every retry period until it is told otherwise.
type watchingObserver struct {
	*membership.Observer
	now time.Time
}

func newWatchingObserver() *watchingObserver {
	o := &watchingObserver{Observer: membership.NewObserver(lease, breakAfter), now: time.Unix(1000, 0)}
	o.Echoed(o.version(), o.now)
	return o
}

// version is one that grows with time.
func (o *watchingObserver) version() string { return strconv.FormatInt(o.now.UnixMilli(), 10) }

// pass lets time pass, with or without own renewals that come back.
func (o *watchingObserver) pass(d time.Duration, echoes bool) {
	for end := o.now.Add(d); o.now.Before(end); {
		o.now = o.now.Add(min(retry, end.Sub(o.now)))
		if echoes {
			o.Acked(o.version(), o.now)
			o.Echoed(o.version(), o.now)
		}
	}
}

func TestExpired(t *testing.T) {
	cases := map[string]struct {
		do   func(*watchingObserver)
		want bool
	}{
		"renewed a moment ago": {func(o *watchingObserver) { o.pass(9*time.Second, true) }, false},
		"silent for a Lease":   {func(o *watchingObserver) { o.pass(lease, true) }, true},
		"renewed meanwhile": {func(o *watchingObserver) {
			o.pass(6*time.Second, true)
			o.Seen(other, "2", o.now)
			o.pass(6*time.Second, true)
		}, false},
		"the same version again": {func(o *watchingObserver) {
			o.pass(6*time.Second, true)
			o.Seen(other, "1", o.now)
			o.pass(4*time.Second, true)
		}, true},
		"deleted counts from then": {func(o *watchingObserver) {
			o.pass(6*time.Second, true)
			o.Seen(other, "", o.now)
			o.pass(6*time.Second, true)
		}, false},
		"deleted for a Lease":       {func(o *watchingObserver) { o.Seen(other, "", o.now); o.pass(lease, true) }, true},
		"own renewals do not come":  {func(o *watchingObserver) { o.pass(20*time.Second, false) }, false},
		"own renewals came again":   {func(o *watchingObserver) { o.pass(20*time.Second, false); o.pass(retry, true) }, false},
		"a Lease after the break":   {func(o *watchingObserver) { o.pass(20*time.Second, false); o.pass(retry+lease, true) }, true},
		"a read has shown it alive": {func(o *watchingObserver) { o.pass(lease, true); o.Again(other, o.now) }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := newWatchingObserver()
			o.Seen(other, "1", o.now)
			tc.do(o)
			if _, got := o.Expired(other, o.now); got != tc.want {
				t.Errorf("Expired answers %t, want %t", got, tc.want)
			}
		})
	}
}

func TestAbsentIsTimedFromWhenItIsFirstAskedFor(t *testing.T) {
	o := newWatchingObserver()
	o.pass(time.Minute, true)
	if _, expired := o.Expired(other, o.now); expired {
		t.Fatal("a process that was never seen has expired at once")
	}
	o.pass(lease, true)
	if version, expired := o.Expired(other, o.now); !expired || version != "" {
		t.Fatalf("after a Lease duration: %q, %t; want absent and expired", version, expired)
	}
}

func TestStalled(t *testing.T) {
	o := newWatchingObserver()
	o.pass(time.Minute, true)
	if o.Stalled(o.now) {
		t.Fatal("stalled although every renewal came back")
	}
	o.Acked("9000001", o.now)
	o.pass(breakAfter, false)
	o.Acked("9000002", o.now)
	if o.Stalled(o.now) {
		t.Fatal("stalled before the bound")
	}
	o.now = o.now.Add(time.Millisecond)
	if !o.Stalled(o.now) {
		t.Fatal("not stalled although renewals are missing")
	}
	o.Echoed("9000001", o.now)
	o.Echoed("9000002", o.now)
	if o.now = o.now.Add(time.Minute); o.Stalled(o.now) {
		t.Fatal("stalled although all came back")
	}
}

func TestAPIAwayIsNoStall(t *testing.T) {
	o := newWatchingObserver()
	o.pass(time.Hour, false)
	if o.Stalled(o.now) || o.Timing(o.now) {
		t.Errorf("stalled %t, timing %t; want neither while no write passes", o.Stalled(o.now), o.Timing(o.now))
	}
}
