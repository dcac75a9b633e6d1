package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/controllers"
	"example.com/redis-operator/controllers/rediscluster"
	"example.com/redis-operator/sharding"
	"example.com/redis-operator/sharding/serverfence"
)

// run is one replica's life: it returns when ctx ends, after the shards were handed over, or with the
// error that ended it. This file is where the library and the operator meet.
func run(ctx context.Context, options Options) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	mgr, err := newManager(config, options)
	if err != nil {
		return err
	}
	ctrl.Log.WithName("setup").Info("Starting replica", "member", options.PodName, "namespace", options.Namespace,
		"shards", options.Shards, "workers", options.Workers)
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running the manager: %w", err)
	}
	return nil
}

// newManager puts the replica together: a manager sharded by the library, with the operator's
// controllers behind the guard.
func newManager(config *rest.Config, options Options) (ctrl.Manager, error) {
	config.QPS, config.Burst = float32(options.QPS), options.Burst
	shards, err := sharding.New(config, shardingOptions(options))
	if err != nil {
		return nil, fmt.Errorf("sharding the operator: %w", err)
	}
	managerOptions := ctrl.Options{
		Scheme:                 newScheme(),
		Metrics:                metricsserver.Options{BindAddress: options.MetricsAddress},
		HealthProbeBindAddress: options.ProbeAddress,
	}
	shards.ManagerOptions(&managerOptions)
	mgr, err := ctrl.NewManager(config, managerOptions)
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	if err := shards.Attach(mgr); err != nil {
		return nil, fmt.Errorf("attaching the shards: %w", err)
	}
	if err := addFenceMonitor(mgr, config, options); err != nil {
		return nil, err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding the liveness check: %w", err)
	}
	if err := mgr.AddReadyzCheck("sharding", shards.ReadyCheck); err != nil {
		return nil, fmt.Errorf("adding the readiness check: %w", err)
	}
	return mgr, controllers.Add(mgr, controllers.Deps{
		Ownership:      shards.Guard(),
		Wrap:           shards.Reconciler,
		Begin:          shards.Guard().Begin,
		ConnectionName: connectionName(shards),
		IsFenced:       func(err error) bool { return serverfence.IsRefusal(err, options.Installation) },
		Workers:        options.Workers,
		MaxRolling:     options.MaxRolling,
		Registerer:     metrics.Registry,
	})
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(redisv1.AddToScheme(scheme))
	return scheme
}

func shardingOptions(o Options) sharding.Options {
	options := sharding.Options{
		Installation:  o.Installation,
		Namespace:     o.Namespace,
		Member:        o.PodName,
		PodUID:        o.PodUID,
		StatefulSet:   o.StatefulSet,
		Shards:        o.Shards,
		ShardLabel:    redisv1.LabelShard,
		LeaseDuration: o.LeaseDuration,
		RenewDeadline: o.RenewDeadline,
		RetryPeriod:   o.RetryPeriod,
		HandoverBound: o.HandoverTimeout,
		ManagerGrace:  o.ShutdownTimeout,
		PodGrace:      o.PodGrace,
		RootKinds:     []schema.GroupVersionKind{redisv1.GroupVersion.WithKind(redisv1.RedisClusterKind)},
		ByObject:      leftOut(),
		Registerer:    metrics.Registry,
	}
	if o.StatefulSet == "" {
		options.Members = []string{o.PodName}
	}
	return options
}

// leftOut keeps out of the caches what no controller looks at and namespaces are full of: Helm's
// releases, tokens of service accounts, the root certificate that Kubernetes copies into every
// namespace, and Pods that have ended.
func leftOut() map[client.Object]cache.ByObject {
	not := func(terms ...fields.Selector) cache.ByObject {
		return cache.ByObject{Field: fields.AndSelectors(terms...)}
	}
	return map[client.Object]cache.ByObject{
		&corev1.Secret{}: not(
			fields.OneTermNotEqualSelector("type", "helm.sh/release.v1"),
			fields.OneTermNotEqualSelector("type", string(corev1.SecretTypeServiceAccountToken)),
		),
		&corev1.ConfigMap{}: not(fields.OneTermNotEqualSelector("metadata.name", "kube-root-ca.crt")),
		&corev1.Pod{}: not(
			fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
			fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
		),
	}
}

// connectionName names the connections to Redis by the life of this process and the epoch that it
// acts under, so that the next owner of a shard recognises those of an earlier one.
func connectionName(shards *sharding.Sharding) func(context.Context) string {
	return func(ctx context.Context) string {
		identity, epoch, ok := shards.IdentityOf(ctx)
		if !ok {
			return rediscluster.ConnectionPrefix + string(identity)
		}
		return fmt.Sprintf("%s%s:%s", rediscluster.ConnectionPrefix, identity, epoch)
	}
}
