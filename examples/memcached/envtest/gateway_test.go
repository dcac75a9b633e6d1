package envtest

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// gateway stands between the programs and the API server. It speaks to the server in the name of each
// replica's service account and Pod, so that rights and fence count, and it sees every write into a
// tenant's namespace: never may two replicas write into one at the same time (I1).
type gateway struct {
	mu       sync.Mutex // guards everything below
	flying   map[string]map[string]int
	writers  map[string][]string // by namespace, each replica once, since the last reset
	problems []string
}

func newGateway() *gateway {
	return &gateway{flying: map[string]map[string]int{}, writers: map[string][]string{}}
}

// open returns the address of a replica's own way to the API server.
func (g *gateway) open(w *world, replica string, config *rest.Config) string {
	w.t.Helper()
	// Connections of its own, as processes have them, and one for each watch: over HTTP/2 all replicas'
	// requests would wait in one queue behind their watches.
	config = rest.CopyConfig(config)
	config.Dial = (&net.Dialer{}).DialContext
	config.NextProtos = []string{"http/1.1"}
	transport, err := rest.TransportFor(config)
	if err != nil {
		w.t.Fatal(err)
	}
	target, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		w.t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host}) },
		Transport:     transport,
		FlushInterval: -1,
		ErrorHandler:  func(answer http.ResponseWriter, _ *http.Request, _ error) { answer.WriteHeader(http.StatusBadGateway) },
	}
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		defer g.begin(replica, request)()
		proxy.ServeHTTP(answer, request)
	}))
	w.t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// begin notes a write into a tenant's namespace, which is over when end is called.
func (g *gateway) begin(replica string, request *http.Request) (end func()) {
	namespace := tenantOf(request.URL.Path)
	if request.Method == http.MethodGet || namespace == "" {
		return func() {}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for other, count := range g.flying[namespace] {
		if other != replica && count > 0 {
			g.problems = append(g.problems, fmt.Sprintf("%s %s by %s while a write of %s is in flight", request.Method, request.URL.Path, replica, other))
		}
	}
	if g.flying[namespace] == nil {
		g.flying[namespace] = map[string]int{}
	}
	g.flying[namespace][replica]++
	if !slices.Contains(g.writers[namespace], replica) {
		g.writers[namespace] = append(g.writers[namespace], replica)
	}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.flying[namespace][replica]--
	}
}

// tenantOf is the tenant's namespace that a path names; "" for none. Events are not of any interest.
func tenantOf(path string) string {
	_, rest, found := strings.Cut(path, "/namespaces/")
	namespace, resource, _ := strings.Cut(rest, "/")
	if !found || !strings.HasPrefix(namespace, tenantPrefix) || strings.HasPrefix(resource, "events") {
		return ""
	}
	return namespace
}

// reset forgets who has written.
func (g *gateway) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.writers)
}

// writersOf are the replicas that have written into a namespace since the last reset.
func (g *gateway) writersOf(namespace string) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.writers[namespace])
}

// complain reports what must not be.
func (g *gateway) complain(w *world) {
	w.t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, problem := range g.problems {
		w.t.Errorf("I1: %s", problem)
	}
}
