package e2e

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/test/stage"
)

// A container that is killed comes back within the node timeout with its nodes.conf, and without the
// data that was only in memory. It must not serve, nor replicate, its empty or older data set.
func TestKilledContainerLosesNoKey(t *testing.T) {
	t.Parallel()
	localOnly(t)
	never := map[string]redisv1.ConfigValue{"save": ""}
	type killed struct {
		wish     stage.Wish
		olderRDB bool
	}
	cases := []killed{
		{wish: stage.Wish{Namespace: "gate-empty-3x1", Name: "cache", Size: 3, Replicas: 1, Config: never}},
		{wish: stage.Wish{Namespace: "gate-older-2x1", Name: "cache", Size: 2, Replicas: 1, Config: never}, olderRDB: true},
	}
	if testAll() {
		cases = append(cases,
			killed{wish: stage.Wish{Namespace: "gate-older-3x1", Name: "cache", Size: 3, Replicas: 1, Config: never}, olderRDB: true},
			killed{wish: stage.Wish{Namespace: "gate-empty-1x1", Name: "cache", Size: 1, Replicas: 1, Config: never}})
	}
	for _, tc := range cases {
		t.Run(tc.wish.Namespace, func(t *testing.T) {
			t.Parallel()
			ctx := story(t)
			create(ctx, t, tc.wish)
			if tc.olderRDB {
				saveOlderRDB(ctx, t, tc.wish)
			}
			writeKeys(ctx, t, tc.wish)
			waitReplicated(ctx, t, tc.wish)
			old := primaryOf(ctx, t, tc.wish, 0)
			if err := env.Local.KillContainer(ctx, tc.wish.Namespace, old.Name, redisContainer); err != nil {
				t.Fatal(err)
			}
			waitNewPrimary(ctx, t, tc.wish, old)
			waitReady(ctx, t, tc.wish.Key())
			readKeys(ctx, t, tc.wish)
		})
	}
}

// saveOlderRDB leaves every primary with an RDB file that holds a few keys only.
func saveOlderRDB(ctx context.Context, t *testing.T, w stage.Wish) {
	t.Helper()
	cluster := redisClient(ctx, t, w)
	for i := range 100 {
		if err := cluster.Set(ctx, fmt.Sprintf("old-%d", i), "old", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, node *goredis.Client) error { return node.Save(ctx).Err() })
	if err != nil {
		t.Fatal(err)
	}
}

// waitReplicated waits until each primary's writes so far are with all its replicas.
func waitReplicated(ctx context.Context, t *testing.T, w stage.Wish) {
	t.Helper()
	cluster := redisClient(ctx, t, w)
	err := env.Wait(ctx, "the replicas to have everything", func() (string, error) {
		return "", cluster.ForEachMaster(ctx, func(ctx context.Context, node *goredis.Client) error {
			info, err := node.Info(ctx, "replication").Result()
			if err != nil {
				return err
			}
			return replicasBehind(info, int(w.Replicas))
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestLostPod(t *testing.T) {
	t.Parallel()
	cases := []stage.Wish{
		{Namespace: "pod-memory-3x1", Name: "cache", Size: 3, Replicas: 1},
		{Namespace: "pod-storage-1x0", Name: "cache", Size: 1, Storage: true},
	}
	if testAll() {
		cases = append(cases,
			stage.Wish{Namespace: "pod-storage-3x1", Name: "cache", Size: 3, Replicas: 1, Storage: true},
			stage.Wish{Namespace: "pod-memory-1x1", Name: "cache", Size: 1, Replicas: 1})
	}
	for _, w := range cases {
		t.Run(w.Namespace, func(t *testing.T) {
			t.Parallel()
			ctx := story(t)
			create(ctx, t, w)
			writeKeys(ctx, t, w)
			if w.Replicas > 0 {
				waitReplicated(ctx, t, w)
			}
			deletePods(ctx, t, w, primaryOf(ctx, t, w, 0).Name)
			waitReady(ctx, t, w.Key())
			readKeys(ctx, t, w)
			checkNodes(ctx, t, w)
		})
	}
}

// All Pods go at once and come back under other addresses, with their storage.
func TestAllAddressesChange(t *testing.T) {
	t.Parallel()
	ctx := story(t)
	w := stage.Wish{Namespace: "addresses", Name: "cache", Size: 3, Replicas: 1, Storage: true, Password: "secret"}
	create(ctx, t, w)
	writeKeys(ctx, t, w)
	pods, err := env.RedisPods(ctx, w.Key())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range pods {
		names = append(names, pods[i].Name)
	}
	deletePods(ctx, t, w, names...)
	waitReady(ctx, t, w.Key())
	readKeys(ctx, t, w)
	checkNodes(ctx, t, w)
}

// deletePods deletes the Pods and waits until others with their names are ready.
func deletePods(ctx context.Context, t *testing.T, w stage.Wish, names ...string) {
	t.Helper()
	var deleted []*corev1.Pod
	for _, name := range names {
		pod := &corev1.Pod{}
		if err := env.Client.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: name}, pod); err != nil {
			t.Fatal(err)
		}
		if err := env.Client.Delete(ctx, pod); err != nil {
			t.Fatal(err)
		}
		deleted = append(deleted, pod)
	}
	for _, pod := range deleted {
		if err := env.WaitReplaced(ctx, pod); err != nil {
			t.Fatal(err)
		}
	}
}

// checkNodes asks every node: each knows exactly the nodes of the cluster.
func checkNodes(ctx context.Context, t *testing.T, w stage.Wish) {
	t.Helper()
	err := redisClient(ctx, t, w).ForEachShard(ctx, func(ctx context.Context, node *goredis.Client) error {
		return env.Wait(ctx, "the gone nodes to be forgotten", func() (string, error) {
			info, err := node.ClusterInfo(ctx).Result()
			if err != nil {
				return "", err
			}
			if got := infoFields(info)["cluster_known_nodes"]; got != strconv.Itoa(w.Nodes()) {
				return fmt.Sprintf("a node knows %s nodes, want %d", got, w.Nodes()), nil
			}
			return "", nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}
