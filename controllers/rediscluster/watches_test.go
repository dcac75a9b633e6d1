package rediscluster

import (
	"slices"
	"testing"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/controllers/rediscluster/resources"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// A Secret wakes the clusters that name it and those that still run with it.
func TestSecretWakesItsClusters(t *testing.T) {
	cluster := func(name, inForce, wanted string) []client.Object {
		c := &redisv1.RedisCluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
			Spec:       redisv1.RedisClusterSpec{Size: 1, Image: "redis:7.0", PasswordSecret: inForce},
		}
		set := resources.StatefulSet(resources.Input{Cluster: c.DeepCopy()}, 0)
		c.Spec.PasswordSecret = wanted
		return []client.Object{c, set}
	}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := redisv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	objects := slices.Concat(cluster("names", "auth", "auth"), cluster("without", "", ""),
		cluster("changes-to", "other", "auth"), cluster("changes-from", "auth", "other"), cluster("drops", "auth", ""))
	r := &Reconciler{client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()}
	var got []string
	for _, request := range r.clustersOfSecret(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "auth"}}) {
		got = append(got, request.Name)
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"changes-from", "changes-to", "drops", "names"}, got); diff != "" {
		t.Error(diff)
	}
}
