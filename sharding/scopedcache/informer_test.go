package scopedcache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// diary is a handler that writes down what it is told.
type diary struct {
	mu    sync.Mutex
	lines []string
}

// OnAdd implements toolscache.ResourceEventHandler.
func (l *diary) OnAdd(obj any, isInitial bool) {
	l.write(fmt.Sprintf("add %s initial=%t", describe(obj), isInitial))
}

// OnUpdate implements toolscache.ResourceEventHandler.
func (l *diary) OnUpdate(before, after any) {
	l.write(fmt.Sprintf("update %s -> %s", describe(before), describe(after)))
}

// OnDelete implements toolscache.ResourceEventHandler.
func (l *diary) OnDelete(obj any) { l.write("delete " + describe(obj)) }

func (l *diary) write(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

// take returns what was written, and forgets it.
func (l *diary) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}

// describe names an object and its version.
func describe(obj any) string {
	if tombstone, isTombstone := obj.(toolscache.DeletedFinalStateUnknown); isTombstone {
		return "unseen " + describe(tombstone.Obj)
	}
	typed := obj.(*corev1.ConfigMap)
	return typed.Name + "@" + typed.ResourceVersion
}

// object returns a ConfigMap of a version.
func object(name, version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: name, ResourceVersion: version}}
}

// newTestInformer returns an informer of ConfigMaps in a scope of its own.
func newTestInformer(t *testing.T, isPermanent bool) (*kind, *informer) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	key := kindKey{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ConfigMap")}
	k := newKind(key, &corev1.ConfigMap{}, true)
	k.start = func(*registration) {} // the tests deliver by hand
	if isPermanent {
		k.unsynced = 1
	} else {
		close(k.permanentSynced)
	}
	s := &scope{namespace: "tenant", isPermanent: isPermanent, ctx: ctx, cancel: cancel}
	i := newInformer(s, k, nil, 0, toolscache.Indexers{})
	if err := k.join(i); err != nil {
		t.Fatal(err)
	}
	return k, i
}

// register adds a handler to a kind and returns its registration.
func register(t *testing.T, k *kind, handler toolscache.ResourceEventHandler) *registration {
	t.Helper()
	handle, err := k.AddEventHandler(handler)
	if err != nil {
		t.Fatalf("AddEventHandler: %v", err)
	}
	return handle.(*registration)
}

// deliverAll delivers what is queued.
func deliverAll(r *registration) {
	for _, n := range r.take() {
		r.deliver(n)
	}
}

func TestInformerTellsWhatItStores(t *testing.T) {
	cases := map[string]struct {
		before []any // the first list
		act    func(*informer) error
		want   []string
	}{
		"a first list is initial": {
			before: []any{},
			act:    func(i *informer) error { return nil },
		},
		"a new object": {
			before: []any{object("a", "1")},
			act:    func(i *informer) error { return i.Add(object("b", "2")) },
			want:   []string{"add b@2 initial=false"},
		},
		"a changed object": {
			before: []any{object("a", "1")},
			act:    func(i *informer) error { return i.Update(object("a", "2")) },
			want:   []string{"update a@1 -> a@2"},
		},
		"an Add of a known object": {
			before: []any{object("a", "1")},
			act:    func(i *informer) error { return i.Add(object("a", "2")) },
			want:   []string{"update a@1 -> a@2"},
		},
		"a deleted object comes as it was at last": {
			before: []any{object("a", "1")},
			act:    func(i *informer) error { return i.Delete(object("a", "2")) },
			want:   []string{"delete a@2"},
		},
		"a list after a lost watch, without what is as it was": {
			before: []any{object("gone", "1"), object("kept", "2"), object("changed", "3")},
			act: func(i *informer) error {
				return i.Replace([]any{object("kept", "2"), object("changed", "4"), object("new", "5")}, "6")
			},
			want: []string{
				"update changed@3 -> changed@4", "add new@5 initial=false", "delete unseen gone@1",
			},
		},
		"a resync": {
			before: []any{object("a", "1")},
			act:    func(i *informer) error { return i.Resync() },
			want:   []string{"update a@1 -> a@1"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			k, i := newTestInformer(t, false)
			told := &diary{}
			r := register(t, k, told)
			if err := i.Replace(tc.before, "1"); err != nil {
				t.Fatalf("Replace: %v", err)
			}
			deliverAll(r)
			for _, line := range told.take() {
				if want := "initial=true"; line[len(line)-len(want):] != want {
					t.Errorf("first list: %q, want %s", line, want)
				}
			}
			if err := tc.act(i); err != nil {
				t.Fatalf("act: %v", err)
			}
			deliverAll(r)
			if diff := cmp.Diff(tc.want, told.take()); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReplayIsOrdinaryAndOrdered(t *testing.T) {
	k, i := newTestInformer(t, false)
	told := &diary{}
	r := register(t, k, told)
	if err := i.Replace([]any{object("a", "1")}, "1"); err != nil {
		t.Fatal(err)
	}
	i.scope.informers = map[kindKey]*informer{k.key: i}
	i.scope.replay()
	if err := i.Delete(object("a", "2")); err != nil {
		t.Fatal(err)
	}
	deliverAll(r)
	want := []string{"add a@1 initial=true", "add a@1 initial=false", "delete a@2"}
	if diff := cmp.Diff(want, told.take()); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}

	// After a replay nothing of the scope is initial any more, whoever asks for the first time.
	late := &diary{}
	if err := i.Add(object("b", "3")); err != nil {
		t.Fatal(err)
	}
	deliverAll(register(t, k, late))
	if diff := cmp.Diff([]string{"add b@3 initial=false"}, late.take()); diff != "" {
		t.Errorf("a late handler was told (-want +got):\n%s", diff)
	}
}

func TestDroppedScopeIsSilent(t *testing.T) {
	k, i := newTestInformer(t, false)
	told := &diary{}
	r := register(t, k, told)
	if err := i.Replace([]any{object("a", "1")}, "1"); err != nil {
		t.Fatal(err)
	}
	i.scope.informers = map[kindKey]*informer{k.key: i}
	i.scope.close()
	deliverAll(r)
	if got := told.take(); len(got) != 0 {
		t.Errorf("told %v, want nothing", got)
	}
	if len(k.informers) != 0 {
		t.Errorf("the kind still holds %d informers", len(k.informers))
	}
	select {
	case <-i.HasSyncedChecker().Done():
	default:
		t.Error("who waits for the informer would wait for ever")
	}
}

func TestHandlerSyncsOnceThePermanentScopesWereDelivered(t *testing.T) {
	k, i := newTestInformer(t, true)
	r := register(t, k, &diary{})
	deliverAll(r)
	if r.HasSynced() || k.HasSynced() {
		t.Error("synced before the first list")
	}
	if err := i.Replace([]any{object("a", "1")}, "1"); err != nil {
		t.Fatal(err)
	}
	if !k.HasSynced() {
		t.Error("the informer has not synced after the first list")
	}
	if r.HasSynced() {
		t.Error("the handler has synced before it was called")
	}
	deliverAll(r)
	if !r.HasSynced() {
		t.Error("the handler has not synced after it was called")
	}
	late := register(t, k, &diary{})
	deliverAll(late)
	if !late.HasSynced() {
		t.Error("a late handler has not synced")
	}
}

func TestHandlersWithoutResync(t *testing.T) {
	k, i := newTestInformer(t, false)
	told := &diary{}
	never := time.Duration(0)
	handle, err := k.AddEventHandlerWithResyncPeriod(told, never)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second is a list after a lost watch
		if err := i.Replace([]any{object("a", "1")}, "1"); err != nil {
			t.Fatal(err)
		}
	}
	if err := i.Resync(); err != nil {
		t.Fatal(err)
	}
	deliverAll(handle.(*registration))
	if diff := cmp.Diff([]string{"add a@1 initial=true"}, told.take()); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

func TestRemovedHandlerIsForgotten(t *testing.T) {
	k, i := newTestInformer(t, false)
	told, other := &diary{}, &diary{}
	r, kept := register(t, k, told), register(t, k, other)
	if err := k.RemoveEventHandler(r); err != nil {
		t.Fatalf("RemoveEventHandler: %v", err)
	}
	if err := i.Add(object("a", "1")); err != nil {
		t.Fatal(err)
	}
	r.run(t.Context()) // returns at once, or the test hangs
	deliverAll(kept)
	if got := told.take(); len(got) != 0 {
		t.Errorf("told %v, want nothing", got)
	}
	if got := other.take(); len(got) != 1 {
		t.Errorf("the other handler was told %v, want one Add", got)
	}
	select {
	case <-r.ShutdownChan():
	default:
		t.Error("ShutdownChan is open")
	}
}

func TestErrorsMatch(t *testing.T) {
	cause := errors.New("forbidden")
	notSynced := fmt.Errorf("reading: %w", &NotSyncedError{Namespace: "tenant", Kinds: []string{"Secret"}, Err: cause})
	notOwned := fmt.Errorf("reading: %w", &NotOwnedError{Namespace: "tenant"})
	cases := map[string]struct {
		err    error
		target error
		want   bool
	}{
		"not owned":                 {notOwned, ErrNotOwned, true},
		"not owned is not unsynced": {notOwned, ErrNotSynced, false},
		"not synced":                {notSynced, ErrNotSynced, true},
		"not synced is not unowned": {notSynced, ErrNotOwned, false},
		"the cause shows":           {notSynced, cause, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := errors.Is(tc.err, tc.target); got != tc.want {
				t.Errorf("errors.Is: %t, want %t", got, tc.want)
			}
		})
	}
	want := `reading: namespace "tenant" is not synced yet: waiting for Secret: forbidden`
	if notSynced.Error() != want {
		t.Errorf("got %q, want %q", notSynced.Error(), want)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	cases := map[string]struct {
		options Options
		wantErr bool
	}{
		"zero":                   {Options{}, false},
		"a shared namespace":     {Options{Shared: []SharedNamespace{{Name: "home"}}}, false},
		"a shared one twice":     {Options{Shared: []SharedNamespace{{Name: "home"}, {Name: "home"}}}, true},
		"a shared one, nameless": {Options{Shared: []SharedNamespace{{}}}, true},
		"negative concurrency":   {Options{Concurrency: -1}, true},
		"negative start timeout": {Options{StartTimeout: -1}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := tc.options.Validate(); (err != nil) != tc.wantErr {
				t.Errorf("Validate: %v, want an error: %t", err, tc.wantErr)
			}
		})
	}
}

// TestDeliveryKeepsOrder lets several writers push while run delivers: what one writer pushed
// arrives complete and in its order.
func TestDeliveryKeepsOrder(t *testing.T) {
	const writers, each = 4, 500
	told := &diary{}
	r := newRegistration(told, true)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() { defer close(done); r.run(ctx) }()
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for n := range each {
				r.push(notification{change: added, new: object(fmt.Sprint("w", w), fmt.Sprintf("%04d", n))})
			}
		})
	}
	writing.Wait()
	r.push(notification{change: initialDone})
	<-r.synced
	cancel()
	<-done
	lines := told.take()
	if len(lines) != writers*each {
		t.Fatalf("%d calls, want %d", len(lines), writers*each)
	}
	for w := range writers {
		prefix := fmt.Sprintf("add w%d@", w)
		mine := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return line[:len(prefix)] != prefix })
		if len(mine) != each || !slices.IsSorted(mine) {
			t.Errorf("writer %d: %d calls, in order: %t", w, len(mine), slices.IsSorted(mine))
		}
	}
}
