package sharding

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A namespace is cached when it gets its first root object and dropped after its last; one that is
// stuck terminating is served on, and holds up nobody.
func TestNamespacesComeAndGo(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, 4)
	r := i.start(0)
	i.eventually("one replica serves everything", i.isServed)

	namespace := i.name + "-late"
	i.createNamespace(namespace)
	if r.canRead(namespace) {
		t.Error("a namespace without root objects is cached")
	}
	i.createRoot(namespace, "root")
	reconciled := func() string { return i.isReconciled([]string{namespace}) }
	i.eventually("a namespace that appears is reconciled", reconciled)
	if !r.canRead(namespace) {
		t.Error("the namespace is reconciled and not cached")
	}

	roots := i.api.CoreV1().ConfigMaps(namespace)
	if err := roots.Delete(t.Context(), "root", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	i.eventually("a namespace that has emptied is dropped", func() string {
		if _, ok := i.scopesOf(r)[namespace]; ok {
			return "it is cached"
		}
		return ""
	})
	i.createRoot(namespace, "again")
	i.eventually("a namespace that fills again is reconciled", func() string {
		if i.recorder.count(namespace+"/again", r.sharding.Identity()) == 0 {
			return "it is not reconciled"
		}
		return ""
	})

	// No controller finishes the deletion of a namespace here: it is stuck for ever.
	if err := i.api.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	before := i.recorder.count(namespace+"/again", r.sharding.Identity())
	i.touch(namespace, "again")
	i.eventually("a namespace that is stuck terminating is served on", func() string {
		if i.recorder.count(namespace+"/again", r.sharding.Identity()) == before {
			return "its objects are not reconciled"
		}
		return ""
	})
	other := i.name + "-other"
	i.createNamespace(other)
	i.createRoot(other, "root")
	i.eventually("others go on", func() string { return i.isReconciled([]string{other}) })
	if err := roots.Delete(t.Context(), "again", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	i.eventually("it is dropped with its last object", func() string {
		if _, ok := i.scopesOf(r)[namespace]; ok {
			return "it is cached"
		}
		return ""
	})
}

// scopesOf is which namespaces of the installation a replica can read.
func (i *installation) scopesOf(r *replica) map[string]bool {
	readable := map[string]bool{}
	for _, namespace := range []string{i.name + "-late", i.name + "-other"} {
		if r.canRead(namespace) {
			readable[namespace] = true
		}
	}
	return readable
}

// touch changes an object, so that it is reconciled.
func (i *installation) touch(namespace, name string) {
	i.t.Helper()
	_, err := i.api.CoreV1().ConfigMaps(namespace).Patch(i.t.Context(), name, "application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"touched":"yes"}}}`), metav1.PatchOptions{})
	if err != nil {
		i.t.Fatal(err)
	}
}
