package scopedcache_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/redis-operator/sharding/scopedcache"
)

func TestReadsFollowScopes(t *testing.T) {
	first, second, foreign := newNamespace(t), newNamespace(t), newNamespace(t)
	for _, namespace := range []string{first, second, foreign} {
		mustCreate(t, configMap(namespace, "red"))
		mustCreate(t, configMap(namespace, "blue"))
	}
	cache := startCache(t, config, scopedcache.Options{Kinds: []client.Object{&corev1.ConfigMap{}}})
	byColor := func(obj client.Object) []string { return []string{obj.(*corev1.ConfigMap).Data["color"]} }
	mustAddScope(t, cache, second)
	if err := cache.IndexField(t.Context(), &corev1.ConfigMap{}, "data.color", byColor); err != nil {
		t.Fatalf("IndexField: %v", err)
	}
	mustAddScope(t, cache, first)

	wantLists(t, cache, first, second)
	t.Run("limit", func(t *testing.T) {
		var list corev1.ConfigMapList
		if err := cache.List(t.Context(), &list, client.Limit(3)); err != nil {
			t.Fatalf("List: %v", err)
		}
		if len(list.Items) != 3 {
			t.Errorf("got %d items, want 3", len(list.Items))
		}
	})
	t.Run("managed fields are stripped", func(t *testing.T) {
		var got corev1.ConfigMap
		if err := cache.Get(t.Context(), client.ObjectKey{Namespace: first, Name: "red"}, &got); err != nil {
			t.Fatalf("Get: %v", err)
		}
		if got.ManagedFields != nil {
			t.Errorf("managedFields are %v, want none", got.ManagedFields)
		}
	})
	t.Run("an object that is not there", func(t *testing.T) {
		err := cache.Get(t.Context(), client.ObjectKey{Namespace: first, Name: "green"}, &corev1.ConfigMap{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("Get: %v, want NotFound", err)
		}
	})
	t.Run("a namespace that is not owned", func(t *testing.T) { wantNotOwned(t, cache, foreign, "red") })
	t.Run("a namespace that was dropped", func(t *testing.T) {
		cache.RemoveScope(first)
		wantNotOwned(t, cache, first, "red")
		if diff := cmp.Diff([]string{second}, cache.Scopes()); diff != "" {
			t.Errorf("Scopes (-want +got):\n%s", diff)
		}
		mustAddScope(t, cache, first)
		if err := cache.Get(t.Context(), client.ObjectKey{Namespace: first, Name: "red"}, &corev1.ConfigMap{}); err != nil {
			t.Errorf("Get after AddScope: %v", err)
		}
	})
}

// wantLists checks what lists of two namespaces with a red and a blue object hold.
func wantLists(t *testing.T, cache *scopedcache.Cache, first, second string) {
	t.Helper()
	cases := map[string]struct {
		options []client.ListOption
		want    []string
	}{
		"one namespace": {
			options: []client.ListOption{client.InNamespace(first)},
			want:    []string{first + "/blue", first + "/red"},
		},
		"all namespaces": {
			want: []string{first + "/blue", first + "/red", second + "/blue", second + "/red"},
		},
		"all namespaces by label": {
			options: []client.ListOption{client.MatchingLabels{"name": "red"}},
			want:    []string{first + "/red", second + "/red"},
		},
		"all namespaces by field": {
			options: []client.ListOption{client.MatchingFields{"data.color": "blue"}},
			want:    []string{first + "/blue", second + "/blue"},
		},
		"one namespace by field": {
			options: []client.ListOption{client.MatchingFields{"data.color": "blue"}, client.InNamespace(second)},
			want:    []string{second + "/blue"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var list corev1.ConfigMapList
			if err := cache.List(t.Context(), &list, tc.options...); err != nil {
				t.Fatalf("List: %v", err)
			}
			var got []string
			for _, item := range list.Items {
				got = append(got, item.Namespace+"/"+item.Name)
			}
			slices.Sort(got)
			slices.Sort(tc.want)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("List (-want +got):\n%s", diff)
			}
		})
	}
}

// wantNotOwned checks that reads of a namespace are NotOwnedErrors and nothing else.
func wantNotOwned(t *testing.T, cache *scopedcache.Cache, namespace, name string) {
	t.Helper()
	for what, err := range map[string]error{
		"Get":  cache.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &corev1.ConfigMap{}),
		"List": cache.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace(namespace)),
	} {
		var notOwned *scopedcache.NotOwnedError
		if !errors.As(err, &notOwned) || notOwned.Namespace != namespace || !errors.Is(err, scopedcache.ErrNotOwned) {
			t.Errorf("%s: %v, want a NotOwnedError of %s", what, err, namespace)
		}
		if apierrors.IsNotFound(err) {
			t.Errorf("%s: %v looks like NotFound", what, err)
		}
	}
}

func TestUnwantedObjectsStayOut(t *testing.T) {
	namespace := newNamespace(t)
	secret := func(name string, kind corev1.SecretType, annotations map[string]string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: annotations}, Type: kind,
		}
	}
	mustCreate(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "robot"}})
	mustCreate(t, secret("password", corev1.SecretTypeOpaque, nil))
	mustCreate(t, secret("release", "helm.sh/release.v1", nil))
	mustCreate(t, secret("token", corev1.SecretTypeServiceAccountToken, map[string]string{corev1.ServiceAccountNameKey: "robot"}))
	mustCreate(t, configMap(namespace, "kube-root-ca.crt"))
	mustCreate(t, configMap(namespace, "wanted"))
	for name, phase := range map[string]corev1.PodPhase{"running": corev1.PodRunning, "done": corev1.PodSucceeded, "dead": corev1.PodFailed} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: corev1.PodSpec{
				ServiceAccountName: "robot", AutomountServiceAccountToken: new(bool),
				Containers: []corev1.Container{{Name: "main", Image: "none"}},
			},
		}
		mustCreate(t, pod)
		pod.Status.Phase = phase
		if err := direct.Status().Update(t.Context(), pod); err != nil {
			t.Fatalf("setting the phase of %s: %v", name, err)
		}
	}
	cache := startCache(t, config, scopedcache.Options{})
	mustAddScope(t, cache, namespace)

	cases := map[string]struct {
		list client.ObjectList
		want []string
	}{
		"secrets":    {list: &corev1.SecretList{}, want: []string{"password"}},
		"configmaps": {list: &corev1.ConfigMapList{}, want: []string{"wanted"}},
		"pods":       {list: &corev1.PodList{}, want: []string{"running"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := cache.List(t.Context(), tc.list, client.InNamespace(namespace)); err != nil {
				t.Fatalf("List: %v", err)
			}
			if diff := cmp.Diff(tc.want, namesOf(t, tc.list)); diff != "" {
				t.Errorf("List (-want +got):\n%s", diff)
			}
		})
	}
}

// namesOf returns the names of what a list holds, sorted.
func namesOf(t *testing.T, list client.ObjectList) []string {
	t.Helper()
	var names []string
	switch typed := list.(type) {
	case *corev1.SecretList:
		for _, item := range typed.Items {
			names = append(names, item.Name)
		}
	case *corev1.ConfigMapList:
		for _, item := range typed.Items {
			names = append(names, item.Name)
		}
	case *corev1.PodList:
		for _, item := range typed.Items {
			names = append(names, item.Name)
		}
	case *metav1.PartialObjectMetadataList:
		for _, item := range typed.Items {
			names = append(names, item.Name)
		}
	default:
		t.Fatalf("no names of a %T", list)
	}
	slices.Sort(names)
	return names
}

func TestKindsWithoutNamespaceAndMetadata(t *testing.T) {
	namespace := newNamespace(t)
	mustCreate(t, configMap(namespace, "red"))
	cache := startCache(t, config, scopedcache.Options{})
	mustAddScope(t, cache, namespace)
	if err := cache.Get(t.Context(), client.ObjectKey{Name: namespace}, &corev1.Namespace{}); err != nil {
		t.Errorf("Get of a Namespace: %v", err)
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	if err := cache.List(t.Context(), list); err != nil {
		t.Fatalf("List of metadata: %v", err)
	}
	if diff := cmp.Diff([]string{"red"}, namesOf(t, list)); diff != "" {
		t.Errorf("List of metadata (-want +got):\n%s", diff)
	}
}

func TestSharedNamespace(t *testing.T) {
	home, tenant := newNamespace(t), newNamespace(t)
	mustCreate(t, configMap(home, "red"))
	mustCreate(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "password"}})
	cache := startCache(t, config, scopedcache.Options{
		Kinds:  []client.Object{&corev1.ConfigMap{}, &corev1.Secret{}},
		Shared: []scopedcache.SharedNamespace{{Name: home, Kinds: []client.Object{&corev1.ConfigMap{}}}},
	})
	mustAddScope(t, cache, tenant)
	if err := cache.Get(t.Context(), client.ObjectKey{Namespace: home, Name: "red"}, &corev1.ConfigMap{}); err != nil {
		t.Errorf("Get of a shared kind: %v", err)
	}
	ofHome := client.ObjectKey{Namespace: home, Name: "password"}
	if err := cache.Get(t.Context(), ofHome, &corev1.Secret{}); !errors.Is(err, scopedcache.ErrNotOwned) {
		t.Errorf("Get of a kind that is not shared: %v, want ErrNotOwned", err)
	}
	mustAddScope(t, cache, home)
	if err := cache.Get(t.Context(), ofHome, &corev1.Secret{}); err != nil {
		t.Errorf("Get of a kind that is not shared, once owned: %v", err)
	}
	var list corev1.ConfigMapList
	if err := cache.List(t.Context(), &list); err != nil {
		t.Fatalf("List: %v", err)
	}
	if len(list.Items) != 1 {
		t.Errorf("got %d ConfigMaps, want 1: the shared one, once", len(list.Items))
	}
	cache.RemoveScope(home)
	if err := cache.Get(t.Context(), client.ObjectKey{Namespace: home, Name: "red"}, &corev1.ConfigMap{}); err != nil {
		t.Errorf("Get of a shared kind after RemoveScope: %v", err)
	}
}

func TestStuckScopeHoldsUpNoOther(t *testing.T) {
	stuck := newNamespace(t)
	mustCreate(t, configMap(stuck, "red"))
	link, linked := newLink(config)
	release := link.hold(stuck)
	defer release()
	cache := startCache(t, linked, scopedcache.Options{
		Kinds: []client.Object{&corev1.ConfigMap{}, &corev1.Secret{}}, Concurrency: 1, StartTimeout: 100 * time.Millisecond,
	})
	waiting, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := cache.AddScope(waiting, stuck)
	var notSynced *scopedcache.NotSyncedError
	if !errors.As(err, &notSynced) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("AddScope: %v, want a NotSyncedError for the deadline", err)
	}
	if diff := cmp.Diff([]string{"ConfigMap", "Secret"}, notSynced.Kinds); diff != "" {
		t.Errorf("Kinds (-want +got):\n%s", diff)
	}
	if err := cache.Get(t.Context(), client.ObjectKey{Namespace: stuck, Name: "red"}, &corev1.ConfigMap{}); !errors.Is(err, scopedcache.ErrNotSynced) {
		t.Errorf("Get: %v, want ErrNotSynced", err)
	}
	for range 3 {
		mustAddScope(t, cache, newNamespace(t))
	}
	var list corev1.ConfigMapList
	if err := cache.List(t.Context(), &list); err != nil {
		t.Errorf("List over all namespaces: %v", err)
	}
	release()
	mustAddScope(t, cache, stuck)
	if err := cache.Get(t.Context(), client.ObjectKey{Namespace: stuck, Name: "red"}, &corev1.ConfigMap{}); err != nil {
		t.Errorf("Get once synced: %v", err)
	}
}
