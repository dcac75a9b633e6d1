package rediscluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	redisv1 "example.com/redis-operator/api/v1"
)

func newSecret(namespace string, data map[string]string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "auth"}, StringData: data}
}

// hasCondition reports whether a condition is false for the reason, with all of the words in its message.
func hasCondition(kind, reason string, words ...string) func(*redisv1.RedisCluster) bool {
	return func(cluster *redisv1.RedisCluster) bool {
		c := meta.FindStatusCondition(cluster.Status.Conditions, kind)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != reason {
			return false
		}
		for _, word := range words {
			if !strings.Contains(c.Message, word) {
				return false
			}
		}
		return true
	}
}

// badInput is one mistake, the condition that names it, and its correction.
type badInput struct {
	before  func(t *testing.T, namespace string)
	edit    func(*redisv1.RedisCluster)
	kind    string
	reason  string
	words   []string
	phase   redisv1.Phase
	correct func(t *testing.T, cluster *redisv1.RedisCluster)
}

func TestBadInputIsNamedAndHeals(t *testing.T) {
	withSecret := func(c *redisv1.RedisCluster) { c.Spec.PasswordSecret = "auth" }
	setSecret := func(t *testing.T, cluster *redisv1.RedisCluster) {
		change(t, newSecret(cluster.Namespace, nil), func(s *corev1.Secret) { s.Data = map[string][]byte{"password": []byte("good")} })
	}
	secretWith := func(data map[string]string) func(t *testing.T, namespace string) {
		return func(t *testing.T, namespace string) { create(t, newSecret(namespace, data)) }
	}
	setImage := func(t *testing.T, cluster *redisv1.RedisCluster) {
		change(t, cluster, func(c *redisv1.RedisCluster) { c.Spec.Image = "redis:7.0" })
	}
	cases := map[string]badInput{
		"image that cannot be pulled": {
			edit: func(c *redisv1.RedisCluster) { c.Spec.Image = imageMissing },
			kind: redisv1.ConditionConfigValid, reason: redisv1.ReasonImageNotPulled,
			words: []string{imageMissing, "cache-0-0", "node-0"}, phase: redisv1.PhaseFailed, correct: setImage,
		},
		"Pod that cannot be scheduled": {
			edit: func(c *redisv1.RedisCluster) { c.Spec.Image = imageUnschedulable },
			kind: redisv1.ConditionReady, reason: redisv1.ReasonNotScheduled,
			words: []string{"cache-0-0", "Insufficient memory"}, phase: redisv1.PhaseCreating, correct: setImage,
		},
		"Secret missing": {
			edit: withSecret, kind: redisv1.ConditionConfigValid, reason: redisv1.ReasonSecretMissing,
			words: []string{"Secret auth does not exist"}, phase: redisv1.PhasePending,
			correct: func(t *testing.T, cluster *redisv1.RedisCluster) {
				create(t, newSecret(cluster.Namespace, map[string]string{"password": "good"}))
			},
		},
		"Secret without the key": {
			before: secretWith(map[string]string{"pass": "x"}), edit: withSecret,
			kind: redisv1.ConditionConfigValid, reason: redisv1.ReasonSecretMissing,
			words: []string{"Secret auth has no key password"}, phase: redisv1.PhasePending, correct: setSecret,
		},
		"password with a newline": {
			before: secretWith(map[string]string{"password": "x\n"}), edit: withSecret,
			kind: redisv1.ConditionConfigValid, reason: redisv1.ReasonPasswordInvalid,
			words: []string{"auth", "newline"}, phase: redisv1.PhasePending, correct: setSecret,
		},
		"password with a NUL": {
			before: secretWith(map[string]string{"password": "x\x00y"}), edit: withSecret,
			kind: redisv1.ConditionConfigValid, reason: redisv1.ReasonPasswordInvalid,
			words: []string{"auth", "NUL"}, phase: redisv1.PhasePending, correct: setSecret,
		},
		"directive that Redis rejects": {
			edit: func(c *redisv1.RedisCluster) { c.Spec.Config = map[string]redisv1.ConfigValue{"maxmemry": "100mb"} },
			kind: redisv1.ConditionConfigValid, reason: redisv1.ReasonDirectiveRejected,
			words: []string{"cache-0-0", "node-0", `maxmemry "100mb"`, "Bad directive"}, phase: redisv1.PhaseFailed,
			correct: func(t *testing.T, cluster *redisv1.RedisCluster) {
				change(t, cluster, func(c *redisv1.RedisCluster) { c.Spec.Config = map[string]redisv1.ConfigValue{"maxmemory": "100mb"} })
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			namespace, _ := newNamespace(t)
			if tc.before != nil {
				tc.before(t, namespace)
			}
			cluster := newCluster(namespace, 1, 1)
			tc.edit(cluster)
			create(t, cluster)
			await(t, cluster, "the condition that names it", hasCondition(tc.kind, tc.reason, tc.words...))
			if cluster.Status.Phase != tc.phase {
				t.Errorf("phase %s, want %s", cluster.Status.Phase, tc.phase)
			}
			tc.correct(t, cluster)
			await(t, cluster, "Ready after the correction", isReady)
			if !meta.IsStatusConditionTrue(cluster.Status.Conditions, redisv1.ConditionConfigValid) {
				t.Errorf("ConfigValid is not true: %+v", cluster.Status.Conditions)
			}
		})
	}
}

func TestPausedClusterIsNotTouched(t *testing.T) {
	namespace, _ := newNamespace(t)
	cluster := newCluster(namespace, 1, 0)
	cluster.Spec.Paused = true
	create(t, cluster)
	await(t, cluster, "saying that it is paused", hasCondition(redisv1.ConditionReady, redisv1.ReasonPaused, "paused"))
	var configs corev1.ConfigMapList
	if err := suite.client.List(t.Context(), &configs, inCluster(cluster)...); err != nil || len(configs.Items) != 0 {
		t.Errorf("%d ConfigMaps of a paused cluster, %v", len(configs.Items), err)
	}
	change(t, cluster, func(c *redisv1.RedisCluster) { c.Spec.Paused = false })
	await(t, cluster, "Ready once it goes on", isReady)
}
