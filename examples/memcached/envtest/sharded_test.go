package envtest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/redis-operator/sharding"
	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/placement"
	"example.com/redis-operator/sharding/serverfence"
)

// installation is the name that the sharded program gives itself.
const installation = "memcached"

var settings = placement.Settings{Shards: sharding.DefaultShards, Hash: placement.HashFNV1aMix}

// Three replicas of the sharded program share the namespaces, and do together what one of the unsharded
// does. One that stops, and one that is killed, leaves its namespaces to those that go on.
func TestSharded(t *testing.T) {
	w := newWorld(t)
	w.fence()
	replicas := []*replica{w.start("sharded", 0), w.start("sharded", 1), w.start("sharded", 2)}
	w.eventually("three replicas share the shards", func(ctx context.Context) string { return w.isShared(ctx, replicas, settings.Shards/3) })
	namespaces := w.pick(replicas)
	w.fill(namespaces)
	w.behave(namespaces)
	first := w.assertOwners(namespaces)
	for _, r := range replicas {
		if count := len(first[r.name]); count != tenants/len(replicas) {
			t.Errorf("%s works on %d namespaces", r.name, count)
		}
	}
	w.assertFenced(replicas[0], first[replicas[1].name][0])

	replicas[2].stop()
	left := replicas[:2]
	w.eventually("two replicas have taken over", func(ctx context.Context) string { return w.isShared(ctx, left, settings.Shards/4) })
	w.gateway.reset()
	w.resize(namespaces, 3)
	second := w.assertOwners(namespaces)
	for _, r := range left {
		for _, namespace := range first[r.name] {
			if !slices.Contains(second[r.name], namespace) {
				t.Errorf("I4: %s has moved away from %s, which goes on", namespace, r.name)
			}
		}
	}

	replicas[1].signal(syscall.SIGKILL)
	w.eventually("one replica has taken over", func(ctx context.Context) string { return w.isShared(ctx, replicas[:1], settings.Shards) })
	w.gateway.reset()
	w.resize(namespaces, 4)
	if third := w.assertOwners(namespaces); len(third[replicas[0].name]) != tenants {
		t.Errorf("%s works on %d namespaces", replicas[0].name, len(third[replicas[0].name]))
	}
	w.gateway.complain(w)
}

// fence puts the server's fence around what the operator writes: an object without the label of a shard
// that the writer holds is refused.
func (w *world) fence() {
	w.t.Helper()
	objects, err := serverfence.Policy(serverfence.Options{
		Installation: installation, Namespace: system, ServiceAccount: operator,
		Kinds: []serverfence.Kind{{Group: "apps", Name: "deployments"}, {Name: "services"}},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, object := range objects {
		w.create(object)
	}
}

// assertFenced tries a write of a replica to what is another's.
func (w *world) assertFenced(r *replica, namespace string) {
	w.t.Helper()
	intruder, err := client.New(r.config, client.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"by":"intruder"}}}`))
	err = intruder.Patch(w.t.Context(), &appsv1.Deployment{ObjectMeta: meta(namespace)}, patch, client.DryRunAll)
	if !serverfence.IsRefusal(err, installation) {
		w.t.Errorf("a write of %s to %s is answered by %v, want the fence's refusal", r.name, namespace, err)
	}
}

// holders are the members that hold the shards' Leases.
func (w *world) holders(ctx context.Context) (map[sharding.Shard]string, error) {
	var leases coordinationv1.LeaseList
	if err := w.client.List(ctx, &leases, client.InNamespace(system)); err != nil {
		return nil, err
	}
	holders := map[sharding.Shard]string{}
	for _, lease := range leases.Items {
		number, found := strings.CutPrefix(lease.Name, claim.LeasePrefix(installation))
		shard, err := strconv.Atoi(number)
		if !found || err != nil {
			continue
		}
		member, _, _ := strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_")
		holders[sharding.Shard(shard)] = member
	}
	return holders, nil
}

// isShared says what is missing until these replicas, and no other, hold every shard, and each at least
// so many.
func (w *world) isShared(ctx context.Context, replicas []*replica, least int) string {
	holders, err := w.holders(ctx)
	if err != nil {
		return err.Error()
	}
	counts := map[string]int{}
	for shard := range sharding.Shard(settings.Shards) {
		counts[holders[shard]]++
	}
	held := 0
	for _, r := range replicas {
		if counts[r.name] < least {
			return fmt.Sprintf("%s holds too little of %v", r.name, counts)
		}
		held += counts[r.name]
	}
	if held != settings.Shards {
		return fmt.Sprintf("shards are held by %v", counts)
	}
	return ""
}

// pick finds names of namespaces such that each replica owns as many.
func (w *world) pick(replicas []*replica) []string {
	w.t.Helper()
	holders, err := w.holders(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	counts := map[string]int{}
	var namespaces []string
	for n := 0; len(namespaces) < tenants; n++ {
		namespace := fmt.Sprintf("%s%d", tenantPrefix, n)
		if holder := holders[settings.ShardOf(namespace)]; counts[holder] < tenants/len(replicas) {
			counts[holder]++
			namespaces = append(namespaces, namespace)
		}
	}
	return namespaces
}

// assertOwners checks that only the holder of its shard's Lease has written into each namespace, and that
// what was made says the shard. It returns the namespaces of each replica.
func (w *world) assertOwners(namespaces []string) map[string][]string {
	w.t.Helper()
	holders, err := w.holders(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	owned := map[string][]string{}
	for _, namespace := range namespaces {
		shard := settings.ShardOf(namespace)
		owner := holders[shard]
		owned[owner] = append(owned[owner], namespace)
		if writers := w.gateway.writersOf(namespace); !slices.Equal(writers, []string{owner}) {
			w.t.Errorf("I1: %s of shard %d, which %s holds, was written by %v", namespace, shard, owner, writers)
		}
		for _, object := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}} {
			if err := w.client.Get(w.t.Context(), key(namespace), object); err != nil {
				w.t.Fatal(err)
			}
			if got := object.GetLabels()[sharding.DefaultShardLabel]; got != strconv.Itoa(int(shard)) {
				w.t.Errorf("%T of %s has the label %q of shard %d", object, namespace, got, shard)
			}
		}
	}
	return owned
}
