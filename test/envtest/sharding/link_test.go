package sharding

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"

	"k8s.io/client-go/rest"
)

var errCut = errors.New("the link to the API server is cut")

// link is one replica's way to the API server. It can be cut, and its watches can be ended with the
// answer that their version is too old.
type link struct {
	mu      sync.Mutex // guards everything below
	cut     bool
	gone    int // how many watches are still to be answered with 410
	nextID  int
	running map[int]*passage
}

type passage struct {
	end   context.CancelFunc
	watch bool
}

func (l *link) wrap(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	// Each replica has connections of its own, as processes have.
	cfg.Dial = (&net.Dialer{}).DialContext
	cfg.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) { return l.pass(inner, request) })
	})
	return cfg
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func (l *link) pass(inner http.RoundTripper, request *http.Request) (*http.Response, error) {
	watches := request.URL.Query().Get("watch") != ""
	l.mu.Lock()
	if l.cut {
		l.mu.Unlock()
		return nil, errCut
	}
	if watches && l.gone > 0 && request.URL.Query().Get("resourceVersion") != "" {
		l.gone--
		l.mu.Unlock()
		return tooOld(request), nil
	}
	ctx, end := context.WithCancel(request.Context())
	id := l.nextID
	l.nextID++
	if l.running == nil {
		l.running = map[int]*passage{}
	}
	l.running[id] = &passage{end: end, watch: watches}
	l.mu.Unlock()
	forget := func() {
		l.mu.Lock()
		delete(l.running, id)
		l.mu.Unlock()
		end()
	}
	response, err := inner.RoundTrip(request.WithContext(ctx))
	if err != nil {
		forget()
		return nil, err
	}
	response.Body = &body{ReadCloser: response.Body, closed: forget}
	return response, nil
}

type body struct {
	io.ReadCloser
	closed func()
}

func (b *body) Close() error {
	defer b.closed()
	return b.ReadCloser.Close()
}

func tooOld(request *http.Request) *http.Response {
	text := `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too old resource version","reason":"Expired","code":410}`
	return &http.Response{
		Status: "410 Gone", StatusCode: http.StatusGone, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Request: request,
		Body: io.NopCloser(bytes.NewBufferString(text)), ContentLength: int64(len(text)),
	}
}

// setCut cuts or mends the link. Requests that are on their way when it is cut fail.
func (l *link) setCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	if cut {
		for _, p := range l.running {
			p.end()
		}
	}
}

// loseWatches ends all watches, and answers the next ones that want to go on with 410.
func (l *link) loseWatches() (lost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.running {
		if p.watch {
			lost++
			p.end()
		}
	}
	l.gone = lost
	return lost
}
