package guard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/redis-operator/sharding/guard"
)

// transport answers 200 and counts; hold makes it wait.
type transport struct {
	calls atomic.Int64
	hold  chan struct{}
}

func (t *transport) RoundTrip(*http.Request) (*http.Response, error) {
	t.calls.Add(1)
	if t.hold != nil {
		<-t.hold
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// body notes that it was closed.
type body struct {
	io.Reader
	closed bool
}

func (b *body) Close() error { b.closed = true; return nil }

func TestRoundTripper(t *testing.T) {
	const mine = "/api/v1/namespaces/" + ns
	other := "tenant-2"
	cases := map[string]struct {
		method, path string
		bare         bool // without an admission
		exempt       []guard.Resource
		want         error
	}{
		"read without admission":              {method: "GET", path: mine + "/configmaps", bare: true},
		"head without admission":              {method: "HEAD", path: mine + "/configmaps", bare: true},
		"create":                              {method: "POST", path: mine + "/configmaps"},
		"create without admission":            {method: "POST", path: mine + "/configmaps", bare: true, want: guard.ErrNotAdmitted},
		"update without admission":            {method: "PUT", path: mine + "/configmaps/x", bare: true, want: guard.ErrNotAdmitted},
		"patch without admission":             {method: "PATCH", path: mine + "/pods/x/status", bare: true, want: guard.ErrNotAdmitted},
		"delete without admission":            {method: "DELETE", path: mine + "/pods/x", bare: true, want: guard.ErrNotAdmitted},
		"an unknown method":                   {method: "PURGE", path: mine + "/pods/x", bare: true, want: guard.ErrNotAdmitted},
		"another shard's namespace":           {method: "POST", path: "/apis/apps/v1/namespaces/" + other + "/statefulsets", want: guard.ErrNotAdmitted},
		"own namespace, named group":          {method: "PATCH", path: "/apis/apps/v1/namespaces/" + ns + "/statefulsets/x"},
		"behind a prefix":                     {method: "PATCH", path: "/k8s/clusters/c/apis/apps/v1/namespaces/" + other + "/statefulsets/x", want: guard.ErrNotAdmitted},
		"another Namespace itself":            {method: "PUT", path: "/api/v1/namespaces/" + other, want: guard.ErrNotAdmitted},
		"another Namespace's finalizers":      {method: "PUT", path: "/api/v1/namespaces/" + other + "/finalize", want: guard.ErrNotAdmitted},
		"cluster-scoped":                      {method: "POST", path: "/apis/storage.k8s.io/v1/storageclasses"},
		"cluster-scoped, no admission":        {method: "POST", path: "/apis/storage.k8s.io/v1/storageclasses", bare: true, want: guard.ErrNotAdmitted},
		"no resource":                         {method: "POST", path: "/metrics", bare: true, want: guard.ErrNotAdmitted},
		"exempt: Lease":                       {method: "PUT", path: "/apis/coordination.k8s.io/v1/namespaces/x/leases/y", bare: true},
		"exempt: core Event":                  {method: "POST", path: mine + "/events", bare: true},
		"exempt: Event":                       {method: "PATCH", path: "/apis/events.k8s.io/v1/namespaces/x/events/y", bare: true},
		"exempt: review":                      {method: "POST", path: "/apis/authentication.k8s.io/v1/tokenreviews", bare: true},
		"not exempt: leases of another group": {method: "PUT", path: "/apis/example.com/v1/namespaces/x/leases/y", bare: true, want: guard.ErrNotAdmitted},
		"not exempt: a Pod named events":      {method: "DELETE", path: mine + "/pods/events", bare: true, want: guard.ErrNotAdmitted},
		"exempt by option": {
			method: "POST", path: mine + "/serviceaccounts/x/token", bare: true,
			exempt: []guard.Resource{{Name: "serviceaccounts/token"}},
		},
		"another subresource is not": {
			method: "PUT", path: mine + "/serviceaccounts/x", bare: true,
			exempt: []guard.Resource{{Name: "serviceaccounts/token"}}, want: guard.ErrNotAdmitted,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(o *guard.Options) { o.Exempt = tc.exempt })
			if r.ShardOf(ns) == r.ShardOf(other) {
				t.Fatalf("%s and %s share a shard", ns, other)
			}
			r.admit("5")
			ctx, done := r.enter()
			defer done()
			if tc.bare {
				ctx = context.Background()
			}
			b := &body{Reader: strings.NewReader("{}")}
			request, err := http.NewRequestWithContext(ctx, tc.method, "https://localhost"+tc.path, b)
			if err != nil {
				t.Fatal(err)
			}
			inner := &transport{}
			answer, err := r.RoundTripper(inner).RoundTrip(request)
			if err == nil {
				defer answer.Body.Close()
			}
			if !errors.Is(err, tc.want) {
				t.Errorf("err = %v, want %v", err, tc.want)
			}
			if passed := inner.calls.Load() == 1; passed != (tc.want == nil) {
				t.Errorf("%d calls passed", inner.calls.Load())
			}
			if tc.want != nil && !b.closed {
				t.Error("the body of a refused request stays open")
			}
		})
	}
}

func TestRoundTripperCountsUntilTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.admit("5")
		ctx, leave := r.enter()
		defer leave()
		inner := &transport{hold: make(chan struct{})}
		send := func(method string) {
			request, err := http.NewRequestWithContext(ctx, method, "https://localhost/api/v1/namespaces/"+ns+"/pods/x", nil)
			if err != nil {
				t.Error(err)
				return
			}
			answer, err := r.RoundTripper(inner).RoundTrip(request)
			if err != nil {
				t.Errorf("%s: %v", method, err)
				return
			}
			_ = answer.Body.Close()
		}
		go send(http.MethodPatch)
		go send(http.MethodGet)
		synctest.Wait()
		r.wantInFlight(1, 1)
		drained := make(chan error, 1)
		go func() { drained <- r.Drain(context.Background(), r.shard) }()
		synctest.Wait()
		if len(drained) != 0 {
			t.Error("drained with a request in flight")
		}
		close(inner.hold)
		if err := <-drained; err != nil {
			t.Errorf("Drain: %v", err)
		}
		r.wantInFlight(1, 0)
	})
}

// I6: the clock has jumped past the deadline, no timer has run, and no request leaves.
func TestRoundTripperAfterAPause(t *testing.T) {
	r := newRig(t)
	r.admit("5")
	ctx, done := r.enter()
	defer done()
	r.skew = 11 * time.Second
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, "https://localhost/api/v1/namespaces/"+ns+"/pods/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	inner := &transport{}
	if _, err := r.RoundTripper(inner).RoundTrip(request); !errors.Is(err, guard.ErrExpired) || inner.calls.Load() != 0 { //nolint:bodyclose // there is none
		t.Errorf("err = %v, %d calls, want ErrExpired and none", err, inner.calls.Load())
	}
	if ctx.Err() != nil {
		t.Error("the context has ended: this proves nothing")
	}
}

// The API server's audit log is to tell which claim a write was made under.
func TestRoundTripperNamesTheClaim(t *testing.T) {
	r := newRig(t)
	r.admit("4711")
	ctx, done := r.enter()
	defer done()
	pod := "/api/v1/namespaces/" + ns + "/pods/x"
	claim := fmt.Sprintf("manager/v1 shard/%d epoch/4711", r.shard)
	cases := map[string]struct{ method, path, want string }{
		"write":        {http.MethodPatch, pod, claim},
		"read":         {http.MethodGet, pod, "manager/v1"},
		"exempt write": {http.MethodPost, "/api/v1/namespaces/" + ns + "/events", "manager/v1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(ctx, tc.method, "https://localhost"+tc.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("User-Agent", "manager/v1")
			var sent string
			answer, err := r.RoundTripper(roundTrip(func(sending *http.Request) (*http.Response, error) {
				sent = sending.Header.Get("User-Agent")
				return (&transport{}).RoundTrip(sending)
			})).RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if sent != tc.want || request.Header.Get("User-Agent") != "manager/v1" {
				t.Errorf("sent as %q, want %q; the caller's request says %q", sent, tc.want, request.Header.Get("User-Agent"))
			}
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (r roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }
