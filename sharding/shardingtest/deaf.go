package shardingtest

import (
	"context"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// Deaf is an API whose watches end at once, as behind a proxy that does not let them pass.
type Deaf struct {
	coordinationv1client.LeasesGetter

	Watches atomic.Int64 // that were begun
}

// Leases implements LeasesGetter.
func (d *Deaf) Leases(namespace string) coordinationv1client.LeaseInterface {
	return &deafLeases{LeaseInterface: d.LeasesGetter.Leases(namespace), deaf: d}
}

type deafLeases struct {
	coordinationv1client.LeaseInterface
	deaf *Deaf
}

func (l *deafLeases) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	l.deaf.Watches.Add(1)
	return watch.NewEmptyWatch(), nil
}
