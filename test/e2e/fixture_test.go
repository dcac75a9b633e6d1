package e2e

import (
	"context"
	"os"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/test/stage"
)

const (
	keys = 1000
	// redisContainer is the container of a node's Pod in which redis-server runs.
	redisContainer = "redis"
)

// create creates the clusters, waits until they are Ready, and has them deleted after the story.
func create(ctx context.Context, t *testing.T, wishes ...stage.Wish) {
	t.Helper()
	var names []types.NamespacedName
	for _, w := range wishes {
		if err := env.Create(ctx, w); err != nil {
			t.Fatal(err)
		}
		names = append(names, w.Key())
		t.Cleanup(func() { remove(t, w) })
	}
	waitReady(ctx, t, names...)
}

// remove deletes the namespace, which must need neither the operator nor Redis.
func remove(t *testing.T, w stage.Wish) {
	ctx, cancel := context.WithTimeout(context.Background(), storyLimit)
	defer cancel()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}}
	if err := env.Client.Delete(ctx, namespace); client.IgnoreNotFound(err) != nil {
		t.Errorf("deleting namespace %s: %v", w.Namespace, err)
	}
}

func waitReady(ctx context.Context, t *testing.T, names ...types.NamespacedName) {
	t.Helper()
	if err := env.WaitReady(ctx, names, nil); err != nil {
		t.Fatal(err)
	}
}

func redisClient(ctx context.Context, t *testing.T, w stage.Wish) *goredis.ClusterClient {
	t.Helper()
	client, err := env.RedisClient(ctx, w.Key(), env.dial)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

func writeKeys(ctx context.Context, t *testing.T, w stage.Wish) {
	t.Helper()
	if err := stage.WriteKeys(ctx, redisClient(ctx, t, w), keys); err != nil {
		t.Fatal(err)
	}
}

func readKeys(ctx context.Context, t *testing.T, w stage.Wish) {
	t.Helper()
	if found, err := stage.ReadKeys(ctx, redisClient(ctx, t, w), keys); err != nil {
		t.Fatalf("%s has %d of %d keys: %v", w.Key(), found, keys, err)
	}
}

// primaryOf returns the primary of a node group as the status names it.
func primaryOf(ctx context.Context, t *testing.T, w stage.Wish, group int32) redisv1.NodeState {
	t.Helper()
	cluster, err := env.Cluster(ctx, w.Key())
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range cluster.Status.NodeStates {
		if node.NodeGroup == group && node.Role == "primary" {
			return node
		}
	}
	t.Fatalf("%s reports no primary of node group %d: %+v", w.Key(), group, cluster.Status.NodeStates)
	return redisv1.NodeState{}
}

// waitNewPrimary waits until the status names a primary of the group with another id than the old.
func waitNewPrimary(ctx context.Context, t *testing.T, w stage.Wish, old redisv1.NodeState) redisv1.NodeState {
	t.Helper()
	var promoted redisv1.NodeState
	err := env.Wait(ctx, "another primary in "+w.Key().String(), func() (string, error) {
		cluster, err := env.Cluster(ctx, w.Key())
		if err != nil {
			return "", err
		}
		for _, node := range cluster.Status.NodeStates {
			if node.NodeGroup == old.NodeGroup && node.Role == "primary" && node.ID != old.ID && node.ID != "" {
				promoted = node
				return "", nil
			}
		}
		return "the primary is still " + old.Name, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return promoted
}

// localOnly ends a story that needs the Nodes of the local Kubernetes within reach. On the current
// context such a story cannot be told.
func localOnly(t *testing.T) {
	t.Helper()
	if env.Local == nil {
		t.Skip("needs the Nodes of the local Kubernetes: not with CLUSTER=current")
	}
}

// testAll reports whether each story is to be told of every shape of cluster, and not of one.
func testAll() bool { return os.Getenv("TEST_ALL") != "" }
