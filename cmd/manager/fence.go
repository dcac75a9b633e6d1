package main

import (
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/sharding/serverfence"
)

// addFenceMonitor has the manager prove that the API server's half of the fence is in force. Its client
// does not pass through the guard: what it writes are dry runs.
func addFenceMonitor(mgr ctrl.Manager, config *rest.Config, options Options) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("building the client that proves the server's fence: %w", err)
	}
	monitor, err := serverfence.NewMonitor(serverfence.MonitorOptions{
		Proof: serverfence.ProofOptions{
			Client: client, Installation: options.Installation, Namespace: options.Namespace,
			ShardLabel: redisv1.LabelShard, Shards: options.Shards,
		},
		Registerer: metrics.Registry,
		Log:        mgr.GetLogger().WithName("serverfence"),
	})
	if err != nil {
		return err
	}
	if err := mgr.Add(monitor); err != nil {
		return fmt.Errorf("adding the monitor of the server's fence: %w", err)
	}
	return nil
}
