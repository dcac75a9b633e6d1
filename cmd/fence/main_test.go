package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// deploy is the folder of the manifests.
const deploy = "../../deploy"

func read(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(deploy, name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestManifestsAreUpToDate(t *testing.T) {
	out := t.TempDir()
	if err := execute([]string{"-out", out}, &bytes.Buffer{}, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{policiesFile, bindingsFile} {
		want, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(read(t, filepath.Join("fence", name)))); diff != "" {
			t.Errorf("deploy/fence/%s is out of date; run: make manifests\n%s", name, diff)
		}
	}
}

// The defaults of this program name what deploy/ installs.
func TestDefaultsFitTheDeployment(t *testing.T) {
	var account corev1.ServiceAccount
	if err := yaml.UnmarshalStrict(read(t, "rbac/service_account.yaml"), &account); err != nil {
		t.Fatal(err)
	}
	var namespace corev1.Namespace
	if err := yaml.UnmarshalStrict(read(t, "manager/namespace.yaml"), &namespace); err != nil {
		t.Fatal(err)
	}
	want := `request.userInfo.username == "system:serviceaccount:" + "` + namespace.Name + `" + ":" + "` + account.Name + `"`
	policies := strings.Split(string(read(t, "fence/policies.yaml")), "---\n")[1:]
	if len(policies) != 2 {
		t.Fatalf("%d policies, want 2", len(policies))
	}
	for _, text := range policies {
		var policy admissionv1.ValidatingAdmissionPolicy
		if err := yaml.UnmarshalStrict([]byte(text), &policy); err != nil {
			t.Fatal(err)
		}
		if got := policy.Spec.MatchConditions[0].Expression; got != want {
			t.Errorf("%s is for %s, want %s", policy.Name, got, want)
		}
	}
}

// exempt are the rights to write that the fence need not look at, and why.
var exempt = map[string]string{
	"/events":              "tell of what happened and change nothing",
	"events.k8s.io/events": "tell of what happened and change nothing",
}

// A right to write that is neither fenced nor exempt would be a hole.
func TestEveryRightIsFencedOrExempt(t *testing.T) {
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(read(t, "rbac/role.yaml"), &role); err != nil {
		t.Fatal(err)
	}
	for _, hole := range findHoles(role.Rules) {
		t.Errorf("the operator may %s, which is neither fenced in kinds.go nor exempt here", hole)
	}
}

// findHoles names the rights to write that kinds leaves unfenced.
func findHoles(rules []rbacv1.PolicyRule) []string {
	operation := map[string]string{
		"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "delete": "DELETE", "deletecollection": "DELETE",
	}
	var holes []string
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					isRead := slices.Contains([]string{"get", "list", "watch"}, verb)
					if isRead || exempt[group+"/"+resource] != "" || isFenced(group, resource, operation[verb]) {
						continue
					}
					holes = append(holes, verb+" "+group+"/"+resource)
				}
			}
		}
	}
	return holes
}

func isFenced(group, resource, operation string) bool {
	name, _, isSub := strings.Cut(resource, "/")
	for _, kind := range kinds() {
		if kind.Group != group || kind.Name != name || operation == "" {
			continue
		}
		if isSub || len(kind.Operations) == 0 {
			return true
		}
		for _, fenced := range kind.Operations {
			if string(fenced) == operation {
				return true
			}
		}
	}
	return false
}

func TestFindHolesFindsPlanted(t *testing.T) {
	cases := map[string]struct {
		group, resource, verb string
		want                  []string
	}{
		"fenced":                    {"apps", "statefulsets", "patch", nil},
		"subresource of a fenced":   {"cache.example.com", "redisclusters/status", "patch", nil},
		"read":                      {"", "secrets", "watch", nil},
		"exempt":                    {"", "events", "create", nil},
		"new kind":                  {"batch", "jobs", "create", []string{"create batch/jobs"}},
		"operation that is not":     {"", "pods", "create", []string{"create /pods"}},
		"verb that nobody foresaw":  {"", "services", "proxy", []string{"proxy /services"}},
		"same name, another group":  {"other", "services", "patch", []string{"patch other/services"}},
		"deletion of a collection":  {"", "pods", "deletecollection", nil},
		"subresource of an unknown": {"batch", "jobs/status", "patch", []string{"patch batch/jobs/status"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := findHoles([]rbacv1.PolicyRule{{
				APIGroups: []string{tc.group}, Resources: []string{tc.resource}, Verbs: []string{tc.verb},
			}})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("holes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExecuteRefuses(t *testing.T) {
	cases := map[string]struct {
		arguments []string
		want      string
	}{
		"no shards":        {[]string{"-shards", "-1"}, "Shards -1 is not between 1 and 4096"},
		"quote in a name":  {[]string{"-service-account", `a"b`}, "ServiceAccount"},
		"unknown flag":     {[]string{"-nonsense"}, "nonsense"},
		"unknown out path": {[]string{"-out", "testdata/none"}, "writing the fence"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := execute(tc.arguments, &bytes.Buffer{}, &bytes.Buffer{})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("execute = %v, want an error with %q", err, tc.want)
			}
		})
	}
}
