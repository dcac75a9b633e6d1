package serverfence_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/placement"
	"example.com/redis-operator/sharding/serverfence"
)

// What deploy/default installs is proved with the rights that deploy/default grants.
func TestDeployedFenceIsProved(t *testing.T) {
	i := &installation{name: "redis-operator-system", account: "redis-operator"}
	i.options = serverfence.Options{Installation: "redis-operator", Namespace: i.name, Shards: 64}
	a := i.pod(t, "redis-operator-7")
	if err := a.prove(t, i); err == nil || !strings.Contains(err.Error(), "is missing") {
		t.Errorf("before there are Leases: Prove = %v, want the missing Lease", err)
	}
	i.makeLeases(t)
	began := time.Now()
	if err := a.prove(t, i); err != nil {
		t.Errorf("Prove = %v", err)
	}
	t.Logf("64 shards proved in %s", time.Since(began))
	i.give(t, 63, a)
	if err := a.prove(t, i); err != nil {
		t.Errorf("with a shard of its own: Prove = %v", err)
	}
}

// Each fault that a deployment may have is found.
func TestProofFindsFaults(t *testing.T) {
	eachBinding := func(f func(*admissionv1.ValidatingAdmissionPolicyBinding)) func([]client.Object) {
		return func(objects []client.Object) {
			for _, object := range objects {
				if b, ok := object.(*admissionv1.ValidatingAdmissionPolicyBinding); ok && b.Spec.ParamRef != nil {
					f(b)
				}
			}
		}
	}
	eachPolicy := func(f func(*admissionv1.ValidatingAdmissionPolicy)) func([]client.Object) {
		return func(objects []client.Object) {
			for _, object := range objects {
				if p, ok := object.(*admissionv1.ValidatingAdmissionPolicy); ok {
					f(p)
				}
			}
		}
	}
	cases := map[string]struct {
		fault func([]client.Object)
		want  string
	}{
		"another namespace's Leases": {eachBinding(func(b *admissionv1.ValidatingAdmissionPolicyBinding) {
			b.Spec.ParamRef.Namespace = "default"
		}), "refused: false"},
		"one shard unbound": {eachBinding(func(b *admissionv1.ValidatingAdmissionPolicyBinding) {
			if strings.HasSuffix(b.Name, "-3") {
				b.Spec.MatchResources.ObjectSelector.MatchLabels[shardLabel] = "17"
			}
		}), "shard 3 is held by"},
		"only audited": {eachBinding(func(b *admissionv1.ValidatingAdmissionPolicyBinding) {
			b.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Audit}
		}), "refused: false"},
		"another service account": {eachPolicy(func(p *admissionv1.ValidatingAdmissionPolicy) {
			c := &p.Spec.MatchConditions[0]
			c.Expression = strings.ReplaceAll(c.Expression, `"`+account+`"`, `"other"`)
		}), "is accepted"},
		"more shards": {eachPolicy(func(p *admissionv1.ValidatingAdmissionPolicy) {
			v := &p.Spec.Validations[0]
			v.Expression = strings.ReplaceAll(v.Expression, "< 4", "< 8")
		}), `the shard label "4" is accepted`},
		"the holder refused": {eachPolicy(func(p *admissionv1.ValidatingAdmissionPolicy) {
			v := &p.Spec.Validations[0]
			v.Expression = strings.ReplaceAll(v.Expression, `variables.caller != ""`, "false")
		}), "refused: true"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			i := install(t, tc.fault)
			a := i.pod(t, "operator-0")
			i.hold(t, 1, a.identity())
			var err error
			eventually(t, "the fault is found", 20*time.Second, func() bool {
				err = a.prove(t, i)
				return errors.Is(err, serverfence.ErrInactive) && strings.Contains(err.Error(), tc.want)
			}, func() any { return err })
			t.Log(err)
		})
	}
}

// A process that no fence looks at is told so, and so is one whose server has none.
func TestProofElsewhere(t *testing.T) {
	i := install(t)
	admin, err := kubernetes.NewForConfig(suite.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := (&actor{clientset: admin}).prove(t, i); !errors.Is(err, serverfence.ErrOutside) {
		t.Errorf("as the administrator: Prove = %v, want ErrOutside", err)
	}
	old := rest.CopyConfig(i.pod(t, "operator-0").config)
	old.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			r.URL.Path = strings.Replace(r.URL.Path, "/admissionregistration.k8s.io/v1", "/admissionregistration.k8s.io/v0", 1)
			return inner.RoundTrip(r)
		})
	})
	c, err := kubernetes.NewForConfig(old)
	if err != nil {
		t.Fatal(err)
	}
	if err := (&actor{clientset: c}).prove(t, i); !errors.Is(err, serverfence.ErrUnsupported) {
		t.Errorf("without the API: Prove = %v, want ErrUnsupported", err)
	}
}

// A token that is bound to no Pod holds nothing, whatever a Lease says.
func TestTokenWithoutPod(t *testing.T) {
	i := install(t)
	a := newActor(t, i, "", "", nil)
	for _, holder := range []string{"", "_", "__", "operator-0_u_n"} {
		i.hold(t, 1, placement.Identity(holder))
		object := fenced("default", 1)["configmaps"]
		eventually(t, "refused", 5*time.Second, func() bool {
			return refusedBy(t, a.client.Create(t.Context(), object, client.DryRunAll)) == i.byShard(1)
		}, func() any { return holder })
	}
	if err := a.prove(t, i); err != nil {
		t.Errorf("Prove = %v", err)
	}
}

// A Pod of the same name is another, and so is one whose name begins the same.
func TestOnlyTheHolderItself(t *testing.T) {
	i := install(t)
	a := i.pod(t, "operator-1")
	object := fenced("default", 1)["configmaps"]
	i.give(t, 1, a)
	for _, holder := range []string{a.name + "_other-uid_n", a.name + "0_" + a.uid + "_n", "operator-10_" + a.uid, a.name} {
		i.hold(t, 1, placement.Identity(holder))
		eventually(t, "refused", 5*time.Second, func() bool {
			return refusedBy(t, a.client.Create(t.Context(), object, client.DryRunAll)) == i.byShard(1)
		}, func() any { return holder })
	}
}

// Two installations, each with its own account, do not see each other's writes.
func TestTwoInstallations(t *testing.T) {
	one, two := install(t), install(t)
	a, b := one.pod(t, "operator-0"), two.pod(t, "operator-0")
	one.give(t, 1, a)
	two.give(t, 2, b)
	write := func(a *actor, shard int) string {
		return refusedBy(t, a.client.Create(t.Context(), fenced("default", shard)["configmaps"], client.DryRunAll))
	}
	cases := map[string]struct{ got, want string }{
		"one, own shard":        {write(a, 1), ""},
		"one, the other's":      {write(a, 2), one.byShard(2)},
		"two, own shard":        {write(b, 2), ""},
		"two, the other's":      {write(b, 1), two.byShard(1)},
		"two, without a label":  {write(b, -1), two.byLabel()},
		"one, nobody's of both": {write(a, 3), one.byShard(3)},
	}
	for name, tc := range cases {
		if tc.got != tc.want {
			t.Errorf("%s: refused by %q, want %q", name, tc.got, tc.want)
		}
	}
}

// Without its Lease a shard's fence is open, to nobody's harm: who takes the shard over creates the Lease
// first. What must not be is that everybody is refused, as the server does with Deny.
func TestMissingLease(t *testing.T) {
	cases := map[string]struct {
		action  admissionv1.ParameterNotFoundActionType
		refused bool
	}{
		"as it is":                    {admissionv1.AllowAction, false},
		"what Deny would do to users": {admissionv1.DenyAction, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			i := install(t)
			var binding admissionv1.ValidatingAdmissionPolicyBinding
			get(t, &binding, "", i.byShard(1))
			binding.Spec.ParamRef.ParameterNotFoundAction = ptr.To(tc.action)
			if err := suite.admin.Update(t.Context(), &binding); err != nil {
				t.Fatal(err)
			}
			lease := &coordinationv1.Lease{}
			lease.Namespace, lease.Name = i.name, claim.LeaseName(i.name, 1)
			if err := suite.admin.Delete(t.Context(), lease); err != nil {
				t.Fatal(err)
			}
			write := func() bool {
				return suite.admin.Create(t.Context(), fenced("default", 1)["configmaps"], client.DryRunAll) != nil
			}
			if !tc.refused {
				for range 50 {
					if write() {
						t.Fatal("the administrator is refused")
					}
				}
				return
			}
			eventually(t, "the administrator is refused", 10*time.Second, write, func() any { return nil })
		})
	}
}

// kustomize carries another namespace into the fence with the component deploy/fence/follow.
func TestAnotherNamespaceByOverlay(t *testing.T) {
	deploy, err := filepath.Abs(filepath.Join(root, "deploy"))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	relative := func(from, to string) string {
		path, err := filepath.Rel(from, to)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	moved := filepath.Join(folder, "moved")
	if err := os.Mkdir(moved, 0o700); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		filepath.Join(moved, "kustomization.yaml"): "namespace: elsewhere\nresources:\n- " +
			relative(moved, filepath.Join(deploy, "default")) + "\n",
		filepath.Join(folder, "kustomization.yaml"): "resources:\n- moved\ncomponents:\n- " +
			relative(folder, filepath.Join(deploy, "fence", "follow")) + "\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rendered, err := kubectlOutput(t.Context(), "kustomize", folder)
	if err != nil {
		t.Fatal(err)
	}
	var fence []string
	for _, document := range strings.Split(rendered, "\n---\n") {
		if !strings.Contains(document, "ValidatingAdmissionPolicy") {
			continue
		}
		fence = append(fence, document)
		if strings.Contains(document, "redis-operator-system") {
			t.Errorf("still names the old namespace:\n%s", document)
		}
		var policy admissionv1.ValidatingAdmissionPolicy
		if err := yaml.Unmarshal([]byte(document), &policy); err != nil {
			t.Fatal(err)
		}
		want := `request.userInfo.username == "system:serviceaccount:" + "elsewhere" + ":" + "redis-operator"`
		if policy.Kind == "ValidatingAdmissionPolicy" && policy.Spec.MatchConditions[0].Expression != want {
			t.Errorf("%s: %s, want %s", policy.Name, policy.Spec.MatchConditions[0].Expression, want)
		}
	}
	if !strings.Contains(rendered, "namespace: elsewhere\n    parameterNotFoundAction") {
		t.Error("the bindings do not name the new namespace")
	}
	// kustomize puts the namespace into the policies' metadata too, where it must not matter.
	file := filepath.Join(folder, "fence.yaml")
	if err := os.WriteFile(file, []byte(strings.Join(fence, "\n---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := kubectl(t.Context(), "apply", "--server-side", "--dry-run=server", "--force-conflicts", "-f", file); err != nil {
		t.Error(err)
	}
}
