package claim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"example.com/redis-operator/sharding/placement"
)

// TestTenureAgainstNaive drives a tenure with random writes, ticks and losses, and compares what it
// believes with what the whole history says. It checks I6's arithmetic: alive exactly until
// LeaseDuration after the last write was sent, one epoch a stretch of life, events in order.
func TestTenureAgainstNaive(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		begin := time.Unix(0, 0)
		tn := tenure{timings: DefaultTimings()}
		var log []string
		note := func(now time.Time, out []notice) {
			for _, n := range out {
				log = append(log, fmt.Sprintf("%s %s(%s)", now.Sub(begin), n.kind, n.epoch))
			}
		}
		var alive bool // by the naive reading of the history
		var lastSent time.Time
		var epoch Epoch
		now, version := begin, 0
		for range 40 {
			now = now.Add(time.Duration(r.IntN(4000)) * time.Millisecond)
			if alive && now.Sub(lastSent) >= 10*time.Second {
				alive = false
			}
			switch r.IntN(10) {
			case 0:
				note(now, tn.lose(now, ReasonTaken))
				alive = false
			case 1, 2, 3, 4, 5:
				version++
				sent := now.Add(-time.Duration(r.IntN(3000)) * time.Millisecond)
				if alive && sent.Before(lastSent) {
					sent = lastSent // one write at a time
				}
				note(now, tn.wrote(write{sent: sent, version: fmt.Sprint(version)}, now))
				if !alive {
					epoch = Epoch(fmt.Sprint(version))
				}
				alive, lastSent = true, sent
			default:
				note(now, tn.tick(now))
			}
			if got := tn.isLive(now); got != alive {
				t.Fatalf("seed %d, %s: live = %t, want %t\n%s", seed, now.Sub(begin), got, alive, strings.Join(log, "\n"))
			}
			if alive && tn.epoch != epoch {
				t.Fatalf("seed %d, %s: epoch %s, want %s\n%s", seed, now.Sub(begin), tn.epoch, epoch, strings.Join(log, "\n"))
			}
			if alive && !tn.deadline().Equal(lastSent.Add(10*time.Second)) {
				t.Fatalf("seed %d: deadline %s, last sent %s", seed, tn.deadline(), lastSent)
			}
		}
		wantOrder(t, seed, log)
	}
}

// wantOrder checks that each epoch is acquired once, lost at most once, and nothing of it comes after.
func wantOrder(t *testing.T, seed uint64, log []string) {
	t.Helper()
	state := map[string]string{} // epoch to last kind
	for _, line := range log {
		word := strings.Fields(line)[1]
		kind, rest, _ := strings.Cut(word, "(")
		epoch := strings.TrimSuffix(rest, ")")
		allowed := map[string]string{
			"Acquired":  ",",
			"Stalled":   ",Acquired,Recovered,",
			"Expiring":  ",Stalled,",
			"Recovered": ",Stalled,Expiring,",
			"Lost":      ",Acquired,Recovered,Stalled,Expiring,",
		}[kind]
		if !strings.Contains(allowed, ","+state[epoch]+",") && state[epoch] != "" || state[epoch] == "" && kind != "Acquired" {
			t.Fatalf("seed %d: %s after %q\n%s", seed, word, state[epoch], strings.Join(log, "\n"))
		}
		state[epoch] = kind
	}
}

func TestExitDue(t *testing.T) {
	begin := time.Unix(0, 0)
	at := func(s float64) time.Time { return begin.Add(time.Duration(s * float64(time.Second))) }
	cases := map[string]struct {
		lostAt float64
		why    Reason
		want   float64
	}{
		"at the deadline":            {lostAt: 10, why: ReasonDeadline, want: 10},
		"seen late":                  {lostAt: 12, why: ReasonDeadline, want: 10},
		"abandoned: at the deadline": {lostAt: 3, why: ReasonAbandoned, want: 10},
		"emptied: at the deadline":   {lostAt: 3, why: ReasonEmptied, want: 10},
		"taken: soon":                {lostAt: 3, why: ReasonTaken, want: 5},
		"taken late":                 {lostAt: 9, why: ReasonTaken, want: 10},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tn := tenure{timings: DefaultTimings()}
			tn.wrote(write{sent: begin, version: "7"}, begin)
			tn.lose(at(tc.lostAt), tc.why)
			if got := tn.next(); !got.Equal(at(tc.want)) {
				t.Errorf("due at %s, want %s", got.Sub(begin), at(tc.want).Sub(begin))
			}
			if tn.isExitDue(at(tc.want - 0.001)) {
				t.Error("due before its time")
			}
			// A new tenure meanwhile does not make the old calls harmless.
			tn.wrote(write{sent: at(tc.want), version: "9"}, at(tc.want))
			if !tn.isExitDue(at(tc.want)) || tn.exitEpoch != "7" {
				t.Errorf("not due, or for epoch %s", tn.exitEpoch)
			}
			if tn.isExitDue(at(tc.want)) {
				t.Error("due twice")
			}
		})
	}
}

func TestObservation(t *testing.T) {
	begin := time.Unix(0, 0)
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	lease := func(version, holder string, seconds int32) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{ResourceVersion: version},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: ptr.To(seconds)},
		}
	}
	released := lease("5", "", 1)
	released.Annotations = map[string]string{VacatedAnnotation: string(Released)}
	type sight struct {
		at      int
		lease   *coordinationv1.Lease
		version string
	}
	const self = placement.Identity("p_u_1")
	cases := map[string]struct {
		sights []sight
		live   bool
		at     int
		want   move
	}{
		"nothing seen": {want: move{intent: intentRead}},
		"released":     {sights: []sight{{lease: released}}, want: move{intent: intentAcquire}},
		"own":          {sights: []sight{{lease: lease("5", string(self), 10)}}, want: move{intent: intentAcquire}},
		"held":         {sights: []sight{{lease: lease("5", "x_y_1", 10)}}, at: 9, want: move{until: at(10)}},
		"renewed":      {sights: []sight{{lease: lease("5", "x_y_1", 10)}, {at: 8, lease: lease("6", "x_y_1", 10)}}, at: 12, want: move{until: at(18)}},
		"seen twice":   {sights: []sight{{lease: lease("5", "x_y_1", 10)}, {at: 8, lease: lease("5", "x_y_1", 10)}}, at: 9, want: move{until: at(10)}},
		"the watch lags": {
			sights: []sight{{lease: lease("6", "x_y_1", 10)}, {at: 1, lease: lease("5", "", 1)}}, at: 2, want: move{until: at(10)},
		},
		"missing":                {sights: []sight{{version: "5"}}, want: move{intent: intentCreate}},
		"missing for long":       {sights: []sight{{version: "5"}}, at: 10, want: move{intent: intentCreate}},
		"missing while it lives": {sights: []sight{{version: "5"}}, live: true, at: 1, want: move{intent: intentCreate}},
		"created":                {sights: []sight{{version: "5"}, {at: 1, lease: lease("6", "", 10)}}, at: 10, want: move{until: at(11)}},
		"created long ago":       {sights: []sight{{version: "5"}, {at: 1, lease: lease("6", "", 10)}}, at: 11, want: move{intent: intentAcquire}},
		"created while it lives": {sights: []sight{{lease: lease("6", "", 10)}}, live: true, want: move{intent: intentAcquire}},
		"created once more": {
			sights: []sight{{lease: lease("6", "", 10)}, {at: 9, lease: lease("8", "", 10)}}, at: 11, want: move{until: at(19)},
		},
		"created for one that stated longer": {
			sights: []sight{{lease: lease("5", "x_y_1", 30)}, {at: 1, lease: lease("7", "", 10)}}, at: 11, want: move{until: at(31)},
		},
		"taken after it was created": {
			sights: []sight{{lease: lease("6", "", 10)}, {at: 9, lease: lease("8", "x_y_1", 10)}}, at: 11, want: move{until: at(19)},
		},
		"back again": {sights: []sight{{version: "5"}, {at: 9, lease: lease("8", "x_y_1", 10)}}, at: 11, want: move{until: at(19)}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var o observation
			for _, s := range tc.sights {
				version := s.version
				if s.lease != nil {
					version = s.lease.ResourceVersion
				}
				o.see(s.lease, version, at(s.at), 10*time.Second)
			}
			got := o.decide(at(tc.at), self, tc.live, func(placement.Identity) bool { return false })
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(move{})); diff != "" {
				t.Errorf("move (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEcho(t *testing.T) {
	begin := time.Unix(0, 0)
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	var e echo
	want := func(now int, want time.Duration) {
		t.Helper()
		if got := e.lag(at(now)); got != want {
			t.Errorf("lag at %d s = %s, want %s", now, got, want)
		}
	}
	want(1, 0)
	e.wrote("10", at(1))
	want(4, 3*time.Second)
	e.wrote("12", at(3))
	want(4, 3*time.Second)
	e.observed("9")
	want(4, 3*time.Second)
	e.observed("11")
	want(4, time.Second)
	e.observed("12")
	want(4, 0)
	e.observed("14") // before its own answer
	e.wrote("14", at(5))
	want(6, 0)
}

func TestEpochAfter(t *testing.T) {
	cases := map[string]struct {
		a, b Epoch
		want bool
	}{
		"later":            {a: "10", b: "9", want: true},
		"equal":            {a: "9", b: "9"},
		"earlier":          {a: "9", b: "10"},
		"no version":       {a: "", b: "9"},
		"not a version":    {a: "x", b: "9"},
		"against no epoch": {a: "9", b: ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.a.After(tc.b); got != tc.want {
				t.Errorf("%q.After(%q) = %t", tc.a, tc.b, got)
			}
		})
	}
}

func TestTimings(t *testing.T) {
	cases := map[string]struct {
		t    Timings
		want string // part of the error; empty for none
	}{
		"defaults":                   {},
		"halves":                     {t: Timings{LeaseDuration: 5 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: time.Second, CancelLead: time.Second}},
		"parts of a second":          {t: Timings{LeaseDuration: 10500 * time.Millisecond}, want: "whole number"},
		"deadline beyond the cancel": {t: Timings{RenewDeadline: 8 * time.Second}, want: "CancelLead"},
		"no time to retry":           {t: Timings{RetryPeriod: 6 * time.Second}, want: "RetryPeriod"},
		"negative":                   {t: Timings{CancelLead: -1}, want: "positive"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := tc.t.Validate()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Validate = %v, want %q", err, tc.want)
			}
		})
	}
	if got := (Timings{RenewDeadline: time.Second}).ClientTimeout(); got != time.Second {
		t.Errorf("client timeout = %s, want a second at least", got)
	}
	if got := DefaultTimings().ClientTimeout(); got != 3500*time.Millisecond {
		t.Errorf("client timeout = %s, want half the renew deadline", got)
	}
}
