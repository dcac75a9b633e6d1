package controllers

import (
	"context"
	"fmt"
	"net"

	"example.com/redis-operator/controllers/rediscluster"
	"github.com/prometheus/client_golang/prometheus"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Deps is what the controllers need from outside. The zero value makes a single replica.
type Deps struct {
	// Ownership says what this process may act on. Nil means everything (Single).
	Ownership Ownership
	// Wrap decorates each controller's reconciler, to let in only what is owned. Nil means as it is.
	Wrap func(reconcile.Reconciler) reconcile.Reconciler
	// Begin is asked before each command that changes a Redis node, and done called when the answer is
	// there, so that a handover can wait for commands in flight. Nil means that Ownership.Check is asked and
	// nothing is counted.
	Begin func(ctx context.Context) (done func(), err error)
	// ConnectionName is the name of connections to Redis; it tells identity and epoch of ctx, holds no
	// space and begins with rediscluster.ConnectionPrefix. Connections of that prefix under another name
	// are closed on a cluster's nodes before anything is changed there. Nil means no names.
	ConnectionName func(ctx context.Context) string
	// IsFenced tells whether an error is the API server's refusal of a write of a process that does not
	// own the object, as far as the server knows by then. It is tried again, not held against the object.
	// Nil means never.
	IsFenced func(error) bool
	// Dial opens connections to Redis. Nil means the net package's dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Workers is how many clusters are worked on at the same time. Zero means 32.
	Workers int
	// MaxRolling is how many clusters this process rolls at the same time. Zero means 10.
	MaxRolling int
	// Registerer takes the operator's metrics. Nil means that of controller-runtime.
	Registerer prometheus.Registerer
}

// Add registers every controller with the manager, whose scheme must know api/v1.
func Add(mgr ctrl.Manager, deps Deps) error {
	if deps.Ownership == nil {
		deps.Ownership = Single{}
	}
	if deps.Registerer == nil {
		deps.Registerer = metrics.Registry
	}
	err := rediscluster.Add(mgr, rediscluster.Options{
		Ownership:      deps.Ownership,
		Wrap:           deps.Wrap,
		Begin:          deps.Begin,
		ConnectionName: deps.ConnectionName,
		IsFenced:       deps.IsFenced,
		Dial:           deps.Dial,
		Workers:        deps.Workers,
		MaxRolling:     deps.MaxRolling,
		Registerer:     deps.Registerer,
	})
	if err != nil {
		return fmt.Errorf("adding the controller of RedisCluster: %w", err)
	}
	return nil
}
