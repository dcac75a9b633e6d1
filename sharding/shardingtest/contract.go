package shardingtest

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"
)

// LeasesContract is what the claims rely on of a Leases API. Api answers an API and an existing
// namespace without Leases, for each part anew.
func LeasesContract(t *testing.T, api func(t *testing.T) (coordinationv1client.LeasesGetter, string)) {
	t.Helper()
	parts := map[string]func(*contract){
		"create refuses what is there":                (*contract).createTwice,
		"versions grow, over a deletion too":          (*contract).versionsGrow,
		"update needs the stored version":             (*contract).updateConflicts,
		"update of a deleted one recreates nothing":   (*contract).updateDeleted,
		"update under another UID conflicts":          (*contract).updateRecreated,
		"a holder can be removed":                     (*contract).emptyHolder,
		"a duration has to be positive":               (*contract).invalidDuration,
		"list selects by label":                       (*contract).listSelects,
		"watch shows what comes after the list":       (*contract).watchFollows,
		"watch shows a Lease leaving the selection":   (*contract).watchSelects,
		"a watch ends with its context":               (*contract).watchEnds,
		"an ended context is answered with its error": (*contract).contextEnds,
	}
	for name, part := range parts {
		t.Run(name, func(t *testing.T) {
			getter, namespace := api(t)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			part(&contract{t: t, ctx: ctx, leases: getter.Leases(namespace)})
		})
	}
}

type contract struct {
	t      *testing.T
	ctx    context.Context //nolint:containedctx // of one test
	leases coordinationv1client.LeaseInterface
}

func (c *contract) lease(name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"set": "a"}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("x"), LeaseDurationSeconds: ptr.To(int32(10))},
	}
}

func (c *contract) create(name string) *coordinationv1.Lease {
	c.t.Helper()
	lease, err := c.leases.Create(c.ctx, c.lease(name), metav1.CreateOptions{})
	if err != nil {
		c.t.Fatalf("creating %s: %v", name, err)
	}
	return lease
}

func (c *contract) update(lease *coordinationv1.Lease) *coordinationv1.Lease {
	c.t.Helper()
	updated, err := c.leases.Update(c.ctx, lease, metav1.UpdateOptions{})
	if err != nil {
		c.t.Fatalf("updating %s: %v", lease.Name, err)
	}
	return updated
}

func (c *contract) removeA() {
	c.t.Helper()
	if err := c.leases.Delete(c.ctx, "a", metav1.DeleteOptions{}); err != nil {
		c.t.Fatalf("deleting a: %v", err)
	}
}

func (c *contract) want(what string, is func(error) bool, err error) {
	c.t.Helper()
	if !is(err) {
		c.t.Errorf("%s: error = %v", what, err)
	}
}

func (c *contract) wantNewer(what, newer, older string) {
	c.t.Helper()
	if d, err := resourceversion.CompareResourceVersion(newer, older); err != nil || d <= 0 {
		c.t.Errorf("%s: version %s is not newer than %s (%v)", what, newer, older, err)
	}
}

func (c *contract) createTwice() {
	c.create("a")
	_, err := c.leases.Create(c.ctx, c.lease("a"), metav1.CreateOptions{})
	c.want("creating again", apierrors.IsAlreadyExists, err)
}

func (c *contract) versionsGrow() {
	created := c.create("a")
	change := created.DeepCopy()
	change.Spec.HolderIdentity = ptr.To("y")
	updated := c.update(change)
	c.wantNewer("updating", updated.ResourceVersion, created.ResourceVersion)
	c.removeA()
	_, err := c.leases.Get(c.ctx, "a", metav1.GetOptions{})
	c.want("reading a deleted one", apierrors.IsNotFound, err)
	again := c.create("a")
	c.wantNewer("creating again", again.ResourceVersion, updated.ResourceVersion)
	if again.UID == created.UID || again.UID == "" {
		c.t.Errorf("UID = %q, before it was %q", again.UID, created.UID)
	}
	list, err := c.leases.List(c.ctx, metav1.ListOptions{})
	if err != nil {
		c.t.Fatalf("listing: %v", err)
	}
	if d, err := resourceversion.CompareResourceVersion(list.ResourceVersion, again.ResourceVersion); err != nil || d < 0 {
		c.t.Errorf("the list is of version %s, what it holds of %s", list.ResourceVersion, again.ResourceVersion)
	}
}

func (c *contract) updateConflicts() {
	old := c.create("a")
	change := old.DeepCopy()
	change.Spec.HolderIdentity = ptr.To("y")
	c.update(change)
	old.Spec.HolderIdentity = ptr.To("z")
	_, err := c.leases.Update(c.ctx, old, metav1.UpdateOptions{})
	c.want("updating an old version", apierrors.IsConflict, err)
	got, err := c.leases.Get(c.ctx, "a", metav1.GetOptions{})
	if err != nil || ptr.Deref(got.Spec.HolderIdentity, "") != "y" {
		c.t.Errorf("stored = %v, %v, want the holder y", got, err)
	}
}

func (c *contract) updateDeleted() {
	lease := c.create("a")
	c.removeA()
	_, err := c.leases.Update(c.ctx, lease, metav1.UpdateOptions{})
	c.want("updating a deleted one", apierrors.IsConflict, err) // by its UID; not NotFound
	_, err = c.leases.Get(c.ctx, "a", metav1.GetOptions{})
	c.want("reading it after that", apierrors.IsNotFound, err)
	c.want("deleting a deleted one", apierrors.IsNotFound, c.leases.Delete(c.ctx, "a", metav1.DeleteOptions{}))
}

func (c *contract) updateRecreated() {
	lease := c.create("a")
	c.removeA()
	c.create("a")
	_, err := c.leases.Update(c.ctx, lease, metav1.UpdateOptions{})
	c.want("updating a recreated one", apierrors.IsConflict, err)
}

func (c *contract) emptyHolder() {
	lease := c.create("a")
	lease.Spec.HolderIdentity = ptr.To("")
	lease.Spec.AcquireTime, lease.Spec.RenewTime = nil, nil
	c.update(lease)
	got, err := c.leases.Get(c.ctx, "a", metav1.GetOptions{})
	if err != nil || ptr.Deref(got.Spec.HolderIdentity, "") != "" {
		c.t.Errorf("stored = %v, %v, want no holder", got, err)
	}
}

func (c *contract) invalidDuration() {
	lease := c.create("a")
	lease.Spec.LeaseDurationSeconds = ptr.To(int32(0))
	_, err := c.leases.Update(c.ctx, lease, metav1.UpdateOptions{})
	c.want("a duration of 0", apierrors.IsInvalid, err)
}

func (c *contract) listSelects() {
	c.create("b")
	c.create("a")
	other := c.lease("c")
	other.Labels["set"] = "b"
	if _, err := c.leases.Create(c.ctx, other, metav1.CreateOptions{}); err != nil {
		c.t.Fatalf("creating c: %v", err)
	}
	list, err := c.leases.List(c.ctx, metav1.ListOptions{LabelSelector: "set=a"})
	if err != nil || len(list.Items) != 2 || list.Items[0].Name != "a" || list.Items[1].Name != "b" {
		c.t.Errorf("list = %v, %v, want a and b", list, err)
	}
}

// follow watches from the present list on.
func (c *contract) follow(ctx context.Context) watch.Interface {
	c.t.Helper()
	list, err := c.leases.List(ctx, metav1.ListOptions{LabelSelector: "set=a"})
	if err != nil {
		c.t.Fatalf("listing: %v", err)
	}
	w, err := c.leases.Watch(ctx, metav1.ListOptions{LabelSelector: "set=a", ResourceVersion: list.ResourceVersion})
	if err != nil {
		c.t.Fatalf("watching: %v", err)
	}
	return w
}

func (c *contract) wantEventOfA(w watch.Interface, kind watch.EventType, version string) string {
	c.t.Helper()
	select {
	case e, ok := <-w.ResultChan():
		lease, is := e.Object.(*coordinationv1.Lease)
		if !ok || !is || e.Type != kind || lease.Name != "a" {
			c.t.Fatalf("event = %+v, want %s of a", e, kind)
		}
		if version != "" && lease.ResourceVersion != version {
			c.t.Errorf("%s of a is of version %s, want %s", kind, lease.ResourceVersion, version)
		}
		return lease.ResourceVersion
	case <-c.ctx.Done():
		c.t.Fatalf("no event, want %s of a", kind)
		return ""
	}
}

func (c *contract) watchFollows() {
	c.create("before")
	w := c.follow(c.ctx)
	defer w.Stop()
	a := c.create("a")
	b := a.DeepCopy()
	b.Spec.HolderIdentity = ptr.To("y")
	b = c.update(b)
	c.removeA()
	c.wantEventOfA(w, watch.Added, a.ResourceVersion)
	c.wantEventOfA(w, watch.Modified, b.ResourceVersion)
	deleted := c.wantEventOfA(w, watch.Deleted, "")
	c.wantNewer("the deletion", deleted, b.ResourceVersion)
}

func (c *contract) watchSelects() {
	a := c.create("a")
	w := c.follow(c.ctx)
	defer w.Stop()
	a.Labels["set"] = "b"
	a = c.update(a)
	c.wantEventOfA(w, watch.Deleted, a.ResourceVersion)
	a.Labels["set"] = "a"
	a = c.update(a)
	c.wantEventOfA(w, watch.Added, a.ResourceVersion)
}

func (c *contract) watchEnds() {
	ctx, cancel := context.WithCancel(c.ctx)
	w := c.follow(ctx)
	cancel()
	for {
		select {
		case _, ok := <-w.ResultChan():
			if !ok {
				return
			}
		case <-c.ctx.Done():
			c.t.Fatal("the watch goes on after its context")
		}
	}
}

func (c *contract) contextEnds() {
	ctx, cancel := context.WithCancel(c.ctx)
	cancel()
	if _, err := c.leases.Create(ctx, c.lease("a"), metav1.CreateOptions{}); err == nil {
		c.t.Error("created with an ended context")
	}
	_, err := c.leases.Get(c.ctx, "a", metav1.GetOptions{})
	c.want("reading what was not created", apierrors.IsNotFound, err)
}
