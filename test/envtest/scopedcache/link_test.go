package scopedcache_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// link is a connection to the API server that a test can break.
type link struct {
	mu          sync.Mutex
	isCut       bool
	connections map[net.Conn]struct{}
	expired     int                      // how many watches from a version are still to be answered with 410
	refused     int                      // how many were
	held        map[string]chan struct{} // requests in these namespaces wait
}

// newLink returns a whole link, and a config that uses it.
func newLink(to *rest.Config) (*link, *rest.Config) {
	l := &link{connections: map[net.Conn]struct{}{}, held: map[string]chan struct{}{}}
	config := rest.CopyConfig(to)
	config.Dial = l.dial
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return roundTripper{link: l, next: next} })
	return l, config
}

// cut breaks every connection and lets no new one through.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = true
	for connection := range l.connections {
		_ = connection.Close()
	}
	l.connections = map[net.Conn]struct{}{}
}

// mend lets connections through again; the next watches from a version are told that it is gone.
func (l *link) mend(expired int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = false
	l.expired = expired
}

// awaitRefusals waits until so many watches were answered with 410: without one the test shows nothing.
func (l *link) awaitRefusals(t *testing.T, want int) {
	t.Helper()
	eventually(t, func() string {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.refused < want {
			return fmt.Sprintf("%d watches were answered with 410, want %d", l.refused, want)
		}
		return ""
	})
}

// hold lets requests in a namespace wait until the returned function is called.
func (l *link) hold(namespace string) (release func()) {
	gate := make(chan struct{})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[namespace] = gate
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.held, namespace)
		close(gate)
	})
}

// dial connects unless the link is cut.
func (l *link) dial(ctx context.Context, network, address string) (net.Conn, error) {
	l.mu.Lock()
	isCut := l.isCut
	l.mu.Unlock()
	if isCut {
		return nil, errors.New("the link is cut")
	}
	connection, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.connections[connection] = struct{}{}
	return connection, nil
}

// takeExpired reports whether a request is to be answered with 410.
func (l *link) takeExpired(request *http.Request) bool {
	query := request.URL.Query()
	if query.Get("watch") == "" || query.Get("resourceVersion") == "" {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.expired == 0 {
		return false
	}
	l.expired--
	l.refused++
	return true
}

// gate returns what a request has to wait for, nil for nothing.
func (l *link) gate(request *http.Request) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	for namespace, gate := range l.held {
		if strings.Contains(request.URL.Path+"/", "/namespaces/"+namespace+"/") {
			return gate
		}
	}
	return nil
}

// roundTripper sends requests over a link.
type roundTripper struct {
	link *link
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	if gate := r.link.gate(request); gate != nil {
		select {
		case <-gate:
		case <-request.Context().Done():
			return nil, request.Context().Err()
		}
	}
	if !r.link.takeExpired(request) {
		return r.next.RoundTrip(request)
	}
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired,
		Message: "too old resource version",
	})
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusGone, Status: "410 Gone", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": []string{"application/json"}}, Request: request,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}
