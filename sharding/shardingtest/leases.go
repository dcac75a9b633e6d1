package shardingtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	coordinationac "k8s.io/client-go/applyconfigurations/coordination/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

var leaseResource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// Leases is the Leases API of one API server, in memory: resourceVersions that only grow, conflicts,
// watches, and faults on request. Patch, Apply and DeleteCollection answer MethodNotSupported.
//
// It never blocks except where a fault says so. Safe for concurrent use.
type Leases struct {
	mu       sync.Mutex // guards everything below
	version  int
	oldest   int // watches from before it are answered 410
	objects  map[types.NamespacedName]*coordinationv1.Lease
	history  []record
	watchers map[*watcher]struct{}
	muted    bool
	fault    func(context.Context, Call) Fault
	calls    map[string]int
}

var _ coordinationv1client.LeasesGetter = &Leases{}

// record is one event of the past.
type record struct {
	version int
	event   watch.EventType
	lease   *coordinationv1.Lease
	before  map[string]string // the labels that it had; nil if it was not there
}

// Call is one request as a fault function sees it.
type Call struct {
	// Verb is get, list, watch, create, update or delete.
	Verb, Namespace, Name string
	// Lease is what is written; nil for the other verbs.
	Lease *coordinationv1.Lease
}

// Fault is what goes wrong with one request. The zero value is nothing.
type Fault struct {
	// Err is answered, and the request is not carried out.
	Err error
	// Lost is answered after the request has been carried out: its answer was lost on the way.
	Lost error
	// Before and After block the request before and after it is carried out; they may return early
	// when ctx ends, whose error is then answered.
	Before, After func(ctx context.Context)
}

// NewLeases returns an API without Leases.
func NewLeases() *Leases {
	return &Leases{
		objects:  map[types.NamespacedName]*coordinationv1.Lease{},
		watchers: map[*watcher]struct{}{},
		calls:    map[string]int{},
		version:  1,
	}
}

// SetFault has f asked about each request from now on; nil ends the faults. F must not call the API.
func (l *Leases) SetFault(f func(context.Context, Call) Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = f
}

// Calls is how many requests of a verb came in, faulty ones included.
func (l *Leases) Calls(verb string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[verb]
}

// Compact forgets the past, ends all watches with an expired error, and answers 410 to watches from
// before now.
func (l *Leases) Compact() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.history, l.oldest = nil, l.version
	for w := range l.watchers {
		status := apierrors.NewResourceExpired("too old resource version").Status()
		w.push(watch.Event{Type: watch.Error, Object: &status})
		w.close()
	}
	clear(l.watchers)
}

// Mute keeps watches from showing anything, without ending them, until it is called with false: what
// happened meanwhile is never shown by watches that were open, as on a connection gone silent.
func (l *Leases) Mute(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.muted = on
}

// CutWatches ends all watches as a lost connection does.
func (l *Leases) CutWatches() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.watchers {
		w.close()
	}
	clear(l.watchers)
}

// Leases is the API of one namespace.
func (l *Leases) Leases(namespace string) coordinationv1client.LeaseInterface {
	return &namespaced{l: l, namespace: namespace}
}

// do carries out one request with its fault.
func (l *Leases) do(ctx context.Context, call Call, carryOut func() error) error {
	l.mu.Lock()
	l.calls[call.Verb]++
	f := l.fault
	l.mu.Unlock()
	var fault Fault
	if f != nil {
		fault = f(ctx, call)
	}
	if fault.Before != nil {
		fault.Before(ctx)
	}
	if fault.Err != nil {
		return fault.Err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	l.mu.Lock()
	err := carryOut()
	l.mu.Unlock()
	if fault.After != nil {
		fault.After(ctx)
	}
	switch {
	case fault.Lost != nil:
		return fault.Lost
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return err
}

// store keeps a new state and tells the watchers. It needs mu.
func (l *Leases) store(event watch.EventType, lease *coordinationv1.Lease) *coordinationv1.Lease {
	l.version++
	lease.ResourceVersion = strconv.Itoa(l.version)
	key := types.NamespacedName{Namespace: lease.Namespace, Name: lease.Name}
	r := record{version: l.version, event: event, lease: lease.DeepCopy()}
	if old := l.objects[key]; old != nil {
		r.before = labels.Merge(old.Labels, nil)
	}
	if event == watch.Deleted {
		delete(l.objects, key)
	} else {
		l.objects[key] = lease
	}
	l.history = append(l.history, r)
	for w := range l.watchers {
		if !l.muted && !w.show(r) {
			delete(l.watchers, w)
		}
	}
	return lease.DeepCopy()
}

// namespaced is the API of one namespace.
type namespaced struct {
	l         *Leases
	namespace string
}

func (n *namespaced) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: n.namespace, Name: name}
}

// Get reads one Lease.
func (n *namespaced) Get(ctx context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	var out *coordinationv1.Lease
	err := n.l.do(ctx, Call{Verb: "get", Namespace: n.namespace, Name: name}, func() error {
		lease, ok := n.l.objects[n.key(name)]
		if !ok {
			return apierrors.NewNotFound(leaseResource, name)
		}
		out = lease.DeepCopy()
		return nil
	})
	return out, err
}

// List reads the Leases that the label selector selects.
func (n *namespaced) List(ctx context.Context, opts metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	selector, err := labels.Parse(opts.LabelSelector)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	out := &coordinationv1.LeaseList{}
	err = n.l.do(ctx, Call{Verb: "list", Namespace: n.namespace}, func() error {
		out.ResourceVersion = strconv.Itoa(n.l.version)
		for _, name := range slices.SortedFunc(maps.Keys(n.l.objects), func(a, b types.NamespacedName) int {
			return cmp.Compare(a.String(), b.String())
		}) {
			lease := n.l.objects[name]
			if name.Namespace == n.namespace && selector.Matches(labels.Set(lease.Labels)) {
				out.Items = append(out.Items, *lease.DeepCopy())
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Create writes a Lease that is not there.
func (n *namespaced) Create(
	ctx context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions,
) (*coordinationv1.Lease, error) {
	if err := validate(lease); err != nil {
		return nil, err
	}
	var out *coordinationv1.Lease
	err := n.l.do(ctx, n.write("create", lease), func() error {
		if _, ok := n.l.objects[n.key(lease.Name)]; ok {
			return apierrors.NewAlreadyExists(leaseResource, lease.Name)
		}
		if lease.ResourceVersion != "" {
			return apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
		}
		created := lease.DeepCopy()
		created.Namespace = n.namespace
		created.UID = types.UID("uid-" + strconv.Itoa(n.l.version+1))
		created.CreationTimestamp = metav1.Now()
		out = n.l.store(watch.Added, created)
		return nil
	})
	return answer(out, err)
}

// Update writes over a Lease, whose resourceVersion has to be the given one, if one is given. As the
// API server does, it answers a conflict where a Lease with a UID is not there any more.
func (n *namespaced) Update(
	ctx context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions,
) (*coordinationv1.Lease, error) {
	if err := validate(lease); err != nil {
		return nil, err
	}
	var out *coordinationv1.Lease
	err := n.l.do(ctx, n.write("update", lease), func() error {
		old, ok := n.l.objects[n.key(lease.Name)]
		if !ok && lease.UID != "" {
			return apierrors.NewConflict(leaseResource, lease.Name, errors.New("the UID precondition does not hold"))
		}
		if !ok {
			return apierrors.NewNotFound(leaseResource, lease.Name)
		}
		if (lease.ResourceVersion != "" && lease.ResourceVersion != old.ResourceVersion) ||
			(lease.UID != "" && lease.UID != old.UID) {
			return apierrors.NewConflict(leaseResource, lease.Name, errors.New("the object has been modified"))
		}
		updated := lease.DeepCopy()
		updated.Namespace, updated.UID, updated.CreationTimestamp = n.namespace, old.UID, old.CreationTimestamp
		out = n.l.store(watch.Modified, updated)
		return nil
	})
	return answer(out, err)
}

// Delete removes a Lease; the preconditions count.
func (n *namespaced) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	return n.l.do(ctx, Call{Verb: "delete", Namespace: n.namespace, Name: name}, func() error {
		old, ok := n.l.objects[n.key(name)]
		if !ok {
			return apierrors.NewNotFound(leaseResource, name)
		}
		if p := opts.Preconditions; p != nil &&
			((p.ResourceVersion != nil && *p.ResourceVersion != old.ResourceVersion) || (p.UID != nil && *p.UID != old.UID)) {
			return apierrors.NewConflict(leaseResource, name, errors.New("the precondition does not hold"))
		}
		n.l.store(watch.Deleted, old.DeepCopy())
		return nil
	})
}

// Watch shows what happens after the given resourceVersion, which has to be given; 410 if that is
// forgotten. It sends no bookmarks and never times out.
func (n *namespaced) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	selector, err := labels.Parse(opts.LabelSelector)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	var out *watcher
	err = n.l.do(ctx, Call{Verb: "watch", Namespace: n.namespace}, func() error {
		from, err := strconv.Atoi(opts.ResourceVersion)
		if err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
		if from < n.l.oldest {
			return apierrors.NewResourceExpired("too old resource version")
		}
		out = newWatcher(ctx, n.namespace, selector)
		for _, r := range n.l.history {
			if r.version > from {
				out.show(r)
			}
		}
		n.l.watchers[out] = struct{}{}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Patch is not there.
func (n *namespaced) Patch(
	context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string,
) (*coordinationv1.Lease, error) {
	return nil, apierrors.NewMethodNotSupported(leaseResource, "patch")
}

// Apply is not there.
func (n *namespaced) Apply(
	context.Context, *coordinationac.LeaseApplyConfiguration, metav1.ApplyOptions,
) (*coordinationv1.Lease, error) {
	return nil, apierrors.NewMethodNotSupported(leaseResource, "apply")
}

// DeleteCollection is not there.
func (n *namespaced) DeleteCollection(context.Context, metav1.DeleteOptions, metav1.ListOptions) error {
	return apierrors.NewMethodNotSupported(leaseResource, "deletecollection")
}

func (n *namespaced) write(verb string, lease *coordinationv1.Lease) Call {
	return Call{Verb: verb, Namespace: n.namespace, Name: lease.Name, Lease: lease.DeepCopy()}
}

// validate refuses what the API server refuses of what the claims write.
func validate(lease *coordinationv1.Lease) error {
	if s := lease.Spec.LeaseDurationSeconds; s != nil && *s <= 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: "coordination.k8s.io", Kind: "Lease"}, lease.Name, nil)
	}
	if t := lease.Spec.LeaseTransitions; t != nil && *t < 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: "coordination.k8s.io", Kind: "Lease"}, lease.Name, nil)
	}
	if lease.Name == "" {
		return apierrors.NewBadRequest(fmt.Sprintf("Lease without a name: %v", lease))
	}
	return nil
}

func answer(lease *coordinationv1.Lease, err error) (*coordinationv1.Lease, error) {
	if err != nil {
		return nil, err
	}
	return lease, nil
}
