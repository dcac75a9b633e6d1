package check

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// The logs of these tests are made of lines like these, one request each, at whole seconds.

const (
	own     = "operator-system"
	account = "system:serviceaccount:operator-system:operator"
)

// a, b and c are the identities of three processes; c2 is c's container after a restart.
const (
	a  = "op-0_uid-a_n1"
	b  = "op-1_uid-b_n1"
	c  = "op-2_uid-c_n1"
	c2 = "op-2_uid-c_n2"
)

func options() Options {
	return Options{
		Namespace: own, Account: account, LeasePrefix: "operator-shard-", Placement: "operator-placement",
		RootResource: "caches.example.com", ConnectionPrefix: "operator:", Shards: 1, ShardLabel: "shard",
		LeaseDuration: 10 * time.Second, GapBound: 12 * time.Second, ObserveBound: 20 * time.Second,
	}
}

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func second(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }

type fields = map[string]any

// request is one line: received 100 ms before it is answered.
type request struct {
	at                       int
	verb, resource, ns, name string
	pod                      string // UID of an operator's Pod; empty for another user
	agent                    string
	code                     int
	uri                      string
	stage, id                string
	sent, got                fields
	subresource, group       string
}

func (r request) String() string {
	user := fields{"username": "somebody"}
	if r.pod != "" {
		user = fields{"username": account, "extra": fields{"authentication.kubernetes.io/pod-uid": []string{r.pod}}}
	}
	if r.code == 0 {
		r.code = 200
	}
	if r.stage == "" {
		r.stage = "ResponseComplete"
	}
	line, err := json.Marshal(fields{
		"kind": "Event", "auditID": r.id, "stage": r.stage, "verb": r.verb, "requestURI": r.uri, "userAgent": r.agent, "user": user,
		"objectRef":                fields{"resource": r.resource, "apiGroup": r.group, "namespace": r.ns, "name": r.name, "subresource": r.subresource},
		"responseStatus":           fields{"code": r.code},
		"requestReceivedTimestamp": second(r.at).Add(-100 * time.Millisecond), "stageTimestamp": second(r.at),
		"requestObject": r.sent, "responseObject": r.got,
	})
	if err != nil {
		panic(err)
	}
	return string(line) + "\n"
}

func meta(version int, more fields) fields {
	m := fields{"resourceVersion": fmt.Sprint(version)}
	for key, value := range more {
		m[key] = value
	}
	return m
}

// held is a write of shard 0's Lease over the version base; 0 creates it.
func held(at, version, base int, holder string) request {
	r := request{
		at: at, verb: "update", resource: "leases", group: "coordination.k8s.io", ns: own, name: "operator-shard-0",
		got: fields{"metadata": meta(version, nil), "spec": fields{"holderIdentity": holder}},
	}
	if base != 0 {
		r.sent = fields{"metadata": meta(base, nil)}
	}
	return r
}

func emptied(at, version, base int, how string) request {
	r := held(at, version, base, "")
	r.got["metadata"] = meta(version, fields{"annotations": fields{vacated: how}})
	return r
}

func leaseDeleted(at int) request {
	return request{
		at: at, verb: "delete", resource: "leases", group: "coordination.k8s.io", ns: own, name: "operator-shard-0",
		got: fields{"kind": "Status", "status": "Success", "metadata": fields{}},
	}
}

// wrote is a write of an object by a process, under an epoch.
func wrote(at, version int, identity string, epoch int) request {
	return request{
		at: at, verb: "patch", resource: "statefulsets", group: "apps", ns: "tenant", name: "cache-0",
		pod: strings.Split(identity, "_")[1], agent: fmt.Sprintf("manager/v1 shard/0 epoch/%d", epoch),
		got: fields{"metadata": meta(version, fields{"labels": fields{"shard": "0"}})},
	}
}

// root is a write of the root object by a user (observed 0) or, with its status, by the operator.
func rootObject(at, version, generation, observed int) request {
	return request{
		at: at, verb: "update", resource: "caches", group: "example.com", ns: "tenant", name: "cache",
		got: fields{
			"metadata": meta(version, fields{"generation": generation}),
			"status":   fields{"observedGeneration": observed},
		},
	}
}

func with(r request, change func(*request)) request {
	change(&r)
	return r
}

func read(t *testing.T, o Options, windows []Window, requests ...request) *History {
	t.Helper()
	var log strings.Builder
	for _, r := range requests {
		log.WriteString(r.String())
	}
	log.WriteString(`{"half":`)
	h, err := Read(strings.NewReader(log.String()), o, windows)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// wantViolations compares the kinds of what was found, and that each names what it should.
func wantViolations(t *testing.T, got []Violation, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("found %d violations, want %d:\n%v", len(got), len(want), got)
	}
	for i, v := range got {
		for _, part := range strings.Split(want[i], " ... ") {
			if !strings.Contains(v.String(), part) {
				t.Errorf("violation %d is %q, want it to name %q", i, v, part)
			}
		}
	}
}
