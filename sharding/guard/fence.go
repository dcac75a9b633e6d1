package guard

import (
	"fmt"
	"net/http"
	"strings"
)

// RoundTripper returns a transport for rest.Config.Wrap that refuses requests other than GET, HEAD and
// OPTIONS unless their context has a live admission for the shard of the namespace that they write
// to, or their resource is exempt. A request for a cluster-scoped object needs a live admission of
// any shard. A mutating request counts as in flight until its answer is there.
func (g *Guard) RoundTripper(inner http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if isRead(r.Method) {
			return inner.RoundTrip(r)
		}
		done, err := g.beginRequest(r)
		if err != nil {
			if r.Body != nil {
				_ = r.Body.Close() // the contract of RoundTripper; nothing was read of it
			}
			return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, err)
		}
		defer done()
		return inner.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls f.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func isRead(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// beginRequest begins a mutating request, or says why it may not.
func (g *Guard) beginRequest(r *http.Request) (done func(), err error) {
	t := parseTarget(r.URL.Path)
	if g.isExempt(t) {
		return func() {}, nil
	}
	grant := g.grantOf(r.Context())
	if grant != nil && t.namespace != "" {
		if number := g.ShardOf(t.namespace); number != grant.tenure.shard {
			err := fmt.Errorf("namespace %s is in shard %d, the context was admitted for shard %d: %w",
				t.namespace, number, grant.tenure.shard, ErrNotAdmitted)
			return nil, g.report(grant, err)
		}
	}
	return g.begin(grant)
}

func (g *Guard) isExempt(t target) bool {
	if t.resource.Name == "" {
		return false
	}
	if g.exempt[t.resource] {
		return true
	}
	return t.subresource != "" && g.exempt[Resource{t.resource.Group, t.resource.Name + "/" + t.subresource}]
}

// target is what the path of a request names. Its resource is empty if the path is of no resource.
type target struct {
	resource                     Resource
	namespace, name, subresource string
}

// parseTarget takes a path of the API apart:
//
//	[prefix]/api/VERSION/[namespaces/NAMESPACE/]RESOURCE[/NAME[/SUBRESOURCE]]
//	[prefix]/apis/GROUP/VERSION/[namespaces/NAMESPACE/]RESOURCE[/NAME[/SUBRESOURCE]]
//
// A Namespace object itself counts as being in the namespace of its name.
func parseTarget(path string) target {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var t target
	for i, part := range parts {
		switch {
		case part == "api" && len(parts) > i+2:
			parts = parts[i+2:]
		case part == "apis" && len(parts) > i+3:
			t.resource.Group, parts = parts[i+1], parts[i+3:]
		default:
			continue
		}
		return t.parseResource(parts)
	}
	return target{}
}

func (t target) parseResource(parts []string) target {
	at := func(i int) string {
		if i < len(parts) {
			return parts[i]
		}
		return ""
	}
	if at(0) == "namespaces" && t.resource.Group == "" && at(1) != "" {
		t.namespace = at(1)
		if len(parts) == 2 || at(2) == "status" || at(2) == "finalize" {
			t.resource.Name, t.name, t.subresource = "namespaces", at(1), at(2)
			return t
		}
		parts = parts[2:]
	} else if at(0) == "namespaces" && at(1) != "" && at(2) != "" {
		t.namespace = at(1)
		parts = parts[2:]
	}
	t.resource.Name, t.name, t.subresource = at(0), at(1), at(2)
	return t
}
