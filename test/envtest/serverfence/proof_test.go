package serverfence_test

import (
	"testing"

	"example.com/redis-operator/sharding/serverfence"
)

// deployed is what deploy/default installed. Its account has the rights of the deployment and no other.
func deployed(t *testing.T) *installation {
	t.Helper()
	i := &installation{name: "redis-operator-system", account: "redis-operator"}
	i.options = serverfence.Options{
		Installation: "redis-operator", Namespace: i.name, ServiceAccount: i.account, Shards: 64,
	}
	return i
}
