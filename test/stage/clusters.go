package stage

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "example.com/redis-operator/api/v1"
)

// Wish is a RedisCluster that a story wants, in few words.
type Wish struct {
	Namespace, Name string
	Size, Replicas  int32
	Password        string // "" for none
	Storage         bool
	Config          map[string]redisv1.ConfigValue
}

// Key names the wished RedisCluster.
func (w Wish) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: w.Namespace, Name: w.Name}
}

// Nodes is the number of Redis nodes that the wish needs.
func (w Wish) Nodes() int { return int(w.Size * (1 + w.Replicas)) }

func (w Wish) String() string {
	text := fmt.Sprintf("%s/%s: %d primaries, %d replicas each", w.Namespace, w.Name, w.Size, w.Replicas)
	if w.Password != "" {
		text += ", password"
	}
	if w.Storage {
		text += ", storage"
	}
	return text
}

func (w Wish) secretName() string { return w.Name + "-password" }

// Build returns the RedisCluster itself.
func (w Wish) Build(image string) *redisv1.RedisCluster {
	cluster := &redisv1.RedisCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name},
		Spec: redisv1.RedisClusterSpec{
			Size: w.Size, ReplicasPerPrimary: ptr.To(w.Replicas), Image: image, Config: w.Config,
		},
	}
	if w.Password != "" {
		cluster.Spec.PasswordSecret = w.secretName()
	}
	if w.Storage {
		cluster.Spec.Storage = &redisv1.Storage{Size: resource.MustParse("64Mi")}
	}
	return cluster
}

// CreateNamespace creates a namespace that may be there already.
func (s *Stage) CreateNamespace(ctx context.Context, name string) error {
	err := s.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating namespace %s: %w", name, err)
	}
	return nil
}

// Create creates the RedisCluster, and before it its namespace and its Secret.
func (s *Stage) Create(ctx context.Context, w Wish) error {
	if err := s.CreateNamespace(ctx, w.Namespace); err != nil {
		return err
	}
	if w.Password != "" {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.secretName()},
			Data:       map[string][]byte{"password": []byte(w.Password)},
		}
		if err := s.Client.Create(ctx, secret); err != nil {
			return fmt.Errorf("creating the Secret of %s: %w", w.Key(), err)
		}
	}
	if err := s.Client.Create(ctx, w.Build(s.RedisImage)); err != nil {
		return fmt.Errorf("creating RedisCluster %s: %w", w.Key(), err)
	}
	return nil
}

// Cluster reads a RedisCluster.
func (s *Stage) Cluster(ctx context.Context, key types.NamespacedName) (*redisv1.RedisCluster, error) {
	var cluster redisv1.RedisCluster
	if err := s.Client.Get(ctx, key, &cluster); err != nil {
		return nil, fmt.Errorf("reading RedisCluster %s: %w", key, err)
	}
	return &cluster, nil
}

// IsReady reports whether the operator has said of the present generation that it is Ready.
func IsReady(cluster *redisv1.RedisCluster) bool {
	return cluster.Status.Phase == redisv1.PhaseReady && cluster.Status.ObservedGeneration == cluster.Generation
}

// WaitReady waits until all the RedisClusters are Ready; progress, if given, is told how many are.
func (s *Stage) WaitReady(ctx context.Context, keys []types.NamespacedName, progress func(ready int)) error {
	last := -1
	return s.Wait(ctx, fmt.Sprintf("%d Ready RedisClusters", len(keys)), func() (string, error) {
		var list redisv1.RedisClusterList
		if err := s.Client.List(ctx, &list); err != nil {
			return "", err
		}
		var missing []string
		for _, key := range keys {
			if state := stateOf(list.Items, key); state != "" {
				missing = append(missing, state)
			}
		}
		if ready := len(keys) - len(missing); progress != nil && ready != last {
			last = ready
			progress(ready)
		}
		return strings.Join(missing, "; "), nil
	})
}

func stateOf(items []redisv1.RedisCluster, key types.NamespacedName) string {
	i := slices.IndexFunc(items, func(c redisv1.RedisCluster) bool {
		return c.Namespace == key.Namespace && c.Name == key.Name
	})
	if i < 0 {
		return key.String() + " is not there"
	}
	if IsReady(&items[i]) {
		return ""
	}
	return fmt.Sprintf("%s is %q%s", key, items[i].Status.Phase, conditionText(&items[i]))
}

func conditionText(cluster *redisv1.RedisCluster) string {
	var text strings.Builder
	for _, condition := range cluster.Status.Conditions {
		if condition.Status != metav1.ConditionTrue {
			fmt.Fprintf(&text, ", %s: %s: %s", condition.Type, condition.Reason, condition.Message)
		}
	}
	return text.String()
}

// RedisPods lists the Pods of a RedisCluster.
func (s *Stage) RedisPods(ctx context.Context, key types.NamespacedName) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := s.Client.List(ctx, &pods, client.InNamespace(key.Namespace),
		client.MatchingLabels{redisv1.LabelCluster: key.Name})
	if err != nil {
		return nil, fmt.Errorf("listing the Pods of %s: %w", key, err)
	}
	return pods.Items, nil
}

// WaitReplaced waits until another Pod of the same name is ready.
func (s *Stage) WaitReplaced(ctx context.Context, old *corev1.Pod) error {
	key := client.ObjectKeyFromObject(old)
	return s.Wait(ctx, "another Pod "+key.String(), func() (string, error) {
		var pod corev1.Pod
		if err := s.Client.Get(ctx, key, &pod); err != nil {
			return "there is none", client.IgnoreNotFound(err)
		}
		ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		if pod.UID == old.UID || !ready {
			return "it is not ready", nil
		}
		return "", nil
	})
}
