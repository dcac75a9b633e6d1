package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.com/redis-operator/sharding/serverfence"
)

func TestParseKinds(t *testing.T) {
	cases := map[string]struct {
		list    string
		want    []serverfence.Kind
		wantErr bool
	}{
		"with and without a group": {list: "apps/deployments, services", want: []serverfence.Kind{
			{Group: "apps", Name: "deployments"}, {Name: "services"},
		}},
		"made by other controllers": {list: "pods,persistentvolumeclaims", want: []serverfence.Kind{
			{Name: "pods", Operations: changes()}, {Name: "persistentvolumeclaims", Operations: changes()},
		}},
		"pods of another group": {list: "metrics.k8s.io/pods", want: []serverfence.Kind{{Group: "metrics.k8s.io", Name: "pods"}}},
		"nothing":               {list: "", wantErr: true},
		"no resource":           {list: "apps/", wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parseKinds(tc.list)
			if (err != nil) != tc.wantErr {
				t.Fatalf("err = %v, want one: %t", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
		})
	}
}

// Another operator's fence looks at its kinds only.
func TestKindsOfAnotherOperator(t *testing.T) {
	var out bytes.Buffer
	if err := execute([]string{"-kinds", "apps/deployments"}, &out, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "deployments/*") || strings.Contains(text, "statefulsets") {
		t.Errorf("the policies are not those of Deployments alone:\n%.2000s", text)
	}
}
