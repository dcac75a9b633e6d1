package serverfence

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func minimal() Options {
	return Options{Namespace: "operators", ServiceAccount: "widget", Kinds: []Kind{{Group: "example.com", Name: "widgets"}}}
}

func build(t *testing.T, o Options) []client.Object {
	t.Helper()
	objects, err := Policy(o)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// One binding a shard, to that shard's Lease and label, for any S.
func TestPolicyHasOneBindingAShard(t *testing.T) {
	for _, shards := range []int{1, 64, 4096} {
		o := minimal()
		o.Installation, o.Shards, o.ShardLabel = "one", shards, "example.com/shard"
		bound := map[string]string{}
		for _, object := range build(t, o) {
			if !strings.HasPrefix(object.GetName(), "one-fence-") {
				t.Errorf("%s does not begin with the installation's name", object.GetName())
			}
			b, ok := object.(*admissionv1.ValidatingAdmissionPolicyBinding)
			if !ok || b.Spec.ParamRef == nil {
				continue
			}
			if b.Spec.PolicyName != "one-fence-shard" || b.Spec.ParamRef.Namespace != "operators" ||
				*b.Spec.ParamRef.ParameterNotFoundAction != admissionv1.AllowAction {
				t.Errorf("%s: %+v", b.Name, b.Spec)
			}
			bound[b.Spec.MatchResources.ObjectSelector.MatchLabels["example.com/shard"]] = b.Spec.ParamRef.Name
		}
		if len(bound) != shards {
			t.Errorf("%d shards are bound, want %d", len(bound), shards)
		}
		for shard, lease := range bound {
			if lease != "one-shard-"+shard {
				t.Errorf("shard %s is bound to Lease %s", shard, lease)
			}
		}
	}
}

func TestRules(t *testing.T) {
	o := minimal()
	o.Kinds = append(o.Kinds, Kind{Name: "pods", Operations: []admissionv1.OperationType{admissionv1.Update}})
	var got []string
	for _, rule := range buildRules(o.withDefaults()) {
		line := rule.APIGroups[0] + " " + strings.Join(rule.Resources, ",") + " " + strings.Join(rule.ResourceNames, ",")
		for _, operation := range rule.Operations {
			line += " " + string(operation)
		}
		got = append(got, line)
	}
	want := []string{
		"example.com widgets,widgets/*  CREATE UPDATE DELETE",
		" pods  UPDATE",
		" pods/*  CREATE UPDATE DELETE",
		" configmaps redis-operator-fence-probe CREATE",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

// Both policies look at the operator's account alone, and at no exempt object.
func TestConditions(t *testing.T) {
	o := minimal()
	o.Exempt = []Object{{Group: "example.com", Resource: "widgets", Namespace: "operators", Name: "shared"}}
	want := []string{
		`request.userInfo.username == "system:serviceaccount:" + "operators" + ":" + "widget"`,
		`!(request.namespace == "operators" && request.name == "redis-operator-placement" && ` +
			`request.resource.group == "" && request.resource.resource == "configmaps")`,
		`!(request.namespace == "operators" && request.name == "shared" && ` +
			`request.resource.group == "example.com" && request.resource.resource == "widgets")`,
	}
	for _, object := range build(t, o) {
		policy, ok := object.(*admissionv1.ValidatingAdmissionPolicy)
		if !ok {
			continue
		}
		var got []string
		for _, condition := range policy.Spec.MatchConditions {
			got = append(got, condition.Expression)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: conditions (-want +got):\n%s", policy.Name, diff)
		}
	}
}

func TestPolicyRefuses(t *testing.T) {
	cases := map[string]struct {
		change func(*Options)
		want   string
	}{
		"no namespace":       {func(o *Options) { o.Namespace = "" }, "Namespace"},
		"no account":         {func(o *Options) { o.ServiceAccount = "" }, "ServiceAccount"},
		"a quote":            {func(o *Options) { o.ServiceAccount = `a" || true || "` }, "ServiceAccount"},
		"a quote in a label": {func(o *Options) { o.ShardLabel = `a"b` }, "ShardLabel"},
		"no kinds":           {func(o *Options) { o.Kinds = nil }, "nothing would be fenced"},
		"every kind":         {func(o *Options) { o.Kinds[0].Name = "*" }, "Kinds"},
		"too many shards":    {func(o *Options) { o.Shards = 5000 }, "Shards 5000"},
		"a nameless object":  {func(o *Options) { o.Exempt = []Object{{Resource: "widgets", Namespace: "x"}} }, "Exempt"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := minimal()
			tc.change(&o)
			if _, err := Policy(o); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Policy = %v, want an error with %q", err, tc.want)
			}
		})
	}
}
