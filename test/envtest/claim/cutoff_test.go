package claim_test

import (
	"context"
	"errors"
	"sync/atomic"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

var errCut = errors.New("cut off")

// cutOff is a client whose requests can be made to fail before they leave.
type cutOff struct {
	inner coordinationv1client.LeasesGetter
	cut   atomic.Bool
}

func (c *cutOff) set(cut bool) { c.cut.Store(cut) }

func (c *cutOff) Leases(namespace string) coordinationv1client.LeaseInterface {
	return &cutOffLeases{LeaseInterface: c.inner.Leases(namespace), c: c}
}

type cutOffLeases struct {
	coordinationv1client.LeaseInterface
	c *cutOff
}

func (l *cutOffLeases) Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error) {
	if l.c.cut.Load() {
		return nil, errCut
	}
	return l.LeaseInterface.Get(ctx, name, o)
}

func (l *cutOffLeases) Update(
	ctx context.Context, lease *coordinationv1.Lease, o metav1.UpdateOptions,
) (*coordinationv1.Lease, error) {
	if l.c.cut.Load() {
		return nil, errCut
	}
	return l.LeaseInterface.Update(ctx, lease, o)
}
