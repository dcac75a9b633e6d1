package serverfence_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stage is an installation with one holder of shard 1, the shard of a user's namespace, and one of shard 2.
type stage struct {
	*installation
	namespace    string
	owner, other *actor
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{installation: install(t), namespace: newNamespace(t, "user-")}
	s.owner, s.other = s.pod(t, "operator-0"), s.pod(t, "operator-1")
	s.give(t, 1, s.owner)
	s.give(t, 2, s.other)
	return s
}

// object is what a user has made, or what a user has done to an object of the operator.
func (s *stage) object(t *testing.T, shard int) *corev1.ConfigMap {
	t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.namespace, GenerateName: "x-", Labels: labels(shard),
	}}
	create(t, object)
	return object
}

// kubectl has an administrator do something to the object with kubectl.
func (s *stage) kubectl(t *testing.T, arguments ...string) {
	t.Helper()
	if err := kubectl(t.Context(), append([]string{"-n", s.namespace}, arguments...)...); err != nil {
		t.Fatal(err)
	}
}

// patch writes without saying a label, as most writes do.
func patch(t *testing.T, a *actor, object client.Object) error {
	t.Helper()
	return a.client.Patch(t.Context(), object.DeepCopyObject().(client.Object),
		client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"by":"`+a.name+`"}}}`)))
}

// apply writes server-side, with the label of a shard.
func apply(t *testing.T, a *actor, object client.Object, shard int) error {
	t.Helper()
	wanted := corev1apply.ConfigMap(object.GetName(), object.GetNamespace()).
		WithLabels(labels(shard)).WithAnnotations(map[string]string{"by": a.name})
	return a.client.Apply(t.Context(), wanted, client.FieldOwner("operator"), client.ForceOwnership)
}

// expect compares who refuses with who should, "" for nobody.
func expect(t *testing.T, what string, err error, want string) {
	t.Helper()
	if got := refusedBy(t, err); got != want {
		t.Errorf("%s: refused by %q, want %q", what, got, want)
	}
}

// A manifest that was copied bears another shard's label: the owner of the namespace's shard cannot write
// before it has put its own label on, and then can; the other never may put its own back.
func TestCopiedLabel(t *testing.T) {
	s := newStage(t)
	object := s.object(t, 2)
	expect(t, "owner, before it restamps", patch(t, s.owner, object), s.byShard(2))
	expect(t, "owner, restamping", apply(t, s.owner, object, 1), "")
	expect(t, "owner, afterwards", patch(t, s.owner, object), "")
	expect(t, "the other", patch(t, s.other, object), s.byShard(1))
}

func TestLabelRemoved(t *testing.T) {
	s := newStage(t)
	object := s.object(t, 1)
	s.kubectl(t, "label", "configmap", object.Name, shardLabel+"-")
	expect(t, "owner, before it restamps", patch(t, s.owner, object), s.byLabel())
	expect(t, "the other", patch(t, s.other, object), s.byLabel())
	expect(t, "the other, with the owner's label", apply(t, s.other, object, 1), s.byShard(1))
	expect(t, "owner, restamping", apply(t, s.owner, object, 1), "")
	expect(t, "owner, afterwards", patch(t, s.owner, object), "")
}

func TestLabelChanged(t *testing.T) {
	cases := map[string]struct {
		label string
		want  func(*stage) string
	}{
		"to another's shard":         {"2", func(s *stage) string { return s.byShard(2) }},
		"to nobody's shard":          {"3", func(s *stage) string { return s.byShard(3) }},
		"to no shard":                {"4", func(s *stage) string { return s.byLabel() }},
		"to no number":               {"one", func(s *stage) string { return s.byLabel() }},
		"to another spelling":        {"01", func(s *stage) string { return s.byLabel() }},
		"to a number of many digits": {"18446744073709551617", func(s *stage) string { return s.byLabel() }},
	}
	s := newStage(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			object := s.object(t, 1)
			s.kubectl(t, "label", "--overwrite", "configmap", object.Name, shardLabel+"="+tc.label)
			expect(t, "owner, before it restamps", patch(t, s.owner, object), tc.want(s))
			expect(t, "owner, restamping", apply(t, s.owner, object, 1), "")
			expect(t, "the other, restamping with the owner's label", apply(t, s.other, object, 1), s.byShard(1))
		})
	}
}

// kubectl replace puts the user's manifest in the place of what there is: with no label, or the wrong one.
func TestReplaced(t *testing.T) {
	s := newStage(t)
	for shard, want := range map[int]string{-1: s.byLabel(), 2: s.byShard(2)} {
		object := s.object(t, 1)
		manifest, err := json.Marshal(&corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: object.Name, Labels: labels(shard)},
		})
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "manifest.json")
		if err := os.WriteFile(file, manifest, 0o600); err != nil {
			t.Fatal(err)
		}
		s.kubectl(t, "replace", "-f", file)
		expect(t, "owner, before it restamps", patch(t, s.owner, object), want)
		expect(t, "the other, with the owner's label", apply(t, s.other, object, 1), s.byShard(1))
		expect(t, "owner, restamping", apply(t, s.owner, object, 1), "")
	}
}

// A user removes the label while the old owner stands still in mid-reconcile; meanwhile the shard has gone
// to another. Nothing that the old owner had in mind passes, with or without the label in it.
func TestLabelRemovedWhileTheOldOwnerIsPaused(t *testing.T) {
	s := newStage(t)
	object := s.object(t, 1)
	expect(t, "owner, before the pause", patch(t, s.owner, object), "")
	s.kubectl(t, "label", "configmap", object.Name, shardLabel+"-")
	s.give(t, 1, s.other)

	stale := object.DeepCopy() // as it was seen before the pause, with its label
	expect(t, "old owner, patching", patch(t, s.owner, object), s.byLabel())
	expect(t, "old owner, applying", apply(t, s.owner, object, 1), s.byShard(1))
	expect(t, "old owner, deleting", s.owner.client.Delete(t.Context(), stale), s.byLabel())
	stale.ResourceVersion = ""
	expect(t, "old owner, replacing", s.owner.client.Update(t.Context(), stale), s.byShard(1))
	expect(t, "new owner, restamping", apply(t, s.other, object, 1), "")
	expect(t, "old owner, after that", patch(t, s.owner, object), s.byShard(1))
	expect(t, "new owner, after that", patch(t, s.other, object), "")
}
