package sharding

import (
	"context"
	"fmt"
	"net"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"example.com/redis-operator/sharding/claim"
)

// clients reach the operator's own objects. None of them passes through the guard.
type clients struct {
	// requests has a timeout that fits the Lease timings, watches has none.
	requests, watches *kubernetes.Clientset
}

func newClients(config *rest.Config, timings claim.Timings) (*clients, error) {
	requests := claim.RESTConfig(config, timings)
	if requests.Dial == nil {
		// A dialler of its own gives these clients connections of their own: a renewal must not
		// queue behind thousands of watches that the caches have on theirs.
		requests.Dial = (&net.Dialer{Timeout: timings.ClientTimeout(), KeepAlive: 30 * time.Second}).DialContext
	}
	watches := rest.CopyConfig(requests)
	watches.Timeout = 0
	watches.DisableCompression = true
	var c clients
	var err error
	if c.requests, err = kubernetes.NewForConfig(requests); err != nil {
		return nil, fmt.Errorf("building the client of the coordinator: %w", err)
	}
	if c.watches, err = kubernetes.NewForConfig(watches); err != nil {
		return nil, fmt.Errorf("building the watching client of the coordinator: %w", err)
	}
	return &c, nil
}

// Leases implements LeasesGetter: watches take the client without a timeout, since a timeout of the
// HTTP client would end them too.
func (c *clients) Leases(namespace string) coordinationv1client.LeaseInterface {
	return &leases{
		LeaseInterface: c.requests.CoordinationV1().Leases(namespace),
		watches:        c.watches.CoordinationV1().Leases(namespace),
	}
}

type leases struct {
	coordinationv1client.LeaseInterface
	watches coordinationv1client.LeaseInterface
}

func (l *leases) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return l.watches.Watch(ctx, options)
}
