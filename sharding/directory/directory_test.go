package directory

import (
	"context"
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
)

var rootKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Root"}

// object returns the metadata of an object.
func object(namespace, name string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// terminating returns the metadata of a namespace that is being deleted.
func terminating(name string) *metav1.PartialObjectMetadata {
	obj := object("", name)
	obj.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	return obj
}

// newTestDirectory returns a directory of some root kinds without a client.
func newTestDirectory(kinds int) *Directory {
	return newDirectory(nil, nil, Options{RootKinds: make([]schema.GroupVersionKind, kinds)})
}

// told makes the calls that are due and returns what was told last, by namespace.
func told(d *Directory, into map[string]int) map[string]int {
	clear(into)
	for _, call := range d.takeCalls() {
		call()
	}
	return into
}

// must fails the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestListenersHearOfEachChange(t *testing.T) {
	d := newTestDirectory(1)
	store := newObjectStore(d)
	last := map[string]int{}
	must(t, store.Replace([]any{object("early", "a")}, "1"))
	d.OnChange(func(namespace string, count int) { last[namespace] = count })
	steps := []struct {
		what string
		act  func() error
		want map[string]int
	}{
		{"what is known already", func() error { return nil }, map[string]int{"early": 1}},
		{"nothing new", func() error { return store.Update(object("early", "a")) }, map[string]int{}},
		{"one appears", func() error { return store.Add(object("late", "a")) }, map[string]int{"late": 1}},
		{"another in it", func() error { return store.Add(object("late", "b")) }, map[string]int{"late": 2}},
		{"one goes", func() error { return store.Delete(object("late", "a")) }, map[string]int{"late": 1}},
		{"an unknown goes", func() error { return store.Delete(object("late", "a")) }, map[string]int{}},
		{"it empties", func() error { return store.Delete(object("late", "b")) }, map[string]int{"late": 0}},
		{"a list without early", func() error {
			return store.Replace([]any{object("third", "a"), object("third", "b")}, "2")
		}, map[string]int{"early": 0, "third": 2}},
	}
	for _, step := range steps {
		must(t, step.act())
		if diff := cmp.Diff(step.want, told(d, last)); diff != "" {
			t.Errorf("%s: told (-want +got):\n%s", step.what, diff)
		}
	}
	if diff := cmp.Diff(map[string]int{"third": 2}, d.All()); diff != "" {
		t.Errorf("All (-want +got):\n%s", diff)
	}
}

func TestKindsAreSummed(t *testing.T) {
	d := newTestDirectory(2)
	d.options.ShardOf = func(namespace string) int { return len(namespace) }
	one, two := newObjectStore(d), newObjectStore(d)
	must(t, one.Replace([]any{object("ab", "x"), object("c", "x")}, "1"))
	if d.WaitForSync(ended()) {
		t.Error("synced before every kind was read")
	}
	must(t, two.Replace([]any{object("ab", "x")}, "1"))
	if !d.WaitForSync(t.Context()) {
		t.Error("not synced though every kind was read")
	}
	if diff := cmp.Diff(map[string]int{"ab": 2}, d.Namespaces(2)); diff != "" {
		t.Errorf("Namespaces(2) (-want +got):\n%s", diff)
	}
	must(t, one.Replace(nil, "2"))
	if diff := cmp.Diff(map[string]int{"ab": 1}, d.All()); diff != "" {
		t.Errorf("All (-want +got):\n%s", diff)
	}
}

// ended returns a context that has ended.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestTerminatingNamespaces(t *testing.T) {
	d := newTestDirectory(1)
	objects, namespaces := newObjectStore(d), &namespaceStore{directory: d}
	last := map[string]int{}
	d.OnChange(func(namespace string, count int) { last[namespace] = count })
	must(t, objects.Replace([]any{object("full", "a")}, "1"))
	told(d, last)
	steps := []struct {
		what string
		act  func() error
		want map[string]int
		now  bool
	}{
		{"alive", func() error { return namespaces.Replace([]any{object("", "full"), object("", "bare")}, "1") }, map[string]int{}, false},
		{"deleted", func() error { return namespaces.Update(terminating("full")) }, map[string]int{"full": 1}, true},
		{"again", func() error { return namespaces.Update(terminating("full")) }, map[string]int{}, true},
		{"listed again", func() error { return namespaces.Replace([]any{terminating("full")}, "2") }, map[string]int{}, true},
		{"empties", func() error { return objects.Delete(object("full", "a")) }, map[string]int{"full": 0}, true},
		{"gone", func() error { return namespaces.Delete(terminating("full")) }, map[string]int{"full": 0}, false},
		{"recreated", func() error { return namespaces.Add(object("", "full")) }, map[string]int{}, false},
		{"missed", func() error { return namespaces.Add(terminating("full")) }, map[string]int{"full": 0}, true},
		{"its end was missed too", func() error { return namespaces.Replace(nil, "3") }, map[string]int{"full": 0}, false},
	}
	for _, step := range steps {
		must(t, step.act())
		if diff := cmp.Diff(step.want, told(d, last)); diff != "" {
			t.Errorf("%s: told (-want +got):\n%s", step.what, diff)
		}
		if got := d.Terminating("full"); got != step.now {
			t.Errorf("%s: Terminating is %t, want %t", step.what, got, step.now)
		}
	}
}

// TestCountsAgreeWithANaiveVersion compares the directory with a plain set of names over a long
// random history of adds, deletes and lists.
func TestCountsAgreeWithANaiveVersion(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	d := newTestDirectory(1)
	store := newObjectStore(d)
	naive := map[[2]string]bool{}
	for step := range 5000 {
		key := [2]string{fmt.Sprint("ns", random.Intn(5)), fmt.Sprint("obj", random.Intn(4))}
		switch random.Intn(10) {
		case 0:
			naive = map[[2]string]bool{}
			var listed []any
			for range random.Intn(12) {
				key := [2]string{fmt.Sprint("ns", random.Intn(5)), fmt.Sprint("obj", random.Intn(4))}
				naive[key] = true
				listed = append(listed, object(key[0], key[1]))
			}
			must(t, store.Replace(listed, "1"))
		case 1, 2, 3, 4:
			delete(naive, key)
			must(t, store.Delete(object(key[0], key[1])))
		default:
			naive[key] = true
			must(t, store.Add(object(key[0], key[1])))
		}
		want := map[string]int{}
		for key := range naive {
			want[key[0]]++
		}
		if diff := cmp.Diff(want, d.All()); diff != "" {
			t.Fatalf("step %d: All (-want +got):\n%s", step, diff)
		}
	}
}

func TestNothingIsKeptOfEmptyNamespaces(t *testing.T) {
	d := newTestDirectory(1)
	objects, namespaces := newObjectStore(d), &namespaceStore{directory: d}
	for n := range 100 {
		name := fmt.Sprint("ns", n)
		must(t, namespaces.Add(object("", name)))
		must(t, objects.Add(object(name, "a")))
		must(t, objects.Delete(object(name, "a")))
	}
	if len(d.counts)+len(d.terminating)+len(objects.names) != 0 {
		t.Errorf("kept %v, %v and %v, want nothing", d.counts, d.terminating, objects.names)
	}
}

func TestStripKeepsNamesAlone(t *testing.T) {
	full := object("ns", "a")
	full.UID, full.ResourceVersion = "uid", "7"
	full.Labels = map[string]string{"some": "label"}
	full.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "somebody"}}
	got, err := strip(full)
	must(t, err)
	want := object("ns", "a")
	want.UID, want.ResourceVersion = "uid", "7"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("strip (-want +got):\n%s", diff)
	}
	if _, err := strip("no object"); err == nil {
		t.Error("strip takes a string")
	}
	var _ toolscache.TransformFunc = strip
}

func TestOptionsAreChecked(t *testing.T) {
	kinds := []schema.GroupVersionKind{rootKind}
	cases := map[string]struct {
		options Options
		wantErr bool
	}{
		"no root kind":       {Options{}, true},
		"one":                {Options{RootKinds: kinds}, false},
		"one without a name": {Options{RootKinds: []schema.GroupVersionKind{{Version: "v1"}}}, true},
		"some namespaces":    {Options{RootKinds: kinds, Namespaces: []string{"a"}}, false},
		"every namespace":    {Options{RootKinds: kinds, Namespaces: []string{""}}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := tc.options.Validate(); (err != nil) != tc.wantErr {
				t.Errorf("Validate: %v, want an error: %t", err, tc.wantErr)
			}
		})
	}
}
