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
//
// What is sent under an admission says so at the end of its User-Agent: "shard/7 epoch/4711". The API
// server's audit log then tells under which claim each write was made, without asking this process.
func (g *Guard) RoundTripper(inner http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if isRead(r.Method) {
			return inner.RoundTrip(r)
		}
		grant, done, err := g.beginRequest(r)
		if err != nil {
			if r.Body != nil {
				_ = r.Body.Close() // the contract of RoundTripper; nothing was read of it
			}
			return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, err)
		}
		defer done()
		return inner.RoundTrip(signed(r, grant))
	})
}

// signed is the request with the claim that it is made under, or itself where it is made under none.
func signed(r *http.Request, grant *grant) *http.Request {
	if grant == nil {
		return r
	}
	claim := fmt.Sprintf("shard/%d epoch/%s", grant.tenure.shard, grant.tenure.epoch)
	r = r.Clone(r.Context()) // the contract of RoundTripper: the caller's request stays as it is
	r.Header.Set("User-Agent", strings.TrimSpace(r.Header.Get("User-Agent")+" "+claim))
	return r
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls f.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func isRead(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// beginRequest begins a mutating request under the grant of its context, or says why it may not. An
// exempt request is made under none.
func (g *Guard) beginRequest(r *http.Request) (under *grant, done func(), err error) {
	t := parseTarget(r.URL.Path)
	if g.isExempt(t) {
		return nil, func() {}, nil
	}
	grant := g.grantOf(r.Context())
	if grant != nil && t.namespace != "" {
		if number := g.ShardOf(t.namespace); number != grant.tenure.shard {
			err := fmt.Errorf("namespace %s is in shard %d, the context was admitted for shard %d: %w",
				t.namespace, number, grant.tenure.shard, ErrNotAdmitted)
			return nil, nil, g.report(grant, err)
		}
	}
	done, err = g.begin(grant)
	return grant, done, err
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
