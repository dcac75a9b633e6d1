package main

import (
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
	changed := []admissionv1.OperationType{admissionv1.Update, admissionv1.Delete}
	return []serverfence.Kind{
		{Group: redisv1.Group, Name: "redisclusters"},
		{Group: "apps", Name: "statefulsets"},
		{Group: "", Name: "services"},
		{Group: "", Name: "configmaps"},
		{Group: "policy", Name: "poddisruptionbudgets"},
		{Group: "", Name: "pods", Operations: changed},
		{Group: "", Name: "persistentvolumeclaims", Operations: changed},
	}
}
