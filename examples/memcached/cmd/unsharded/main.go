// Command unsharded runs the example as most operators run: one replica works, and the others wait for
// its Lease.
package main

import (
	"flag"
	"os"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	cachev1alpha1 "example.com/redis-operator/examples/memcached/api/v1alpha1"
	"example.com/redis-operator/examples/memcached/controller"
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
	options.LeaderElection, options.LeaderElectionReleaseOnCancel = true, true
	options.LeaderElectionID, options.LeaderElectionNamespace = "memcached-operator", namespace

	mgr, err := ctrl.NewManager(config, options)
	exitOn(err)
	exitOn(mgr.AddHealthzCheck("ping", healthz.Ping))
	exitOn(mgr.AddReadyzCheck("ping", healthz.Ping))

	reconciler := &controller.Reconciler{Client: mgr.GetClient()}
	exitOn(controller.Setup(mgr, reconciler))
	exitOn(mgr.Start(ctrl.SetupSignalHandler()))
}

func exitOn(err error) {
	if err != nil {
		ctrl.Log.Error(err, "Running the operator")
		os.Exit(1)
	}
}
