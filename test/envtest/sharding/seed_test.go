package sharding

import (
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/redis-operator/sharding"
	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/placement"
)

// seedLeases makes P and the empty shard Leases of an installation, which its first replicas would
// make only after a Lease duration.
func (i *installation) seedLeases() {
	i.t.Helper()
	settings := placement.Settings{Shards: i.options.Shards, Hash: placement.HashFNV1aMix}
	store := placement.NewStore(i.api.CoreV1().ConfigMaps(i.namespace), i.name, settings)
	_, err := store.Create(i.t.Context(), placement.New(settings, placement.Timings{
		LeaseDuration: i.options.LeaseDuration, RenewDeadline: i.options.RenewDeadline, RetryPeriod: i.options.RetryPeriod,
	}))
	if err != nil {
		i.t.Fatal(err)
	}
	for shard := range sharding.Shard(i.options.Shards) {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Name: claim.LeaseName(i.name, shard),
			Labels: map[string]string{
				claim.InstallationLabel: i.name, claim.ShardLabel: strconv.Itoa(int(shard)),
			},
			Annotations: map[string]string{
				claim.ShardsAnnotation: strconv.Itoa(settings.Shards), claim.HashAnnotation: settings.Hash,
			},
		}}
		if _, err := i.api.CoordinationV1().Leases(i.namespace).Create(i.t.Context(), lease, metav1.CreateOptions{}); err != nil {
			i.t.Fatal(err)
		}
	}
}
