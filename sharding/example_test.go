package sharding_test

import (
	"context"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/redis-operator/sharding"
)

// labeller is an ordinary reconciler: it knows nothing of shards.
type labeller struct{ client.Client }

func (l *labeller) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	configMap := &corev1.ConfigMap{}
	if err := l.Get(ctx, request.NamespacedName, configMap); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if configMap.Labels["seen"] == "yes" {
		return ctrl.Result{}, nil
	}
	patch := client.MergeFrom(configMap.DeepCopy())
	if configMap.Labels == nil {
		configMap.Labels = map[string]string{}
	}
	configMap.Labels["seen"] = "yes"
	return ctrl.Result{}, l.Patch(ctx, configMap, patch)
}

// A controller of ConfigMaps whose replicas share the namespaces of the cluster. The lines marked
// "+" are those that an operator without shards does not have.
func Example() {
	cfg := ctrl.GetConfigOrDie()
	options := ctrl.Options{HealthProbeBindAddress: ":8081"}

	sharded, err := sharding.New(cfg, sharding.Options{ // +
		Installation: "labeller",            // +
		Namespace:    "labeller-system",     // +
		StatefulSet:  "labeller",            // +
		Member:       os.Getenv("POD_NAME"), // +
		RootKinds: []schema.GroupVersionKind{ // +
			corev1.SchemeGroupVersion.WithKind("ConfigMap"), // +
		}, // +
	}) // +
	exitOn(err)                      // +
	sharded.ManagerOptions(&options) // +

	mgr, err := ctrl.NewManager(cfg, options)
	exitOn(err)
	exitOn(sharded.Attach(mgr))                                // +
	exitOn(mgr.AddReadyzCheck("sharding", sharded.ReadyCheck)) // +

	reconciler := &labeller{Client: mgr.GetClient()}
	exitOn(ctrl.NewControllerManagedBy(mgr).
		For(&corev1.ConfigMap{}).
		Complete(sharded.Reconciler(reconciler))) // + (was: Complete(reconciler))

	exitOn(mgr.Start(ctrl.SetupSignalHandler()))
}

func exitOn(err error) {
	if err != nil {
		panic(err)
	}
}
