package claim

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	waiting "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"example.com/redis-operator/sharding/placement"
)

const (
	// watchTimeout is after how long the server ends a watch by itself, in seconds.
	watchTimeout = 300
	// shortWatch is a watch that ended at once: something refuses it, so the next waits.
	shortWatch = time.Second
)

func (o Options) selector() string {
	return labels.Set{InstallationLabel: o.Installation}.String()
}

// Run watches the shard Leases and feeds the claims until ctx ends. It lists again after each break,
// and when the process's own renewals do not come back on the watch for RenewDeadline. It returns nil.
func (s *Set) Run(ctx context.Context) error {
	var broken time.Time // since when nothing is known; zero before the first list
	backoff := s.o.watchBackoff()
	for ctx.Err() == nil {
		version, err := s.list(ctx, broken)
		if err != nil {
			if broken.IsZero() {
				broken = s.o.Now()
			}
			wait(ctx, s.o.Timings.RetryPeriod/4)
			continue
		}
		began := s.o.Now()
		broken = s.watch(ctx, version)
		if s.o.Now().Sub(began) >= shortWatch {
			backoff = s.o.watchBackoff()
		} else {
			wait(ctx, backoff.Step())
		}
	}
	return nil
}

// watchBackoff is the pauses between watches that end at once: as reflectors make them, but always
// shorter than a retry period, so that the lists between them still time every Lease without a break.
func (o Options) watchBackoff() waiting.Backoff {
	longest := o.Timings.RetryPeriod * 3 / 4
	return waiting.Backoff{Duration: min(800*time.Millisecond, longest), Factor: 1.5, Jitter: 0.2, Steps: 10, Cap: longest}
}

// list shows the claims all Leases as they are now. If nothing was known of them for longer than a
// retry period, their observation starts anew.
func (s *Set) list(ctx context.Context, broken time.Time) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timings.ClientTimeout())
	defer cancel()
	list, err := s.o.Client.Leases(s.o.Namespace).List(ctx, metav1.ListOptions{LabelSelector: s.o.selector()})
	if err != nil {
		return "", fmt.Errorf("listing shard Leases: %w", err)
	}
	there := make(map[string]*coordinationv1.Lease, len(list.Items))
	for i := range list.Items {
		there[list.Items[i].Name] = &list.Items[i]
	}
	anew := !broken.IsZero() && s.o.Now().Sub(broken) > s.o.Timings.RetryPeriod
	for _, c := range s.claims {
		if anew {
			c.Break()
		}
		if lease := there[c.name]; lease != nil {
			c.Observe(lease)
		} else {
			c.ObserveAbsent(list.ResourceVersion)
		}
	}
	select {
	case <-s.synced:
	default:
		close(s.synced)
	}
	return list.ResourceVersion, nil
}

// watch feeds the claims from a version on until the watch ends, ctx does, or own writes do not come
// back. It answers since when nothing is known any more.
func (s *Set) watch(ctx context.Context, version string) time.Time {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := s.o.Client.Leases(s.o.Namespace).Watch(ctx, metav1.ListOptions{
		LabelSelector: s.o.selector(), ResourceVersion: version,
		AllowWatchBookmarks: true, TimeoutSeconds: ptr.To(int64(watchTimeout)),
	})
	if err != nil {
		return s.o.Now()
	}
	defer w.Stop()
	ticker := time.NewTicker(s.o.Timings.RetryPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return s.o.Now()
		case <-ticker.C:
			if lag := s.Lag(); lag > s.o.Timings.RenewDeadline {
				return s.o.Now().Add(-lag)
			}
		case e, ok := <-w.ResultChan():
			if !ok || e.Type == watch.Error {
				return s.o.Now()
			}
			s.take(e)
		}
	}
}

// take shows one event of the watch to the claim that it concerns.
func (s *Set) take(e watch.Event) {
	lease, ok := e.Object.(*coordinationv1.Lease)
	if !ok || e.Type == watch.Bookmark {
		return
	}
	shard, ok := ShardOfLease(lease)
	if !ok {
		return
	}
	c := s.Claim(shard)
	if c == nil || c.name != lease.Name {
		return
	}
	if e.Type == watch.Deleted {
		c.ObserveAbsent(lease.ResourceVersion)
		return
	}
	c.Observe(lease)
}

// EnsureLeases creates the missing Leases of all shards, empty. Claims leave those alone for a Lease
// duration: whoever held one that was deleted by hand must have stopped by then. With all of them there
// it costs one list.
//
// It refuses Leases with other settings: *SettingsError. Other errors are the API's.
func EnsureLeases(ctx context.Context, o Options) error {
	if err := o.Validate(); err != nil {
		return fmt.Errorf("ensuring shard Leases: %w", err)
	}
	o = o.withDefaults()
	missing, err := missingLeases(ctx, o)
	if err != nil {
		return err
	}
	for _, lease := range missing {
		_, err := o.Client.Leases(o.Namespace).Create(ctx, lease, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating Lease %s: %w", lease.Name, err)
		}
	}
	return nil
}

// missingLeases lists once, checks the settings of what is there and builds what is not.
func missingLeases(ctx context.Context, o Options) ([]*coordinationv1.Lease, error) {
	list, err := o.Client.Leases(o.Namespace).List(ctx, metav1.ListOptions{LabelSelector: o.selector()})
	if err != nil {
		return nil, fmt.Errorf("listing shard Leases: %w", err)
	}
	there := map[string]bool{}
	for i := range list.Items {
		if _, ok := ShardOfLease(&list.Items[i]); !ok {
			continue
		}
		if err := checkSettings(&list.Items[i], o.Settings); err != nil {
			return nil, err
		}
		there[list.Items[i].Name] = true
	}
	var missing []*coordinationv1.Lease
	for shard := range placement.Shard(o.Settings.Shards) {
		if !there[LeaseName(o.Installation, shard)] {
			missing = append(missing, buildEmpty(o, shard, 0))
		}
	}
	return missing, nil
}
