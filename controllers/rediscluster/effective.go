package rediscluster

import (
	"strings"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/controllers/rediscluster/resources"
	appsv1 "k8s.io/api/apps/v1"
)

// computeEffective returns the cluster as it is to be kept up: the spec itself until the cluster has
// formed, and from then on what the node groups were made from, with the names of the fields whose change
// is not carried out. What was edited in a StatefulSet by hand is not in force.
func computeEffective(cluster *redisv1.RedisCluster, sets []*appsv1.StatefulSet, formed bool) (*redisv1.RedisCluster, []string) {
	effective := cluster.DeepCopy()
	if !formed || len(sets) == 0 {
		return effective, nil
	}
	spec := &effective.Spec
	if cluster.Status.Size > 0 {
		spec.Size = cluster.Status.Size
	} else {
		spec.Size = int32(groupOf(sets[len(sets)-1])) + 1
	}
	for _, set := range sets {
		if resources.ApplyInForce(spec, set) {
			break
		}
	}
	return effective, computeFrozen(&cluster.Spec, spec)
}

// computeFrozen names the fields in which the wanted spec differs from the one in force.
func computeFrozen(wanted, inForce *redisv1.RedisClusterSpec) []string {
	var frozen []string
	for _, field := range []struct {
		name string
		same bool
	}{
		{"size", wanted.Size == inForce.Size},
		{"replicasPerPrimary", wanted.Replicas() == inForce.Replicas()},
		{"passwordSecret", wanted.PasswordSecret == inForce.PasswordSecret},
		{"storage.size", wanted.Storage == nil || inForce.Storage == nil || wanted.Storage.Size.Cmp(inForce.Storage.Size) == 0},
	} {
		if !field.same {
			frozen = append(frozen, field.name)
		}
	}
	return frozen
}

// describeFrozen says that a change is not carried out.
func describeFrozen(frozen []string) string {
	return "not carried out, since changing a cluster that has formed is not supported yet: " + strings.Join(frozen, ", ") +
		"; the cluster goes on as it was"
}
