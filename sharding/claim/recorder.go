package claim

import (
	"context"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// recorder is the LeasesGetter that the elector is given. It records the send time and the version of
// each successful write, tells the claim what reads have shown, refuses to acquire a Lease that another
// may rely on, and stamps labels and annotations. Of the interface only Get, Create and Update are
// ever called by the elector; the others would panic.
type recorder struct {
	coordinationv1client.LeaseInterface
	c *Claim
	// trust answers the first Get with what was last seen, which the watch has just shown: a request less
	// in every handover. It is harmless where that is old, since a write goes by its version. trusted says
	// that the next write rests on it.
	trust, trusted bool
}

// Leases gives the recorder itself: the elector knows one Lease in one namespace.
func (r *recorder) Leases(string) coordinationv1client.LeaseInterface { return r }

// Get reads the Lease, or answers what was last seen of it. It answers a *SettingsError for a Lease of
// other settings.
func (r *recorder) Get(ctx context.Context, _ string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	if r.trust {
		r.trust, r.trusted = false, true
		if lease := r.c.lastSeen(); lease != nil {
			return lease, r.c.refusal()
		}
	}
	r.trusted = false
	lease, err := r.c.read(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.c.refusal(); err != nil {
		return nil, err
	}
	return lease.DeepCopy(), nil
}

// Create refuses: a creation has no precondition, and one with a holder could come after another has
// taken the Lease and it was deleted again. The claim creates a missing Lease without a holder.
func (r *recorder) Create(
	context.Context, *coordinationv1.Lease, metav1.CreateOptions,
) (*coordinationv1.Lease, error) {
	return nil, fmt.Errorf("creating Lease %s: %w", r.c.name, ErrUnsettled)
}

// Update acquires or renews. It goes by the resourceVersion of the Lease that was read or written last.
func (r *recorder) Update(
	ctx context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions,
) (*coordinationv1.Lease, error) {
	if err := r.c.mayUpdate(); err != nil {
		return nil, err
	}
	answer, err := r.c.write(ctx, lease)
	if r.trusted && apierrors.IsConflict(err) {
		r.c.distrust()
	}
	r.trusted = false
	return answer, err
}

// lastSeen is the Lease as it was last seen, nil if it was not, or missing.
func (c *Claim) lastSeen() *coordinationv1.Lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen.lease.DeepCopy()
}

// distrust ends an elector that has written over an old version, and has the next one read first: this one
// would wait for its turn.
func (c *Claim) distrust() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outdated = true
	if c.elector != nil {
		c.elector()
	}
}

func (c *Claim) leases() coordinationv1client.LeaseInterface {
	return c.o.Client.Leases(c.o.Namespace)
}

func (c *Claim) refusal() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}

// mayUpdate keeps the elector from taking a Lease over by itself: another's Lease is emptied first, and
// one that was created is waited for.
func (c *Claim) mayUpdate() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch holder := HolderOf(c.seen.lease); {
	case c.refused != nil:
		return c.refused
	case c.isAcquirable():
		return nil
	case holder != "":
		return fmt.Errorf("acquiring Lease %s of %s: %w", c.name, holder, ErrHeld)
	}
	return fmt.Errorf("acquiring Lease %s: %w", c.name, ErrUnsettled)
}

// create creates a missing Lease without a holder. Nothing is acquired by it: who may have held the Lease
// before is inside its deadline or has a Lease duration to end, counted from when the new one was seen. So
// it does no harm if what this process knows is old and the Lease was there and deleted again meanwhile.
func (c *Claim) create(ctx context.Context) {
	c.mu.Lock()
	lease := buildEmpty(c.o, c.shard, c.seen.duration)
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, c.o.Timings.ClientTimeout())
	defer cancel()
	answer, err := c.leases().Create(ctx, lease, metav1.CreateOptions{})
	c.mu.Lock()
	switch {
	case err == nil:
		c.see(answer, answer.ResourceVersion)
	case apierrors.IsAlreadyExists(err):
		c.seen.known = false // it may be older than the list that did not hold it, for want of its label
	default:
		c.lastErr = err
	}
	c.mu.Unlock()
	if err != nil && !apierrors.IsAlreadyExists(err) {
		c.pause(ctx, c.o.Timings.RetryPeriod/4)
	}
}

// write stamps the Lease, sends it, and records the outcome.
func (c *Claim) write(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	lease = lease.DeepCopy()
	stamp(lease, c.o, c.shard)
	ctx, cancel := context.WithTimeout(ctx, c.o.Timings.ClientTimeout())
	defer cancel()
	w := c.beginWrite()
	answer, err := c.leases().Update(ctx, lease, metav1.UpdateOptions{})
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.o.Now()
	if err != nil {
		c.lastErr = err
		if isUnsure(err) {
			c.unsure, c.tried = true, w.found
		}
		return nil, err
	}
	c.lastErr, c.unsure, c.own = nil, false, answer.DeepCopy()
	c.echo.wrote(answer.ResourceVersion, now)
	c.take(answer, answer.ResourceVersion, now)
	if HolderOf(c.seen.lease) != c.o.Identity && c.tenure.phase == unheld {
		// The watch was faster than the answer, and shows that the Lease has gone on to another.
		return answer, nil
	}
	w.version = answer.ResourceVersion
	c.advance(c.tenure.wrote(w, now))
	return answer, nil
}

// beginWrite notes when a write is sent, and in which state it finds the Lease.
func (c *Claim) beginWrite() write {
	c.mu.Lock()
	defer c.mu.Unlock()
	own := HolderOf(c.seen.lease) == c.o.Identity
	if own && c.unsure && c.tenure.phase == unheld {
		// An earlier write has acquired it, and its answer was lost.
		return write{sent: c.o.Now(), found: c.tried}
	}
	w := write{sent: c.o.Now(), found: found{
		unclean: !own && !isClean(c.seen.lease),
		again:   own && (c.ownedBySelf || c.tenure.phase != unheld),
	}}
	if c.seen.lease != nil {
		w.vacated = EmptyReason(c.seen.lease.Annotations[VacatedAnnotation])
	}
	return w
}

// isUnsure says whether a write that failed so may have been carried out all the same.
func isUnsure(err error) bool {
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err),
		apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsUnauthorized(err):
		return false
	}
	return true
}

// read reads the Lease and takes in what it shows.
func (c *Claim) read(ctx context.Context) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timings.ClientTimeout())
	defer cancel()
	lease, err := c.leases().Get(ctx, c.name, metav1.GetOptions{})
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.see(lease, lease.ResourceVersion)
	case apierrors.IsNotFound(err):
		c.see(nil, "")
	case !errors.Is(err, context.Canceled):
		c.lastErr = err
	}
	return lease, err
}
