package placement

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// fakeConfigMaps keeps ConfigMaps as the API server does: one resourceVersion for all that only
// grows, AlreadyExists, NotFound, and Conflict for another version.
type fakeConfigMaps struct {
	mu      sync.Mutex // guards what follows
	version int
	objects map[string]*corev1.ConfigMap
	writes  int
	fail    error // returned by every call, unless nil
}

var configMapResource = schema.GroupResource{Resource: "configmaps"}

func (f *fakeConfigMaps) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.ConfigMap, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return nil, f.fail
	}
	object, ok := f.objects[name]
	if !ok {
		return nil, apierrors.NewNotFound(configMapResource, name)
	}
	return object.DeepCopy(), nil
}

func (f *fakeConfigMaps) Create(_ context.Context, object *corev1.ConfigMap, _ metav1.CreateOptions) (*corev1.ConfigMap, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.fail != nil:
		return nil, f.fail
	case object.ResourceVersion != "":
		return nil, apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	case f.objects[object.Name] != nil:
		return nil, apierrors.NewAlreadyExists(configMapResource, object.Name)
	}
	return f.put(object), nil
}

func (f *fakeConfigMaps) Update(_ context.Context, object *corev1.ConfigMap, _ metav1.UpdateOptions) (*corev1.ConfigMap, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	stored := f.objects[object.Name]
	switch {
	case f.fail != nil:
		return nil, f.fail
	case stored == nil:
		return nil, apierrors.NewNotFound(configMapResource, object.Name)
	case object.ResourceVersion != "" && object.ResourceVersion != stored.ResourceVersion:
		return nil, apierrors.NewConflict(configMapResource, object.Name, errors.New("changed"))
	}
	return f.put(object), nil
}

func (f *fakeConfigMaps) put(object *corev1.ConfigMap) *corev1.ConfigMap {
	if f.objects == nil {
		f.objects = make(map[string]*corev1.ConfigMap)
	}
	f.version++
	f.writes++
	stored := object.DeepCopy()
	stored.ResourceVersion = strconv.Itoa(f.version)
	f.objects[object.Name] = stored
	return stored.DeepCopy()
}

func (f *fakeConfigMaps) delete() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.objects = nil
}

func TestStoreLife(t *testing.T) {
	ctx, fake := t.Context(), &fakeConfigMaps{}
	store := NewStore(fake, "redis-operator", settingsOf(16))
	if _, err := store.Load(ctx); !errors.Is(err, ErrMissing) {
		t.Fatalf("loading nothing: %v", err)
	}
	first, err := store.Create(ctx, storedExample(t))
	if err != nil || first.Version != "1" {
		t.Fatalf("creating: version %q, %v", first.Version, err)
	}
	if fake.objects["redis-operator-placement"] == nil {
		t.Errorf("not stored under its name: %v", fake.objects)
	}
	if _, err := store.Create(ctx, first); !errors.Is(err, ErrConflict) {
		t.Errorf("creating twice: %v", err)
	}
	loaded, err := store.Load(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, loaded); diff != "" {
		t.Errorf("loaded (-want +got):\n%s", diff)
	}
	changed := Place(loaded, operators(5))
	second, err := store.Update(ctx, changed)
	if err != nil || second.Version != "2" || !second.Equal(changed) {
		t.Errorf("updating: version %q, %v", second.Version, err)
	}
	if _, err := store.Update(ctx, changed); !errors.Is(err, ErrConflict) {
		t.Errorf("updating the version before: %v", err)
	}
	fake.delete()
	if _, err := store.Update(ctx, second); !errors.Is(err, ErrMissing) {
		t.Errorf("updating what was deleted: %v", err)
	}
	// The last copy that was read brings it back, whatever version it has.
	if again, err := store.Create(ctx, second); err != nil || again.Version != "3" {
		t.Errorf("creating from the last copy: version %q, %v", again.Version, err)
	}
	if _, err := store.Update(ctx, second); !errors.Is(err, ErrConflict) {
		t.Errorf("updating with a version from before the deletion: %v", err)
	}
}

func TestStoreRefuses(t *testing.T) {
	ours := settingsOf(16)
	encoded, err := Encode(storedExample(t))
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		data       map[string]string
		settings   Settings
		wantTheirs Settings
		wantField  string
	}{
		"ours":             {data: map[string]string{DataKey: string(encoded)}, settings: ours},
		"any":              {data: map[string]string{DataKey: string(encoded)}},
		"other shards":     {data: map[string]string{DataKey: string(encoded)}, settings: settingsOf(32), wantTheirs: ours},
		"a hash to come":   {data: map[string]string{DataKey: `{"format":1,"shards":16,"hash":"new"}`}, settings: ours, wantTheirs: Settings{16, "new"}},
		"a hash, any":      {data: map[string]string{DataKey: `{"format":1,"shards":16,"hash":"new"}`}, wantField: "hash"},
		"no key":           {data: map[string]string{"other": "x"}, settings: ours, wantField: "data"},
		"another format":   {data: map[string]string{DataKey: `{"format":3}`}, settings: ours, wantField: "format"},
		"a broken field":   {data: map[string]string{DataKey: `{"format":1,"shards":16,"hash":"fnv1a64-mix","expected":["_"]}`}, settings: ours, wantField: "expected[0]"},
		"no settings":      {data: map[string]string{DataKey: `{"format":1}`}, settings: ours, wantField: "shards"},
		"a field too many": {data: map[string]string{DataKey: `{"format":1,"shards":true}`}, settings: ours, wantField: "shards"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			fake := &fakeConfigMaps{}
			stored := fake.put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: ConfigMapName("x")}, Data: tc.data})
			_, err := NewStore(fake, "x", tc.settings).Load(t.Context())
			var settingsError *SettingsError
			if tc.wantTheirs == (Settings{}) {
				wantFieldError(t, err, tc.wantField)
			} else if !errors.As(err, &settingsError) || settingsError.Ours != tc.settings || settingsError.Theirs != tc.wantTheirs {
				t.Errorf("got %v, want a SettingsError of %s and %s", err, tc.settings, tc.wantTheirs)
			}
			var unreadable *UnreadableError
			if isUnreadable := errors.As(err, &unreadable); isUnreadable != (tc.wantField != "") ||
				isUnreadable && unreadable.Version != stored.ResourceVersion {
				t.Errorf("got %v, want an UnreadableError with the version for what is no placement", err)
			}
			if errors.Is(err, ErrOtherFormat) != (name == "another format") {
				t.Errorf("got %v", err)
			}
			if err != nil && !strings.Contains(err.Error(), "x-placement") {
				t.Errorf("%q does not name the ConfigMap", err)
			}
		})
	}
}

func TestStoreWritesNothingInvalid(t *testing.T) {
	ctx, fake := t.Context(), &fakeConfigMaps{}
	store := NewStore(fake, "x", settingsOf(16))
	good, err := store.Create(ctx, storedExample(t))
	if err != nil {
		t.Fatal(err)
	}
	broken := good.Clone()
	broken.Homes = nil
	_, err = store.Update(ctx, broken)
	wantFieldError(t, err, "homes")
	var settingsError *SettingsError
	if _, err := store.Update(ctx, New(settingsOf(32), Timings{})); err == nil {
		t.Errorf("updated without a version")
	}
	if _, err := store.Create(ctx, New(settingsOf(32), Timings{})); !errors.As(err, &settingsError) {
		t.Errorf("creating with other settings: %v", err)
	}
	if fake.writes != 1 {
		t.Errorf("%d writes", fake.writes)
	}
}

func TestStorePassesErrorsOn(t *testing.T) {
	denied := apierrors.NewForbidden(configMapResource, "x", errors.New("no right"))
	store := NewStore(&fakeConfigMaps{fail: denied}, "x", settingsOf(16))
	p := storedExample(t)
	p.Version = "1"
	_, loading := store.Load(t.Context())
	_, creating := store.Create(t.Context(), p)
	_, updating := store.Update(t.Context(), p)
	for act, err := range map[string]error{"loading": loading, "creating": creating, "updating": updating} {
		if !apierrors.IsForbidden(err) || errors.Is(err, ErrMissing) || errors.Is(err, ErrConflict) {
			t.Errorf("%s: %v", act, err)
		}
		if !strings.Contains(err.Error(), act) {
			t.Errorf("%q does not say %q", err, act)
		}
	}
	// A namespace that is not there is not a placement that is not there.
	missing := NewStore(&fakeConfigMaps{fail: apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "n")}, "x", settingsOf(16))
	if _, err := missing.Create(t.Context(), p); errors.Is(err, ErrMissing) || !apierrors.IsNotFound(err) {
		t.Errorf("creating without a namespace: %v", err)
	}
}

// TestChangeLosesNothing: twenty processes register at once, and all of them are in P.
func TestChangeLosesNothing(t *testing.T) {
	const members = 20
	ctx, fake := t.Context(), &fakeConfigMaps{}
	store := NewStore(fake, "x", settingsOf(64))
	if _, err := store.Create(ctx, Place(New(settingsOf(64), Timings{}), operators(members))); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i, member := range operators(members) {
		group.Go(func() {
			for _, state := range []State{Joining, Serving, Serving} {
				_, err := store.Change(ctx, func(p Placement) (Placement, error) {
					return p.Record(identityOf(member, i, 0), state)
				})
				if err != nil {
					t.Errorf("%s %s: %v", member, state, err)
				}
			}
		})
	}
	group.Wait()
	p, err := store.Load(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if len(liveMembers(p.Processes)) != members || len(p.Deputies) > 0 {
		t.Errorf("%d of %d are live, %d deputies", len(liveMembers(p.Processes)), members, len(p.Deputies))
	}
	if fake.writes != 1+2*members {
		t.Errorf("%d writes: the third of each process changes nothing", fake.writes)
	}
}

func TestChangeEnds(t *testing.T) {
	ctx, fake := t.Context(), &fakeConfigMaps{}
	store := NewStore(fake, "x", settingsOf(16))
	if _, err := store.Change(ctx, func(p Placement) (Placement, error) { return p, nil }); !errors.Is(err, ErrMissing) {
		t.Errorf("changing nothing: %v", err)
	}
	if _, err := store.Create(ctx, storedExample(t)); err != nil {
		t.Fatal(err)
	}
	tries := 0
	_, err := store.Change(ctx, func(p Placement) (Placement, error) {
		tries++
		other := Place(p, operators(3+tries%2))
		other.StatefulSetVersion = fmt.Sprint(100 + tries)
		if _, err := store.Update(ctx, other); err != nil {
			t.Fatal(err)
		}
		return Place(p, operators(9)), nil
	})
	if !errors.Is(err, ErrConflict) || tries != maxChanges {
		t.Errorf("after %d tries: %v", tries, err)
	}
	own := errors.New("own")
	if _, err := store.Change(ctx, func(Placement) (Placement, error) { return Placement{}, own }); !errors.Is(err, own) {
		t.Errorf("got %v, want the error of the change", err)
	}
}
