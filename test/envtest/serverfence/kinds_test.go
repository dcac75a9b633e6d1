package serverfence_test

import (
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "example.com/redis-operator/api/v1"
)

var selector = map[string]string{"app": "x"}

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: selector},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "redis", Image: "none"}}},
	}
}

// fenced has one new object of each fenced kind, by its resource.
func fenced(namespace string, shard int) map[string]client.Object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "x", Labels: labels(shard)}
	return map[string]client.Object{
		"redisclusters": &redisv1.RedisCluster{ObjectMeta: meta, Spec: redisv1.RedisClusterSpec{Size: 1, Image: "none"}},
		"statefulsets": &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{
			ServiceName: "x", Selector: &metav1.LabelSelector{MatchLabels: selector}, Template: template(),
		}},
		"services":   &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}},
		"configmaps": &corev1.ConfigMap{ObjectMeta: meta},
		"poddisruptionbudgets": &policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: selector},
		}},
		"pods": &corev1.Pod{ObjectMeta: meta, Spec: template().Spec},
		"persistentvolumeclaims": &corev1.PersistentVolumeClaim{ObjectMeta: meta, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		}},
	}
}

// writes are the ways to write an existing object, none of which leaves a trace. They are called with
// copies of it.
func writes(c client.Client) map[string]func(*testing.T, client.Object) error {
	remove := func(policy metav1.DeletionPropagation) func(*testing.T, client.Object) error {
		return func(t *testing.T, o client.Object) error {
			return c.Delete(t.Context(), o, client.DryRunAll, client.PropagationPolicy(policy))
		}
	}
	return map[string]func(*testing.T, client.Object) error{
		"replace": func(t *testing.T, o client.Object) error {
			metav1.SetMetaDataAnnotation(meta(o), "written", "yes")
			return c.Update(t.Context(), o, client.DryRunAll)
		},
		"merge patch": func(t *testing.T, o client.Object) error {
			before := o.DeepCopyObject().(client.Object)
			metav1.SetMetaDataAnnotation(meta(o), "written", "yes")
			return c.Patch(t.Context(), o, client.MergeFrom(before), client.DryRunAll)
		},
		"status patch": func(t *testing.T, o client.Object) error {
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"written":"yes"}},"status":{}}`))
			return c.Status().Patch(t.Context(), o, patch, client.DryRunAll)
		},
		"background deletion": remove(metav1.DeletePropagationBackground),
		"foreground deletion": remove(metav1.DeletePropagationForeground),
		"orphan deletion":     remove(metav1.DeletePropagationOrphan),
		"deletion of all": func(t *testing.T, o client.Object) error {
			return c.DeleteAllOf(t.Context(), o, client.InNamespace(o.GetNamespace()), client.DryRunAll)
		},
	}
}

func meta(o client.Object) *metav1.ObjectMeta {
	return o.(interface{ GetObjectMeta() metav1.Object }).GetObjectMeta().(*metav1.ObjectMeta)
}

// hasNoStatus are the kinds without the subresource.
var hasNoStatus = map[string]bool{"configmaps": true}

// Every kind that the deployment fences is tried, in every way: refused to who does not hold the shard,
// accepted from who does, and nobody else is affected.
func TestEveryFencedKind(t *testing.T) {
	i := install(t)
	namespace := newNamespace(t, "user-")
	holder, other := i.pod(t, "operator-0"), i.pod(t, "operator-1")
	i.give(t, 1, holder)
	i.give(t, 2, other)

	objects := fenced(namespace, 1)
	var names []string
	for _, kind := range deployedKinds(t) {
		names = append(names, kind.Name)
	}
	slices.Sort(names)
	if known := slices.Sorted(maps.Keys(objects)); !slices.Equal(names, known) {
		t.Fatalf("the deployment fences %q, the test knows %q", names, known)
	}
	for name, object := range objects {
		create(t, object)
		for write := range writes(nil) {
			if write == "status patch" && hasNoStatus[name] {
				continue
			}
			t.Run(name+"/"+write, func(t *testing.T) {
				try := func(c client.Client) string {
					return refusedBy(t, writes(c)[write](t, object.DeepCopyObject().(client.Object)))
				}
				if got := try(other.client); got != i.byShard(1) {
					t.Errorf("who does not hold the shard is refused by %q, want %q", got, i.byShard(1))
				}
				if got := try(holder.client); got != "" {
					t.Errorf("the holder is refused by %q", got)
				}
				if got := try(suite.admin); got != "" {
					t.Errorf("the administrator is refused by %q", got)
				}
			})
		}
	}
}

// What the operator creates is judged by its label; Pods and claims it never creates.
func TestCreation(t *testing.T) {
	i := install(t)
	namespace := newNamespace(t, "user-")
	holder, other := i.pod(t, "operator-0"), i.pod(t, "operator-1")
	i.give(t, 1, holder)
	for name := range fenced("", 0) {
		if name == "pods" || name == "persistentvolumeclaims" {
			continue
		}
		cases := map[string]struct {
			by    *actor
			shard int
			want  string
		}{
			"the holder":        {holder, 1, ""},
			"another":           {other, 1, i.byShard(1)},
			"nobody's shard":    {holder, 3, i.byShard(3)},
			"without a label":   {holder, -1, i.byLabel()},
			"no shard of these": {holder, shards, i.byLabel()},
		}
		for title, tc := range cases {
			t.Run(name+"/"+title, func(t *testing.T) {
				err := tc.by.client.Create(t.Context(), fenced(namespace, tc.shard)[name], client.DryRunAll)
				if got := refusedBy(t, err); got != tc.want {
					t.Errorf("refused by %q, want %q", got, tc.want)
				}
			})
		}
	}
}

// Subresources whose objects bear no label are refused to the operator altogether: it never uses them.
func TestUnlabelledSubresources(t *testing.T) {
	i := install(t)
	namespace := newNamespace(t, "user-")
	holder := i.pod(t, "operator-0")
	i.give(t, 1, holder)
	objects := fenced(namespace, 1)
	set, pod := objects["statefulsets"], objects["pods"]
	create(t, set)
	create(t, pod)
	cases := map[string]func(client.Client) error{
		"scale": func(c client.Client) error {
			scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x"},
				Spec: autoscalingv1.ScaleSpec{Replicas: 2}}
			return c.SubResource("scale").Update(t.Context(), set, client.WithSubResourceBody(scale),
				&client.SubResourceUpdateOptions{UpdateOptions: client.UpdateOptions{DryRun: []string{metav1.DryRunAll}}})
		},
		"eviction": func(c client.Client) error {
			eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x"},
				DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}}
			return c.SubResource("eviction").Create(t.Context(), pod, eviction)
		},
	}
	for name, write := range cases {
		t.Run(name, func(t *testing.T) {
			if got := refusedBy(t, write(holder.client)); got != i.byLabel() {
				t.Errorf("refused by %q, want %q", got, i.byLabel())
			}
			if got := refusedBy(t, write(suite.admin)); got != "" {
				t.Errorf("the administrator is refused by %q", got)
			}
		})
	}
}

// What every replica may write, whatever it holds.
func TestEveryExemptKind(t *testing.T) {
	i := install(t)
	nobody, holder := i.pod(t, "operator-1"), i.pod(t, "operator-0")
	i.give(t, 1, holder)
	placement := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: i.name, Name: i.name + "-placement"}}
	in := metav1.ObjectMeta{Namespace: i.name, Name: "x"}
	labelled := metav1.ObjectMeta{Namespace: i.name, Name: i.name + "-placement", Labels: labels(1)}
	cases := map[string]client.Object{
		"Lease": &coordinationv1.Lease{ObjectMeta: in},
		"Event": &corev1.Event{ObjectMeta: in, InvolvedObject: corev1.ObjectReference{Namespace: i.name}},
		"Event of events.k8s.io": &eventsv1.Event{ObjectMeta: in, EventTime: metav1.NowMicro(), Action: "Try",
			Reason: "Try", ReportingController: "example.com/test", ReportingInstance: "x", Type: "Normal",
			Regarding: corev1.ObjectReference{Namespace: i.name}},
		"placement":                   placement,
		"placement, labelled by hand": &corev1.ConfigMap{ObjectMeta: labelled},
		"TokenReview":                 &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "x"}},
		"SubjectAccessReview": &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "x", NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/", Verb: "get"}}},
	}
	for name, object := range cases {
		t.Run(name, func(t *testing.T) {
			if err := nobody.client.Create(t.Context(), object, client.DryRunAll); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("placement, replaced", func(t *testing.T) {
		placement := &corev1.ConfigMap{ObjectMeta: *placement.ObjectMeta.DeepCopy()}
		create(t, placement)
		placement.Data = map[string]string{"a": "b"}
		if err := nobody.client.Update(t.Context(), placement); err != nil {
			t.Error(err)
		}
	})
	t.Run("of that name elsewhere is fenced", func(t *testing.T) {
		elsewhere := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: i.name + "-placement"}}
		if got := refusedBy(t, nobody.client.Create(t.Context(), elsewhere, client.DryRunAll)); got != i.byLabel() {
			t.Errorf("refused by %q, want %q", got, i.byLabel())
		}
	})
}
