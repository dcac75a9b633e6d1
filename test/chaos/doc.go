// Package chaos disturbs an installation of the operator on the local Kubernetes while RedisClusters
// come, change and go, and has the independent checker (package check) decide whether the invariants of
// sharding were kept.
//
// What is disturbed when, and what changes when, are pure functions of a seed, so that a run can be
// repeated. What follows from it is not: the processes race with each other and with the disturbances.
// Those name no Pod but a number, which is counted out among the operator's Pods of that moment.
package chaos
