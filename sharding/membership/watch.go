package membership

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
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

// watchAll lists and watches the presence Leases until ctx ends. Every break, a 410 included, is
// made good by a new list; what has gone meanwhile is noticed.
func (m *Membership) watchAll(ctx context.Context) {
	known := map[placement.Identity]bool{}
	backoff := m.watchBackoff()
	for ctx.Err() == nil {
		version, err := m.list(ctx, known)
		if err != nil {
			wait(ctx, m.o.RetryPeriod/4)
			continue
		}
		began := time.Now()
		m.watch(ctx, version, known)
		if time.Since(began) >= shortWatch {
			backoff = m.watchBackoff()
		} else {
			wait(ctx, backoff.Step())
		}
	}
}

// watchBackoff is the pauses between watches that end at once: as reflectors make them, but always
// shorter than a retry period, so that the lists between them still show own renewals in time.
func (m *Membership) watchBackoff() waiting.Backoff {
	longest := m.o.RetryPeriod * 3 / 4
	return waiting.Backoff{Duration: min(800*time.Millisecond, longest), Factor: 1.5, Jitter: 0.2, Steps: 10, Cap: longest}
}

func (m *Membership) selector() string {
	return labels.Set{PresenceLabel: m.o.Installation}.String()
}

func (m *Membership) list(ctx context.Context, known map[placement.Identity]bool) (string, error) {
	list, err := m.o.Client.Leases(m.o.Namespace).List(ctx, metav1.ListOptions{LabelSelector: m.selector()})
	if err != nil {
		return "", fmt.Errorf("listing presence Leases: %w", err)
	}
	there := map[placement.Identity]bool{}
	for i := range list.Items {
		presence := read(&list.Items[i])
		there[presence.Identity], known[presence.Identity] = true, true
		m.o.OnPresence(presence)
	}
	for identity := range known {
		if !there[identity] {
			delete(known, identity)
			m.o.OnPresence(Presence{Identity: identity})
		}
	}
	return list.ResourceVersion, nil
}

// watch returns when the watch has ended or could not be begun.
func (m *Membership) watch(ctx context.Context, version string, known map[placement.Identity]bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watcher, err := m.o.Client.Leases(m.o.Namespace).Watch(ctx, metav1.ListOptions{
		LabelSelector: m.selector(), ResourceVersion: version,
		AllowWatchBookmarks: true, TimeoutSeconds: ptr.To(int64(watchTimeout)),
	})
	if err != nil {
		return
	}
	defer watcher.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.relist:
			return
		case event, ok := <-watcher.ResultChan():
			if !ok || event.Type == watch.Error {
				return
			}
			m.take(event, known)
		}
	}
}

func (m *Membership) take(event watch.Event, known map[placement.Identity]bool) {
	lease, ok := event.Object.(*coordinationv1.Lease)
	if !ok || event.Type == watch.Bookmark {
		return
	}
	presence := read(lease)
	if event.Type == watch.Deleted {
		delete(known, presence.Identity)
		m.o.OnPresence(Presence{Identity: presence.Identity})
		return
	}
	known[presence.Identity] = true
	m.o.OnPresence(presence)
}
