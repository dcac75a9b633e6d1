package claim

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// EmptyReason says why another process's Lease may be emptied.
type EmptyReason string

// Undrained is what VacatedAnnotation says of a Lease that its own holder has emptied although calls
// may still be on their way: its claim was over before, so that nothing was drained under it, or it
// had only just taken the Lease from another who did not release it.
const Undrained EmptyReason = "Undrained"

// Why a Lease may be emptied by a process that does not hold it.
const (
	EmptyExpired   EmptyReason = "Expired"   // unchanged for a Lease duration, by own observation
	EmptyConfirmed EmptyReason = "Confirmed" // the holder is dead beyond doubt
	EmptyOwnPod    EmptyReason = "OwnPod"    // the holder is an older process of the own Pod
)

// Empty removes the holder of a Lease, provided that the Lease still has the resourceVersion of the
// one given: then no renewal has come in between, and what was judged still holds. A conflict comes
// back as such (apierrors.IsConflict).
//
// A contending Claim does this by itself; it is exported for those who clean up after a dead holder
// without taking its shard. Of the options it needs Client, Settings and Timings.
func Empty(
	ctx context.Context, o Options, lease *coordinationv1.Lease, why EmptyReason,
) (*coordinationv1.Lease, error) {
	if err := checkSettings(lease, o.Settings); err != nil {
		return nil, err
	}
	answer, err := vacate(ctx, o, lease, string(why))
	if err != nil {
		return nil, fmt.Errorf("emptying Lease %s of %s (%s): %w", lease.Name, HolderOf(lease), why, err)
	}
	return answer, nil
}

// vacate writes a Lease without a holder over the given version of it. The transitions stay: the
// next elector counts on.
func vacate(
	ctx context.Context, o Options, lease *coordinationv1.Lease, how string,
) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timings.ClientTimeout())
	defer cancel()
	lease = lease.DeepCopy()
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[VacatedAnnotation] = how
	lease.Spec.HolderIdentity = ptr.To("")
	lease.Spec.AcquireTime, lease.Spec.RenewTime = nil, nil
	return o.Client.Leases(lease.Namespace).Update(ctx, lease, metav1.UpdateOptions{})
}

// takeOver empties the Lease as it was judged, not as it may be known by now. Where that fails it
// looks again; where even that fails, it starts timing anew.
func (c *Claim) takeOver(ctx context.Context, m move) {
	answer, err := Empty(ctx, c.o, m.lease, m.why)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.see(answer, answer.ResourceVersion)
		return
	}
	if !apierrors.IsConflict(err) {
		c.mu.Lock()
		c.lastErr = err
		c.mu.Unlock()
		c.pause(ctx, c.o.Timings.RetryPeriod/4)
	}
	if !c.poll(ctx) {
		c.pause(ctx, c.o.Timings.RetryPeriod)
	}
}
