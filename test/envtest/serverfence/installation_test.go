package serverfence_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/placement"
	"example.com/redis-operator/sharding/serverfence"
)

const (
	shardLabel = "cache.example.com/shard"
	// shards is S of the installations that tests make.
	shards = 4
	// account is their service account.
	account = "operator"
)

// installation is an operator's namespace with Leases, a service account that may do everything, and the
// fence. Its name is that of its namespace.
type installation struct {
	name, account string
	options       serverfence.Options
	policies      []client.Object
}

// install makes an installation of its own for a test. Its fence is in force when this returns.
func install(t *testing.T, change ...func([]client.Object)) *installation {
	t.Helper()
	i := &installation{name: newNamespace(t, "operator-"), account: account}
	i.options = serverfence.Options{
		Installation: i.name, Namespace: i.name, ServiceAccount: account, Shards: shards, Kinds: deployedKinds(t),
	}
	create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: i.name, Name: account}})
	create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: i.name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: i.name, Name: account}},
	})
	var err error
	if i.policies, err = serverfence.Policy(i.options); err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(i.policies)
	}
	for _, object := range i.policies {
		create(t, object)
	}
	i.makeLeases(t)
	if len(change) == 0 {
		i.waitForFence(t)
	}
	return i
}

// deployedKinds are the kinds that the deployment fences, read from the policy that was applied.
func deployedKinds(t *testing.T) []serverfence.Kind {
	t.Helper()
	var policy admissionv1.ValidatingAdmissionPolicy
	get(t, &policy, "", serverfence.ShardPolicyName("redis-operator"))
	var kinds []serverfence.Kind
	for _, rule := range policy.Spec.MatchConstraints.ResourceRules {
		if len(rule.ResourceNames) > 0 || strings.Contains(rule.Resources[0], "/") {
			continue
		}
		kinds = append(kinds, serverfence.Kind{
			Group: rule.APIGroups[0], Name: rule.Resources[0], Operations: rule.Operations,
		})
	}
	return kinds
}

// makeLeases makes the empty Leases that the claims make at their first start.
func (i *installation) makeLeases(t *testing.T) {
	t.Helper()
	for shard := range placement.Shard(i.options.Shards) {
		create(t, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Namespace: i.name, Name: claim.LeaseName(i.options.Installation, shard), Labels: map[string]string{
				claim.InstallationLabel: i.options.Installation, claim.ShardLabel: strconv.Itoa(int(shard)),
			},
		}})
	}
}

func (i *installation) waitForFence(t *testing.T) {
	t.Helper()
	a := i.pod(t, "probe")
	var err error
	eventually(t, "the fence is in force", 30*time.Second, func() bool {
		err = a.prove(t, i)
		return err == nil
	}, func() any { return err })
}

// actor is a Pod of an installation with a token bound to it, as the operator's replicas have.
type actor struct {
	name, uid string
	config    *rest.Config
	client    client.Client
	clientset *kubernetes.Clientset
}

// pod makes a Pod of the installation's service account.
func (i *installation) pod(t *testing.T, name string) *actor {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.name, Name: name},
		Spec: corev1.PodSpec{
			ServiceAccountName: i.account,
			Containers:         []corev1.Container{{Name: "manager", Image: "none"}},
		},
	}
	if i.name == "redis-operator-system" {
		pod.Spec = restricted(pod.Spec)
	}
	create(t, pod)
	return newActor(t, i, pod.Name, string(pod.UID), &authenticationv1.BoundObjectReference{
		Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID,
	})
}

// restricted is a Pod as the deployment's namespace lets it in.
func restricted(spec corev1.PodSpec) corev1.PodSpec {
	spec.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	spec.Containers[0].SecurityContext = &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	return spec
}

// newActor gets a token of the installation's service account, bound to an object or, for nil, to none.
func newActor(t *testing.T, i *installation, name, uid string, bound *authenticationv1.BoundObjectReference) *actor {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound}}
	serviceAccount := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: i.name, Name: i.account}}
	if err := suite.admin.SubResource("token").Create(t.Context(), serviceAccount, request); err != nil {
		t.Fatal(err)
	}
	a := &actor{name: name, uid: uid, config: rest.AnonymousClientConfig(suite.config)}
	a.config.BearerToken = request.Status.Token
	a.config.QPS = -1
	var err error
	if a.client, err = client.New(a.config, client.Options{Scheme: suite.scheme}); err != nil {
		t.Fatal(err)
	}
	if a.clientset, err = kubernetes.NewForConfig(a.config); err != nil {
		t.Fatal(err)
	}
	return a
}

// identity is one that a process in the Pod may have.
func (a *actor) identity() placement.Identity {
	return placement.Identity(a.name + "_" + a.uid + "_0123456789")
}

// prove is the proof of all shards, and of every one's own.
func (a *actor) prove(t *testing.T, i *installation) error {
	t.Helper()
	all := make([]placement.Shard, i.options.Shards)
	for shard := range all {
		all[shard] = placement.Shard(shard)
	}
	return serverfence.Prove(t.Context(), i.proofOptions(a), all)
}

func (i *installation) proofOptions(a *actor) serverfence.ProofOptions {
	return serverfence.ProofOptions{
		Client: a.clientset, Installation: i.options.Installation, Namespace: i.options.Namespace, Shards: i.options.Shards,
	}
}

// hold writes a holder into a shard's Lease, "" for nobody, and answers without waiting for the server to
// learn of it.
func (i *installation) hold(t *testing.T, shard int, holder placement.Identity) {
	t.Helper()
	var lease coordinationv1.Lease
	get(t, &lease, i.name, claim.LeaseName(i.options.Installation, placement.Shard(shard)))
	lease.Spec.HolderIdentity = ptr.To(string(holder))
	if err := suite.admin.Update(t.Context(), &lease); err != nil {
		t.Fatal(err)
	}
}

// give makes an actor the holder of a shard, and waits until the server knows.
func (i *installation) give(t *testing.T, shard int, a *actor) {
	t.Helper()
	i.hold(t, shard, a.identity())
	var err error
	eventually(t, "the server knows the holder", 10*time.Second, func() bool {
		err = serverfence.Prove(t.Context(), i.proofOptions(a), []placement.Shard{placement.Shard(shard)})
		return err == nil
	}, func() any { return err })
}

// refusedBy names the binding that an error is the refusal of, "" for no error. Any other error fails.
func refusedBy(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	_, rest, ok := strings.Cut(err.Error(), "with binding '")
	binding, _, found := strings.Cut(rest, "' denied request: ")
	if !ok || !found || !apierrors.IsForbidden(err) {
		t.Fatalf("neither accepted nor refused by the fence: %v", err)
	}
	return binding
}

// byShard and byLabel are the names of the bindings, for comparisons with refusedBy.
func (i *installation) byShard(shard int) string {
	return serverfence.BindingName(i.options.Installation, placement.Shard(shard))
}

func (i *installation) byLabel() string { return serverfence.LabelPolicyName(i.options.Installation) }

func newNamespace(t *testing.T, prefix string) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}
	if err := suite.admin.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	return namespace.Name
}

// create creates an object as the administrator and deletes it after the test.
func create(t *testing.T, object client.Object) {
	t.Helper()
	if err := suite.admin.Create(t.Context(), object); err != nil {
		t.Fatalf("creating %T %s: %v", object, object.GetName(), err)
	}
	t.Cleanup(func() {
		err := suite.admin.Delete(context.Background(), object, client.GracePeriodSeconds(0))
		if err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("deleting %T %s: %v", object, object.GetName(), err)
		}
	})
}

func get(t *testing.T, object client.Object, namespace, name string) {
	t.Helper()
	if err := suite.admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
		t.Fatal(err)
	}
}

// labels are those of an object of a shard; of none for -1.
func labels(shard int) map[string]string {
	if shard < 0 {
		return nil
	}
	return map[string]string{shardLabel: strconv.Itoa(shard)}
}

func eventually(t *testing.T, what string, within time.Duration, is func() bool, last func() any) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, within, true,
		func(context.Context) (bool, error) { return is(), nil })
	if err != nil {
		t.Fatalf("%s: not within %s: %s", what, within, fmt.Sprint(last()))
	}
}
