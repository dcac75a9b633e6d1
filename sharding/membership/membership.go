package membership

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"

	"example.com/redis-operator/sharding/placement"
)

const (
	// PresenceLabel is on every presence Lease, with the installation's name as value.
	PresenceLabel = "sharding.example.com/presence"
	// PlacementAnnotation has the version of P that the process has seen.
	PlacementAnnotation = "sharding.example.com/placement"
	// WarmedAnnotation has the shards for which it is warm at that version, separated by commas.
	WarmedAnnotation = "sharding.example.com/warmed"
	// CostsAnnotation has what the shards cost that the process holds: shard=objects/milliseconds,
	// separated by commas. It is missing where there is nothing to tell.
	CostsAnnotation = "sharding.example.com/costs"
)

// Presence is what one process publishes in its presence Lease.
type Presence struct {
	Identity  placement.Identity
	Version   string // resourceVersion of the Lease; empty: it is gone
	Placement string // version of P that the process has seen
	Warmed    []placement.Shard
	Costs     map[placement.Shard]placement.Cost // of the shards that it holds
}

// Options configure a Membership. All fields are required.
type Options struct {
	// Client reaches the Leases. It needs a timeout of its own (claim.RESTConfig), so that a hung
	// renewal leaves time for another.
	Client coordinationv1client.LeasesGetter
	// Namespace holds the presence Leases: the operator's own.
	Namespace    string
	Installation string
	// LeaseDuration is recorded in the Lease; RetryPeriod is the pause between two renewals.
	LeaseDuration, RetryPeriod time.Duration
	// OnPresence is told what the watch shows of every process, this one included, one call after
	// another. OnRenewed is told the version of each own write. Both must be fast.
	OnPresence func(Presence)
	OnRenewed  func(version string)
}

// Membership keeps the presence Lease of one process and watches all of them.
type Membership struct {
	o      Options
	urgent chan struct{}
	relist chan struct{}

	writing sync.Mutex // serialises own writes; held across the request it serialises, guards lease
	lease   *coordinationv1.Lease

	mu      sync.Mutex // guards content
	content Presence
}

// New returns a membership that has not joined yet.
func New(o Options) *Membership {
	return &Membership{o: o, urgent: make(chan struct{}, 1), relist: make(chan struct{}, 1)}
}

// LeaseName is the name of a process's presence Lease.
func LeaseName(identity placement.Identity) string {
	return strings.ReplaceAll(string(identity), "_", ".")
}

// Join publishes a presence Lease under an identity, which is renewed from then on. The identity
// must be in the termination log already.
func (m *Membership) Join(ctx context.Context, identity placement.Identity) error {
	m.mu.Lock()
	m.content = Presence{Identity: identity}
	m.mu.Unlock()
	return m.renew(ctx)
}

// Publish sets what the presence Lease says. With urgent it is written at once, otherwise with the
// next renewal.
func (m *Membership) Publish(
	version string, warmed []placement.Shard, costs map[placement.Shard]placement.Cost, urgent bool,
) {
	m.mu.Lock()
	m.content.Placement, m.content.Warmed, m.content.Costs = version, slices.Clone(warmed), maps.Clone(costs)
	m.mu.Unlock()
	if urgent {
		signal(m.urgent)
	}
}

// Leave stops renewing and deletes the own presence Lease, after a renewal that is on its way: that
// might create it again.
func (m *Membership) Leave(ctx context.Context) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	m.mu.Lock()
	identity := m.content.Identity
	m.content = Presence{}
	m.mu.Unlock()
	if identity == "" {
		return nil
	}
	return m.Remove(ctx, identity)
}

// Remove deletes the presence Lease of a process that has ended or taken a new identity.
func (m *Membership) Remove(ctx context.Context, identity placement.Identity) error {
	err := m.o.Client.Leases(m.o.Namespace).Delete(ctx, LeaseName(identity), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the presence Lease of %s: %w", identity, err)
	}
	return nil
}

// Read returns the version of a process's presence Lease past the watch, empty if there is none.
func (m *Membership) Read(ctx context.Context, identity placement.Identity) (string, error) {
	lease, err := m.o.Client.Leases(m.o.Namespace).Get(ctx, LeaseName(identity), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("reading the presence Lease of %s: %w", identity, err)
	}
	return lease.ResourceVersion, nil
}

// Relist makes the watch start over.
func (m *Membership) Relist() { signal(m.relist) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run renews the presence Lease and watches those of all processes until ctx ends.
func (m *Membership) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { m.watchAll(ctx) })
	running.Go(func() { m.renewAll(ctx) })
	running.Wait()
}

// renewAll renews every RetryPeriod. A renewal that fails is not reported: its absence is what
// others see, and the observer's own timing depends on it too.
func (m *Membership) renewAll(ctx context.Context) {
	ticker := time.NewTicker(m.o.RetryPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-m.urgent:
		}
		if err := m.renew(ctx); err != nil && ctx.Err() == nil {
			// A write that something waits for is tried again soon.
			if wait(ctx, m.o.RetryPeriod/4) {
				signal(m.urgent)
			}
		}
	}
}

// renew writes the Lease as last written with the present content; it creates it where it is
// missing, and looks again where somebody else has written it.
func (m *Membership) renew(ctx context.Context) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	m.mu.Lock()
	content := m.content
	m.mu.Unlock()
	if content.Identity == "" {
		return nil
	}
	leases := m.o.Client.Leases(m.o.Namespace)
	next := m.build(content)
	if m.lease == nil || m.lease.Name != next.Name {
		return m.create(ctx, next)
	}
	next.ResourceVersion = m.lease.ResourceVersion
	written, err := leases.Update(ctx, next, metav1.UpdateOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return m.create(ctx, next)
	case apierrors.IsConflict(err):
		m.lease, err = leases.Get(ctx, next.Name, metav1.GetOptions{})
		return errors.Join(fmt.Errorf("renewing the presence Lease: changed by another"), err)
	case err != nil:
		return fmt.Errorf("renewing the presence Lease: %w", err)
	}
	m.written(written)
	return nil
}

// create needs writing. A Lease of this name can only be an own one: an answer was lost.
func (m *Membership) create(ctx context.Context, lease *coordinationv1.Lease) error {
	leases := m.o.Client.Leases(m.o.Namespace)
	lease.ResourceVersion = ""
	written, err := leases.Create(ctx, lease, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		written, err = leases.Get(ctx, lease.Name, metav1.GetOptions{})
	}
	if err != nil {
		return fmt.Errorf("creating the presence Lease: %w", err)
	}
	m.written(written)
	return nil
}

func (m *Membership) written(lease *coordinationv1.Lease) {
	m.lease = lease
	m.o.OnRenewed(lease.ResourceVersion)
}

func (m *Membership) build(content Presence) *coordinationv1.Lease {
	warmed := make([]string, len(content.Warmed))
	for i, shard := range content.Warmed {
		warmed[i] = strconv.Itoa(int(shard))
	}
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name:      LeaseName(content.Identity),
			Namespace: m.o.Namespace,
			Labels:    map[string]string{PresenceLabel: m.o.Installation},
			Annotations: map[string]string{
				PlacementAnnotation: content.Placement,
				WarmedAnnotation:    strings.Join(warmed, ","),
			},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       ptr.To(string(content.Identity)),
			LeaseDurationSeconds: ptr.To(int32(m.o.LeaseDuration / time.Second)), //nolint:gosec // G115: seconds
			RenewTime:            ptr.To(metav1.NowMicro()),
		},
	}
	if len(content.Costs) > 0 {
		lease.Annotations[CostsAnnotation] = formatCosts(content.Costs)
	}
	return lease
}

// read is the reverse of build. Shards that cannot be read are left out: the loser waits for them.
func read(lease *coordinationv1.Lease) Presence {
	presence := Presence{
		Identity:  placement.Identity(ptr.Deref(lease.Spec.HolderIdentity, "")),
		Version:   lease.ResourceVersion,
		Placement: lease.Annotations[PlacementAnnotation],
	}
	for field := range strings.SplitSeq(lease.Annotations[WarmedAnnotation], ",") {
		if number, err := strconv.Atoi(field); err == nil {
			presence.Warmed = append(presence.Warmed, placement.Shard(number))
		}
	}
	presence.Costs = parseCosts(lease.Annotations[CostsAnnotation])
	return presence
}

// wait waits, and answers false if ctx ends first.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
