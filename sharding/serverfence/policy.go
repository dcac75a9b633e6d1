package serverfence

import (
	"fmt"
	"strconv"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/placement"
)

// Policy builds what fences an installation: the two policies first, then their bindings. Everything in
// it is a function of the options. The error names every option that is wrong.
func Policy(o Options) ([]client.Object, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("building the server's fence: %w", err)
	}
	o = o.withDefaults()
	objects := []client.Object{buildLabelPolicy(o), buildShardPolicy(o), buildLabelBinding(o)}
	for shard := range placement.Shard(o.Shards) {
		objects = append(objects, buildShardBinding(o, shard))
	}
	return objects, nil
}

func buildLabelPolicy(o Options) *admissionv1.ValidatingAdmissionPolicy {
	policy := buildPolicy(o, LabelPolicyName(o.Installation))
	policy.Spec.Variables = []admissionv1.Variable{shardVariable(o)}
	policy.Spec.Validations = []admissionv1.Validation{{
		Expression:        labelExpression(o),
		MessageExpression: labelMessage(o),
		Message:           "the object has no shard label",
		Reason:            ptr.To(metav1.StatusReasonForbidden),
	}}
	return policy
}

func buildShardPolicy(o Options) *admissionv1.ValidatingAdmissionPolicy {
	policy := buildPolicy(o, ShardPolicyName(o.Installation))
	policy.Spec.ParamKind = &admissionv1.ParamKind{
		APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease",
	}
	policy.Spec.Variables = append([]admissionv1.Variable{shardVariable(o)}, leaseVariables()...)
	policy.Spec.Validations = []admissionv1.Validation{{
		Expression:        shardExpression(o),
		MessageExpression: shardMessage,
		Message:           "the caller does not hold the Lease of the object's shard",
		Reason:            ptr.To(metav1.StatusReasonForbidden),
	}}
	return policy
}

// buildPolicy builds what both policies have in common: which requests they look at.
func buildPolicy(o Options, name string) *admissionv1.ValidatingAdmissionPolicy {
	return &admissionv1.ValidatingAdmissionPolicy{
		TypeMeta: metav1.TypeMeta{
			APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicy",
		},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: o.labels()},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy:    ptr.To(admissionv1.Fail),
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: buildRules(o)},
			MatchConditions:  buildConditions(o),
		},
	}
}

// buildRules lists every kind with all its subresources, and the probe, which is looked at whether or
// not ConfigMaps are fenced.
func buildRules(o Options) []admissionv1.NamedRuleWithOperations {
	all := []admissionv1.OperationType{admissionv1.Create, admissionv1.Update, admissionv1.Delete}
	var rules []admissionv1.NamedRuleWithOperations
	for _, kind := range o.Kinds {
		if len(kind.Operations) == 0 {
			rules = append(rules, buildRule(kind.Group, all, kind.Name, kind.Name+"/*"))
			continue
		}
		rules = append(rules,
			buildRule(kind.Group, kind.Operations, kind.Name), buildRule(kind.Group, all, kind.Name+"/*"))
	}
	probe := buildRule("", all[:1], "configmaps")
	probe.ResourceNames = []string{ProbeName(o.Installation)}
	return append(rules, probe)
}

func buildRule(
	group string, operations []admissionv1.OperationType, resources ...string,
) admissionv1.NamedRuleWithOperations {
	return admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: operations,
		Rule: admissionv1.Rule{
			APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: resources,
			Scope: ptr.To(admissionv1.NamespacedScope),
		},
	}}
}

func buildLabelBinding(o Options) *admissionv1.ValidatingAdmissionPolicyBinding {
	name := LabelPolicyName(o.Installation)
	return buildBinding(o, name, name)
}

// buildShardBinding binds the shard policy to one shard's Lease. A Lease that is missing must not deny:
// the server judges that before it looks at who asks, and would refuse everybody's writes, the
// kubelet's and the garbage collector's too. Nor need it: whoever takes the shard over has to create
// the Lease first.
func buildShardBinding(o Options, shard placement.Shard) *admissionv1.ValidatingAdmissionPolicyBinding {
	binding := buildBinding(o, BindingName(o.Installation, shard), ShardPolicyName(o.Installation))
	binding.Spec.ParamRef = &admissionv1.ParamRef{
		Namespace: o.Namespace, Name: claim.LeaseName(o.Installation, shard),
		ParameterNotFoundAction: ptr.To(admissionv1.AllowAction),
	}
	binding.Spec.MatchResources = &admissionv1.MatchResources{ObjectSelector: &metav1.LabelSelector{
		MatchLabels: map[string]string{o.ShardLabel: strconv.Itoa(int(shard))},
	}}
	return binding
}

func buildBinding(o Options, name, policy string) *admissionv1.ValidatingAdmissionPolicyBinding {
	return &admissionv1.ValidatingAdmissionPolicyBinding{
		TypeMeta: metav1.TypeMeta{
			APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicyBinding",
		},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: o.labels()},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        policy,
			ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
}
