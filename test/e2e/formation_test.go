package e2e

import (
	"testing"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/test/stage"
)

// The sizes that are formed with TEST_ALL only are formed by other stories, too.
func TestFormation(t *testing.T) {
	t.Parallel()
	cases := []stage.Wish{
		{Namespace: "form-3x2", Name: "cache", Size: 3, Replicas: 2, Storage: true, Password: "a$b \"c\" 'd' #e \\x41 \xff\x01 é",
			Config: map[string]redisv1.ConfigValue{"maxmemory-policy": "allkeys-lru"}},
	}
	if testAll() {
		cases = append(cases,
			stage.Wish{Namespace: "form-1x0", Name: "cache", Size: 1},
			stage.Wish{Namespace: "form-2x1", Name: "cache", Size: 2, Replicas: 1},
			stage.Wish{Namespace: "form-3x1", Name: "cache", Size: 3, Replicas: 1})
	}
	for _, w := range cases {
		t.Run(w.Namespace, func(t *testing.T) {
			t.Parallel()
			ctx := story(t)
			create(ctx, t, w)
			cluster, err := env.Cluster(ctx, w.Key())
			if err != nil {
				t.Fatal(err)
			}
			if got := cluster.Status.SlotsAssigned; got != 16384 {
				t.Errorf("slotsAssigned = %d, want 16384", got)
			}
			if got, want := len(cluster.Status.Nodes), w.Nodes(); got != want {
				t.Errorf("status names %d nodes, want %d: %v", got, want, cluster.Status.Nodes)
			}
			writeKeys(ctx, t, w)
			readKeys(ctx, t, w)
			checkSpread(t, w)
		})
	}
}

// checkSpread: no replica is on the Node of its primary.
func checkSpread(t *testing.T, w stage.Wish) {
	t.Helper()
	pods, err := env.RedisPods(t.Context(), w.Key())
	if err != nil {
		t.Fatal(err)
	}
	nodes := map[string]map[string]string{}
	for i := range pods {
		group := pods[i].Labels[redisv1.LabelNodeGroup]
		if nodes[group] == nil {
			nodes[group] = map[string]string{}
		}
		if other, taken := nodes[group][pods[i].Spec.NodeName]; taken {
			t.Errorf("%s and %s of node group %s are both on %s", other, pods[i].Name, group, pods[i].Spec.NodeName)
		}
		nodes[group][pods[i].Spec.NodeName] = pods[i].Name
	}
}
