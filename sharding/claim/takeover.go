package claim

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// EmptyReason says why another process's Lease may be emptied.
type EmptyReason string

// Why a Lease may be emptied by a process that does not hold it.
const (
	EmptyExpired   EmptyReason = "Expired"   // unchanged for a Lease duration, by own observation
	EmptyConfirmed EmptyReason = "Confirmed" // the holder is dead beyond doubt
	EmptyOwnPod    EmptyReason = "OwnPod"    // the holder is an older process of the own Pod
)

// Empty removes the holder of a Lease, provided that the Lease still has the given resourceVersion.
// A conflict comes back as such (apierrors.IsConflict): the Lease has changed since it was judged.
//
// A contending Claim does this by itself; it is exported for those who clean up after a dead holder
// without taking its shard.
func Empty(ctx context.Context, o Options, lease *coordinationv1.Lease, why EmptyReason) (*coordinationv1.Lease, error) {
	return nil, nil
}
