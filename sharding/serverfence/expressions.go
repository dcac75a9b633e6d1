package serverfence

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"example.com/redis-operator/sharding/claim"
)

// Keys of a caller's user info. The API server sets them for a token that is bound to a Pod, and takes
// them from nobody else.
const (
	extraPodName = "authentication.kubernetes.io/pod-name"
	extraPodUID  = "authentication.kubernetes.io/pod-uid"
)

// buildConditions says which requests the expressions see at all: the operator's own, and not those for
// an exempt object. The name of the service account is in quotes of its own, and so is the namespace:
// deploy/fence/follow replaces what is between them.
func buildConditions(o Options) []admissionv1.MatchCondition {
	conditions := []admissionv1.MatchCondition{{
		Name: "operator",
		Expression: fmt.Sprintf(`request.userInfo.username == "system:serviceaccount:" + "%s" + ":" + "%s"`,
			o.Namespace, o.ServiceAccount),
	}}
	for i, e := range o.exemptions() {
		conditions = append(conditions, admissionv1.MatchCondition{
			Name: fmt.Sprintf("exempt-%d", i),
			Expression: fmt.Sprintf(`!(request.namespace == "%s" && request.name == "%s" && `+
				`request.resource.group == "%s" && request.resource.resource == "%s")`,
				e.Namespace, e.Name, e.Group, e.Resource),
		})
	}
	return conditions
}

// shardVariable is the label of the new object, or of the one that is deleted; "" for none.
func shardVariable(o Options) admissionv1.Variable {
	return admissionv1.Variable{Name: "shard", Expression: fmt.Sprintf(
		`(request.operation == "DELETE" ? oldObject : object).?metadata.?labels[?"%s"].orValue("")`, o.ShardLabel)}
}

// leaseVariables are the holder that the Lease names, and how an identity of the calling Pod begins;
// both are "" where there is none.
func leaseVariables() []admissionv1.Variable {
	extra := func(key string) string { return fmt.Sprintf(`request.userInfo.?extra[?"%s"][?0]`, key) }
	return []admissionv1.Variable{
		{Name: "holder", Expression: `params.?spec.?holderIdentity.orValue("")`},
		{Name: "caller", Expression: fmt.Sprintf(`%[1]s.hasValue() && %[2]s.hasValue() ? %[1]s.value() + "_" + %[2]s.value() + "_" : ""`,
			extra(extraPodName), extra(extraPodUID))},
	}
}

// shardExpression goes by the Lease's name, not by its labels, which anybody may edit.
func shardExpression(o Options) string {
	return fmt.Sprintf(`params.metadata.name != "%s" + variables.shard || `+
		`variables.caller != "" && variables.holder.startsWith(variables.caller)`, claim.LeasePrefix(o.Installation))
}

const shardMessage = `"shard " + variables.shard + " is held by " + ` +
	`(variables.holder == "" ? "nobody" : variables.holder) + ", the caller is " + ` +
	`(variables.caller == "" ? "no Pod" : variables.caller)`

// labelExpression wants a number as strconv writes it, below S.
func labelExpression(o Options) string {
	return fmt.Sprintf(`variables.shard.matches("^(0|[1-9][0-9]{0,4})$") && int(variables.shard) < %d`, o.Shards)
}

func labelMessage(o Options) string {
	return fmt.Sprintf(`"label %s is \"" + variables.shard + "\", not a shard below %d"`, o.ShardLabel, o.Shards)
}
