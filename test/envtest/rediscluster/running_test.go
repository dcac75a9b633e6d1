package rediscluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/controllers/rediscluster/resources"
)

func inCluster(cluster *redisv1.RedisCluster) []client.ListOption {
	return []client.ListOption{client.InNamespace(cluster.Namespace), client.MatchingLabels(resources.Selector(cluster.Name))}
}

// formed creates a cluster and waits until it is Ready.
func formed(t *testing.T, namespace string, size, replicas int32, edits ...func(*redisv1.RedisCluster)) *redisv1.RedisCluster {
	t.Helper()
	cluster := newCluster(namespace, size, replicas)
	for _, edit := range edits {
		edit(cluster)
	}
	create(t, cluster)
	await(t, cluster, "Ready", isReady)
	return cluster
}

// node is a connection to the node that a Pod runs.
func node(t *testing.T, state redisv1.NodeState, password string) *goredis.Client {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: state.Address, Password: password, Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { c.Close() })
	return c
}

// keyspace is a cluster client of all nodes that the status names.
func keyspace(t *testing.T, cluster *redisv1.RedisCluster) *goredis.ClusterClient {
	t.Helper()
	var addresses []string
	for _, state := range cluster.Status.NodeStates {
		addresses = append(addresses, state.Address)
	}
	c := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: addresses, Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { c.Close() })
	return c
}

func eventually(t *testing.T, what string, isSo func(context.Context) error) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for tick := time.NewTicker(50 * time.Millisecond); ; <-tick.C {
		err := isSo(t.Context())
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not after 30 s: %s: %v", what, err)
		}
	}
}

func primaryOf(cluster *redisv1.RedisCluster, group int32) redisv1.NodeState {
	i := slices.IndexFunc(cluster.Status.NodeStates, func(n redisv1.NodeState) bool {
		return n.NodeGroup == group && n.Role == "primary" && n.Slots != ""
	})
	if i < 0 {
		return redisv1.NodeState{}
	}
	return cluster.Status.NodeStates[i]
}

func podOf(t *testing.T, cluster *redisv1.RedisCluster, name string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	if err := suite.client.Get(t.Context(), client.ObjectKey{Namespace: cluster.Namespace, Name: name}, pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

func TestChangedConfigIsSetOnEveryNode(t *testing.T) {
	namespace, _ := newNamespace(t)
	cluster := formed(t, namespace, 1, 1, func(c *redisv1.RedisCluster) {
		c.Spec.Config = map[string]redisv1.ConfigValue{"maxmemory": "100mb"}
	})
	onEveryNode := func(name, want string) {
		t.Helper()
		for _, state := range cluster.Status.NodeStates {
			eventually(t, fmt.Sprintf("%s %s on %s", name, want, state.Name), func(ctx context.Context) error {
				got, err := node(t, state, "").ConfigGet(ctx, name).Result()
				if err == nil && got[name] != want {
					err = fmt.Errorf("got %q", got[name])
				}
				return err
			})
		}
	}
	onEveryNode("maxmemory", "104857600")
	change(t, cluster, func(c *redisv1.RedisCluster) {
		c.Spec.Config = map[string]redisv1.ConfigValue{"MaxMemory": "200mb", "maxmemory-policy": "allkeys-lru"}
	})
	onEveryNode("maxmemory", "209715200")
	onEveryNode("maxmemory-policy", "allkeys-lru")
	await(t, cluster, "Ready", isReady)

	change(t, cluster, func(c *redisv1.RedisCluster) { c.Spec.Config["databases"] = "7" })
	await(t, cluster, "the server's refusal in the condition",
		hasCondition(redisv1.ConditionConfigValid, redisv1.ReasonDirectiveRejected, "cache-0-0", "immutable"))
	config := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: namespace, Name: resources.ConfigMapName(cluster.Name)}
	if err := suite.client.Get(t.Context(), key, config); err != nil || strings.Contains(config.Data["redis.conf"], "databases") {
		t.Errorf("a directive that was refused is written down for the next start (%v)", err)
	}
	if err := suite.client.Delete(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a ConfigMap of what is in force", func(ctx context.Context) error {
		if err := suite.client.Get(ctx, key, config); err != nil {
			return err
		}
		if text := config.Data["redis.conf"]; strings.Contains(text, "databases \"7\"") || !strings.Contains(text, `maxmemory "209715200"`) {
			return fmt.Errorf("it says %q", text)
		}
		return nil
	})
	change(t, cluster, func(c *redisv1.RedisCluster) { delete(c.Spec.Config, "databases") })
	await(t, cluster, "valid again", func(c *redisv1.RedisCluster) bool {
		return isReady(c) && meta.IsStatusConditionTrue(c.Status.Conditions, redisv1.ConditionConfigValid)
	})
}

func TestChangesThatAreNotSupportedAreReported(t *testing.T) {
	namespace, _ := newNamespace(t)
	cluster := formed(t, namespace, 1, 0)
	change(t, cluster, func(c *redisv1.RedisCluster) {
		c.Spec.Size, *c.Spec.ReplicasPerPrimary = 3, 2
	})
	await(t, cluster, "the condition that names them", hasCondition(redisv1.ConditionConfigValid,
		redisv1.ReasonChangeNotSupported, "size", "replicasPerPrimary"))
	if cluster.Status.Phase != redisv1.PhaseReady || cluster.Status.Size != 1 {
		t.Errorf("phase %s, size %d; want a cluster that goes on as it was", cluster.Status.Phase, cluster.Status.Size)
	}
	var sets appsv1.StatefulSetList
	if err := suite.client.List(t.Context(), &sets, inCluster(cluster)...); err != nil {
		t.Fatal(err)
	}
	if len(sets.Items) != 1 || *sets.Items[0].Spec.Replicas != 1 || sets.Items[0].Spec.Template.Spec.Containers[0].Image != "redis:7.0" {
		t.Errorf("half done: %d StatefulSets, first %+v", len(sets.Items), sets.Items[0].Spec)
	}
	change(t, cluster, func(c *redisv1.RedisCluster) {
		c.Spec.Size, *c.Spec.ReplicasPerPrimary = 1, 0
	})
	await(t, cluster, "valid again", func(c *redisv1.RedisCluster) bool {
		return isReady(c) && meta.IsStatusConditionTrue(c.Status.Conditions, redisv1.ConditionConfigValid)
	})
}

// What somebody edits in a StatefulSet is put back, and the other node groups never hear of it.
func TestEditedStatefulSetIsPutBack(t *testing.T) {
	namespace, _ := newNamespace(t)
	cluster := formed(t, namespace, 3, 1)
	var sets appsv1.StatefulSetList
	if err := suite.client.List(t.Context(), &sets, inCluster(cluster)...); err != nil || len(sets.Items) != 3 {
		t.Fatal(len(sets.Items), err)
	}
	others := map[string]int64{}
	for _, set := range sets.Items[1:] {
		others[set.Name] = set.Generation
	}
	edited := &sets.Items[0]
	change(t, edited, func(s *appsv1.StatefulSet) {
		*s.Spec.Replicas, s.Spec.Template.Spec.Containers[0].Image = 0, "elsewhere/redis:7.0"
	})
	eventually(t, "putting back", func(ctx context.Context) error {
		if err := suite.client.Get(ctx, client.ObjectKeyFromObject(edited), edited); err != nil {
			return err
		}
		if *edited.Spec.Replicas != 2 || edited.Spec.Template.Spec.Containers[0].Image != "redis:7.0" {
			return fmt.Errorf("it has %d replicas of %s", *edited.Spec.Replicas, edited.Spec.Template.Spec.Containers[0].Image)
		}
		return nil
	})
	await(t, cluster, "Ready and valid", func(c *redisv1.RedisCluster) bool {
		return isReady(c) && meta.IsStatusConditionTrue(c.Status.Conditions, redisv1.ConditionConfigValid)
	})
	if err := suite.client.List(t.Context(), &sets, inCluster(cluster)...); err != nil {
		t.Fatal(err)
	}
	for _, set := range sets.Items {
		if was, found := others[set.Name]; found && set.Generation != was {
			t.Errorf("%s was changed too: %+v", set.Name, set.Spec)
		}
	}
}

// More clusters hang than there are workers: each of their passes ends within its deadline, and takes its
// turn less often the longer it lasts.
func TestHungClustersDelayNobody(t *testing.T) {
	namespace, kubelet := newNamespace(t)
	var clusters []*redisv1.RedisCluster
	for i := range workers + 2 {
		cluster := newCluster(namespace, 1, 0)
		cluster.Name = fmt.Sprintf("hung-%d", i)
		create(t, cluster)
		clusters = append(clusters, cluster)
	}
	for _, cluster := range clusters {
		await(t, cluster, "Ready", isReady)
		if err := kubelet.pause(podOf(t, cluster, cluster.Status.NodeStates[0].Name)); err != nil {
			t.Fatal(err)
		}
		// A Ready cluster is looked at twice a minute only, unless it changes.
		change(t, cluster, func(c *redisv1.RedisCluster) { c.Spec.Config = map[string]redisv1.ConfigValue{"maxmemory": "32mb"} })
	}
	for _, cluster := range clusters {
		await(t, cluster, "Degraded", func(c *redisv1.RedisCluster) bool { return c.Status.Phase == redisv1.PhaseDegraded })
	}
	other, _ := newNamespace(t)
	started := time.Now()
	formed(t, other, 3, 1)
	t.Logf("a cluster formed in %s beside %d that hang", time.Since(started), workers+2)
}

func TestChangedPasswordIsReported(t *testing.T) {
	namespace, _ := newNamespace(t)
	const password = "it's \"one\" $HOME\t#"
	secret := newSecret(namespace, map[string]string{"password": password})
	create(t, secret)
	cluster := formed(t, namespace, 1, 1, func(c *redisv1.RedisCluster) { c.Spec.PasswordSecret = "auth" })
	if err := node(t, cluster.Status.NodeStates[0], "").Ping(t.Context()).Err(); err == nil {
		t.Error("a node answers without password")
	}
	if err := node(t, cluster.Status.NodeStates[0], password).Ping(t.Context()).Err(); err != nil {
		t.Errorf("with the password: %v", err)
	}
	change(t, secret, func(s *corev1.Secret) { s.Data["password"] = []byte("another") })
	await(t, cluster, "the condition that says so", hasCondition(redisv1.ConditionConfigValid, redisv1.ReasonPasswordChanged, "put back"))
	if c := meta.FindStatusCondition(cluster.Status.Conditions, redisv1.ConditionSlotsCovered); c.Status != metav1.ConditionUnknown {
		t.Errorf("SlotsCovered is %s although no node could be asked", c.Status)
	}
	change(t, secret, func(s *corev1.Secret) { s.Data["password"] = []byte(password) })
	await(t, cluster, "Ready with the old password", isReady)
}

func TestKilledPrimaryLosesNoAcknowledgedKey(t *testing.T) {
	for _, size := range []int32{1, 3} {
		t.Run(fmt.Sprintf("size %d", size), func(t *testing.T) {
			namespace, kubelet := newNamespace(t)
			cluster := formed(t, namespace, size, 1)
			keys := keyspace(t, cluster)
			for i := range 100 {
				eventually(t, "writing", func(ctx context.Context) error { return keys.Set(ctx, fmt.Sprint("key", i), i, 0).Err() })
			}
			// The replica has them all; the primary has saved nothing.
			if err := keys.ForEachMaster(t.Context(), func(ctx context.Context, c *goredis.Client) error {
				return c.Wait(ctx, 1, 5*time.Second).Err()
			}); err != nil {
				t.Fatal(err)
			}
			old := primaryOf(cluster, 0)
			kubelet.killContainer(podOf(t, cluster, old.Name))
			await(t, cluster, "another primary, and whole again", func(c *redisv1.RedisCluster) bool {
				now := primaryOf(c, 0)
				return isReady(c) && now.Name != "" && now.Name != old.Name
			})
			keys = keyspace(t, cluster)
			for i := range 100 {
				eventually(t, "reading", func(ctx context.Context) error { return keys.Get(ctx, fmt.Sprint("key", i)).Err() })
			}
		})
	}
}

func TestLostPodIsReplaced(t *testing.T) {
	namespace, _ := newNamespace(t)
	cluster := formed(t, namespace, 3, 1)
	old := primaryOf(cluster, 1)
	if err := suite.client.Delete(t.Context(), podOf(t, cluster, old.Name)); err != nil {
		t.Fatal(err)
	}
	await(t, cluster, "whole again with another primary and a new node", func(c *redisv1.RedisCluster) bool {
		now := primaryOf(c, 1)
		return isReady(c) && now.Name != "" && now.ID != old.ID &&
			!slices.ContainsFunc(c.Status.NodeStates, func(n redisv1.NodeState) bool { return n.ID == old.ID })
	})
	leftAlone(t, cluster)
}

func TestForeignObjectIsNotTakenOver(t *testing.T) {
	namespace, _ := newNamespace(t)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cache"},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	create(t, service)
	cluster := newCluster(namespace, 1, 0)
	create(t, cluster)
	await(t, cluster, "the condition that names it", hasCondition(redisv1.ConditionConfigValid, redisv1.ReasonNameTaken, "Service cache"))
	if err := suite.client.Delete(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	await(t, cluster, "Ready once the name is free", isReady)
}
