package e2e

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/test/stage"
)

// Each bad input is named in a condition, does not keep another cluster from working, and heals when
// it is corrected.
func TestBadInput(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		spoil func(*redisv1.RedisCluster)
		// secret is the data of the Secret "login", nil for no Secret.
		secret map[string][]byte
		// wantNamed must all stand in the message of a condition that is not True.
		wantNamed []string
		heal      func(ctx context.Context, t *testing.T, key client.ObjectKey)
	}{
		"image": {
			spoil:     func(c *redisv1.RedisCluster) { c.Spec.Image = "redis:never-built" },
			wantNamed: []string{"redis:never-built"},
			heal:      changeSpec(func(s *redisv1.RedisClusterSpec) { s.Image = env.RedisImage }),
		},
		"secret-missing": {
			spoil:     func(c *redisv1.RedisCluster) { c.Spec.PasswordSecret = "login" },
			wantNamed: []string{"login"},
			heal:      putSecret("good"),
		},
		"secret-key": {
			spoil:     func(c *redisv1.RedisCluster) { c.Spec.PasswordSecret = "login" },
			secret:    map[string][]byte{"passwort": []byte("good")},
			wantNamed: []string{"login", "password"},
			heal:      putSecret("good"),
		},
		"secret-newline": {
			spoil:     func(c *redisv1.RedisCluster) { c.Spec.PasswordSecret = "login" },
			secret:    map[string][]byte{"password": []byte("one\ntwo")},
			wantNamed: []string{"login", "newline"},
			heal:      putSecret("good"),
		},
		"directive": {
			spoil: func(c *redisv1.RedisCluster) {
				c.Spec.Config = map[string]redisv1.ConfigValue{"maxmemory-policy": "sometimes"}
			},
			wantNamed: []string{"maxmemory-policy"},
			heal: changeSpec(func(s *redisv1.RedisClusterSpec) {
				s.Config = map[string]redisv1.ConfigValue{"maxmemory-policy": "allkeys-lru"}
			}),
		},
		"unschedulable": {
			spoil: func(c *redisv1.RedisCluster) {
				c.Spec.Resources = &redisv1.ResourceRequirements{Requests: map[string]resource.Quantity{"cpu": resource.MustParse("1000")}}
			},
			wantNamed: []string{"cache-0-0", "cpu"},
			heal:      changeSpec(func(s *redisv1.RedisClusterSpec) { s.Resources = nil }),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := story(t)
			w := stage.Wish{Namespace: "bad-" + name, Name: "cache", Size: 1}
			if err := env.CreateNamespace(ctx, w.Namespace); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { remove(t, w) })
			if tc.secret != nil {
				writeSecret(ctx, t, w.Namespace, tc.secret)
			}
			cluster := w.Build(env.RedisImage)
			tc.spoil(cluster)
			if err := env.Client.Create(ctx, cluster); err != nil {
				t.Fatal(err)
			}
			waitCondition(ctx, t, w.Key(), tc.wantNamed)
			create(ctx, t, stage.Wish{Namespace: w.Namespace, Name: "other", Size: 1})
			tc.heal(ctx, t, w.Key())
			waitReady(ctx, t, w.Key())
		})
	}
}

// waitCondition waits for a condition that is not True and names all of the parts.
func waitCondition(ctx context.Context, t *testing.T, key client.ObjectKey, parts []string) {
	t.Helper()
	err := env.Wait(ctx, "a condition that names "+strings.Join(parts, " and "), func() (string, error) {
		cluster, err := env.Cluster(ctx, key)
		if err != nil {
			return "", err
		}
		seen := "no condition"
		for _, condition := range cluster.Status.Conditions {
			if condition.Status == metav1.ConditionTrue {
				continue
			}
			seen += "; " + condition.Type + ": " + condition.Message
			if containsAll(condition.Message, parts) {
				return "", nil
			}
		}
		return seen, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

func changeSpec(change func(*redisv1.RedisClusterSpec)) func(context.Context, *testing.T, client.ObjectKey) {
	return func(ctx context.Context, t *testing.T, key client.ObjectKey) {
		t.Helper()
		cluster, err := env.Cluster(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		before := cluster.DeepCopy()
		change(&cluster.Spec)
		if err := env.Client.Patch(ctx, cluster, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
}

func putSecret(password string) func(context.Context, *testing.T, client.ObjectKey) {
	return func(ctx context.Context, t *testing.T, key client.ObjectKey) {
		t.Helper()
		writeSecret(ctx, t, key.Namespace, map[string][]byte{"password": []byte(password)})
	}
}

func writeSecret(ctx context.Context, t *testing.T, namespace string, data map[string][]byte) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "login"}, Data: data}
	err := env.Client.Create(ctx, secret)
	if err != nil {
		err = env.Client.Update(ctx, secret)
	}
	if err != nil {
		t.Fatal(err)
	}
}
