package serverfence_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// garbageCollector acts under its service account, with the administrator's rights.
func garbageCollector(t *testing.T) client.Client {
	t.Helper()
	config := rest.CopyConfig(suite.config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:kube-system:generic-garbage-collector",
		Groups:   []string{"system:masters", "system:serviceaccounts"},
	}
	c, err := client.New(config, client.Options{Scheme: suite.scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A foreground or orphan deletion only marks the object; the garbage collector ends it later, when nobody
// may hold the shard any more.
func TestDeletionInTwoSteps(t *testing.T) {
	s := newStage(t)
	collector := garbageCollector(t)
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan} {
		t.Run(string(policy), func(t *testing.T) {
			set := fenced(s.namespace, 1)["statefulsets"].(*appsv1.StatefulSet)
			create(t, set)
			expect(t, "the other", s.other.client.Delete(t.Context(), set, client.PropagationPolicy(policy)), s.byShard(1))
			expect(t, "the owner", s.owner.client.Delete(t.Context(), set, client.PropagationPolicy(policy)), "")
			get(t, set, set.Namespace, set.Name)
			if set.DeletionTimestamp == nil || len(set.Finalizers) == 0 {
				t.Fatalf("deleted at once, want it to wait for the garbage collector: %v", set.ObjectMeta)
			}
			unfinished := set.DeepCopy()
			unfinished.Finalizers = nil
			expect(t, "the other, ending it", s.other.client.Update(t.Context(), unfinished.DeepCopy()), s.byShard(1))
			s.hold(t, 1, "")
			expect(t, "the garbage collector", collector.Update(t.Context(), unfinished), "")
			eventually(t, "the object is gone", 5*time.Second, func() bool {
				return suite.admin.Get(t.Context(), client.ObjectKeyFromObject(set), &appsv1.StatefulSet{}) != nil
			}, func() any { return nil })
			s.give(t, 1, s.owner)
		})
	}
}
