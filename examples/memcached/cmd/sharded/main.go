// Command sharded runs the example with the library: every replica works, each on the namespaces of its
// shards. Compare it with cmd/unsharded.
package main

import (
	"flag"
	"os"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	cachev1alpha1 "example.com/redis-operator/examples/memcached/api/v1alpha1"
	"example.com/redis-operator/examples/memcached/controller"
	"example.com/redis-operator/sharding"
)

// namespace is the operator's own.
const namespace = "memcached-system"

func main() {
	metricsAddress := flag.String("metrics-bind-address", ":8080", "Address of /metrics.")
	probeAddress := flag.String("health-probe-bind-address", ":8081", "Address of /healthz and /readyz.")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	config := ctrl.GetConfigOrDie()
	utilruntime.Must(cachev1alpha1.AddToScheme(scheme.Scheme))
	options := ctrl.Options{
		Metrics:                metricsserver.Options{BindAddress: *metricsAddress},
		HealthProbeBindAddress: *probeAddress,
	}

	shards, err := sharding.New(config, sharding.Options{
		Installation: "memcached", Namespace: namespace,
		StatefulSet: "memcached-operator", Member: os.Getenv("POD_NAME"),
		RootKinds:  []schema.GroupVersionKind{cachev1alpha1.GroupVersion.WithKind("Memcached")},
		Registerer: metrics.Registry,
	})
	exitOn(err)
	shards.ManagerOptions(&options)
	mgr, err := ctrl.NewManager(config, options)
	exitOn(err)
	exitOn(shards.Attach(mgr))
	exitOn(mgr.AddHealthzCheck("ping", healthz.Ping))
	exitOn(mgr.AddReadyzCheck("sharding", shards.ReadyCheck))

	reconciler := &controller.Reconciler{Client: mgr.GetClient(), Labels: shards.Guard().Labels}
	exitOn(controller.Setup(mgr, shards.Reconciler(reconciler)))
	exitOn(mgr.Start(ctrl.SetupSignalHandler()))
}

func exitOn(err error) {
	if err != nil {
		ctrl.Log.Error(err, "Running the operator")
		os.Exit(1)
	}
}
