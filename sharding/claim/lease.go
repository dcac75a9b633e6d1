package claim

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"example.com/redis-operator/sharding/placement"
)

// Labels and annotations of a shard Lease.
const (
	// InstallationLabel has the installation's name as value; Leases are listed and watched by it.
	InstallationLabel = "sharding.example.com/installation"
	// ShardLabel has the decimal shard number as value.
	ShardLabel = "sharding.example.com/shard-lease"
	// ShardsAnnotation and HashAnnotation record the settings under which a Lease is used.
	ShardsAnnotation = "sharding.example.com/shards"
	HashAnnotation   = "sharding.example.com/hash"
	// VacatedAnnotation is on a Lease whose holder was removed, and says how: "Released", which is said
	// after a drain only, or the EmptyReason. Only such a Lease may be taken at once.
	VacatedAnnotation = "sharding.example.com/vacated"
)

var (
	// ErrHeld is answered to a write on a Lease that another process holds.
	ErrHeld = errors.New("the Lease is held by another process")
	// ErrUnsettled is answered to the acquisition of a Lease that is missing, or that was created so
	// recently that another process may still rely on one that was deleted.
	ErrUnsettled = errors.New("another process may still rely on a deleted Lease")
)

// SettingsError says that a Lease was used under other settings than this process's.
type SettingsError struct {
	Lease        string
	Ours, Theirs placement.Settings
}

func (e *SettingsError) Error() string {
	return fmt.Sprintf("Lease %s records %d shards by hash %q, this process is set to %d shards by hash %q",
		e.Lease, e.Theirs.Shards, e.Theirs.Hash, e.Ours.Shards, e.Ours.Hash)
}

// LeaseName is the name of a shard's Lease.
func LeaseName(installation string, shard placement.Shard) string {
	return LeasePrefix(installation) + strconv.Itoa(int(shard))
}

// LeasePrefix is what stands before the number in the name of a shard's Lease.
func LeasePrefix(installation string) string { return installation + "-shard-" }

// ShardOfLease reads the shard off a Lease's label. False if it is not a shard Lease.
func ShardOfLease(lease *coordinationv1.Lease) (placement.Shard, bool) {
	n, err := strconv.Atoi(lease.Labels[ShardLabel])
	return placement.Shard(n), err == nil && n >= 0
}

// HolderOf is the identity that a Lease names as its holder; empty if it is free.
func HolderOf(lease *coordinationv1.Lease) placement.Identity {
	if lease == nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return placement.Identity(*lease.Spec.HolderIdentity)
}

// SettingsOf reads the settings recorded in a Lease. Zero fields were not recorded; an unreadable
// number of shards comes back as -1, which agrees with nothing.
func SettingsOf(lease *coordinationv1.Lease) placement.Settings {
	s := placement.Settings{Hash: lease.Annotations[HashAnnotation]}
	if v, ok := lease.Annotations[ShardsAnnotation]; ok {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			n = -1
		}
		s.Shards = n
	}
	return s
}

// checkSettings compares what a Lease records with ours. What is not recorded agrees.
func checkSettings(lease *coordinationv1.Lease, ours placement.Settings) error {
	theirs := SettingsOf(lease)
	if (theirs.Shards == 0 || theirs.Shards == ours.Shards) && (theirs.Hash == "" || theirs.Hash == ours.Hash) {
		return nil
	}
	return &SettingsError{Lease: lease.Namespace + "/" + lease.Name, Ours: ours, Theirs: theirs}
}

// Unwrap gives the placement's own SettingsError, which carries the same two values.
func (e *SettingsError) Unwrap() error {
	return &placement.SettingsError{Ours: e.Ours, Theirs: e.Theirs}
}

// isClean says whether nothing of an earlier holder can still be on its way, since it released the Lease.
func isClean(lease *coordinationv1.Lease) bool {
	return lease != nil && lease.Annotations[VacatedAnnotation] == string(Released)
}

// isUnsettled says whether a Lease is without a holder and does not say how that came: it was created,
// maybe in the place of one that was deleted, or somebody edited it. Whoever held the Lease before may
// rely on that until a Lease duration has passed in which this one stays as it is.
func isUnsettled(lease *coordinationv1.Lease) bool {
	return lease != nil && HolderOf(lease) == "" && lease.Annotations[VacatedAnnotation] == ""
}

// stamp sets labels and annotations of a Lease with a holder, in place.
func stamp(lease *coordinationv1.Lease, o Options, shard placement.Shard) {
	if lease.Labels == nil {
		lease.Labels = map[string]string{}
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Labels[InstallationLabel] = o.Installation
	lease.Labels[ShardLabel] = strconv.Itoa(int(shard))
	lease.Annotations[ShardsAnnotation] = strconv.Itoa(o.Settings.Shards)
	lease.Annotations[HashAnnotation] = o.Settings.Hash
	delete(lease.Annotations, VacatedAnnotation)
}

// buildEmpty is a shard's Lease without a holder, which may be acquired after the given time: the longest
// that anybody may rely on one that was deleted. At least o's LeaseDuration.
func buildEmpty(o Options, shard placement.Shard, settles time.Duration) *coordinationv1.Lease {
	settles = max(settles, o.Timings.LeaseDuration)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: LeaseName(o.Installation, shard), Namespace: o.Namespace},
		Spec:       coordinationv1.LeaseSpec{LeaseDurationSeconds: ptr.To(int32(settles / time.Second))},
	}
	stamp(lease, o, shard)
	return lease
}

// isOwnPod says whether other is an older process of self's Pod. The kubelet never runs two, and self
// is running. An identity without a Pod UID equals no other.
func isOwnPod(self, other placement.Identity) bool {
	return self != other && self.Member() == other.Member() &&
		self.PodUID() != "" && self.PodUID() == other.PodUID()
}
