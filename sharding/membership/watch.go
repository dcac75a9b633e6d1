package membership

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"example.com/redis-operator/sharding/placement"
)

// watchTimeout is after how long the server ends a watch by itself, in seconds.
const watchTimeout = 300

// watchAll lists and watches the presence Leases until ctx ends. Every break, a 410 included, is
// made good by a new list; what has gone meanwhile is noticed.
func (m *Membership) watchAll(ctx context.Context) {
	known := map[placement.Identity]bool{}
	for ctx.Err() == nil {
		version, err := m.list(ctx, known)
		if err == nil {
			err = m.watch(ctx, version, known)
		}
		if err != nil {
			wait(ctx, m.o.RetryPeriod/4)
		}
	}
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

// watch returns nil when the watch has ended and should be begun again at once.
func (m *Membership) watch(ctx context.Context, version string, known map[placement.Identity]bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watcher, err := m.o.Client.Leases(m.o.Namespace).Watch(ctx, metav1.ListOptions{
		LabelSelector: m.selector(), ResourceVersion: version,
		AllowWatchBookmarks: true, TimeoutSeconds: ptr.To(int64(watchTimeout)),
	})
	if err != nil {
		return fmt.Errorf("watching presence Leases: %w", err)
	}
	defer watcher.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.relist:
			return nil
		case event, ok := <-watcher.ResultChan():
			if !ok || event.Type == watch.Error {
				return nil
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
