package main

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/sharding/serverfence"
)

// kinds are what the operator writes in the users' namespaces. A test compares them with the operator's
// role, so that a right that is added is fenced, or exempt for a stated reason.
//
// Pods and claims are made by the StatefulSet controller: the creation of one is not looked at, so that
// the making of every Pod in the cluster need not pass by here.
func kinds() []serverfence.Kind {
	return []serverfence.Kind{
		{Group: redisv1.Group, Name: "redisclusters"},
		{Group: "apps", Name: "statefulsets"},
		{Group: "", Name: "services"},
		{Group: "", Name: "configmaps"},
		{Group: "policy", Name: "poddisruptionbudgets"},
		{Group: "", Name: "pods", Operations: changes()},
		{Group: "", Name: "persistentvolumeclaims", Operations: changes()},
	}
}

// changes are all operations but the creation.
func changes() []admissionv1.OperationType {
	return []admissionv1.OperationType{admissionv1.Update, admissionv1.Delete}
}

// parseKinds reads the list of -kinds. What is wrong with a name is found when the policies are built.
func parseKinds(list string) ([]serverfence.Kind, error) {
	var kinds []serverfence.Kind
	for _, item := range strings.Split(list, ",") {
		group, name, found := strings.Cut(strings.TrimSpace(item), "/")
		if !found {
			group, name = "", group
		}
		if name == "" {
			return nil, fmt.Errorf("%q is no GROUP/RESOURCE", item)
		}
		kind := serverfence.Kind{Group: group, Name: name}
		if group == "" && (name == "pods" || name == "persistentvolumeclaims") {
			kind.Operations = changes()
		}
		kinds = append(kinds, kind)
	}
	return kinds, nil
}
