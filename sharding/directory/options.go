package directory

import (
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Options configure a Directory.
type Options struct {
	// RootKinds are the kinds whose objects make a namespace worth caching. Required. One that is
	// not installed yet is looked for again and again.
	RootKinds []schema.GroupVersionKind

	// ShardOf gives the shard of a namespace. Required by Namespaces alone.
	ShardOf func(namespace string) int

	// Namespaces limits the directory to these, for an installation without a right on the whole
	// cluster: each is watched by itself, and whether it is being deleted is not known. Empty
	// means the whole cluster, which takes the right to list and watch the root kinds and
	// namespaces in it.
	Namespaces []string

	// Mapper finds the resources of the root kinds. Default: one that asks the API server.
	Mapper meta.RESTMapper

	// Log receives what goes wrong in the background. Default: the logger of controller-runtime.
	Log logr.Logger
}

// Validate reports the first option that cannot be used.
func (o Options) Validate() error {
	if len(o.RootKinds) == 0 {
		return errors.New("RootKinds is empty: nothing would ever be cached")
	}
	for _, gvk := range o.RootKinds {
		if gvk.Kind == "" || gvk.Version == "" {
			return fmt.Errorf("root kind %q needs a version and a kind", gvk)
		}
	}
	for _, namespace := range o.Namespaces {
		if namespace == "" {
			return errors.New("Namespaces has an empty name: that would watch the whole cluster")
		}
	}
	return nil
}

// withDefaults fills in what is not set.
func (o Options) withDefaults() Options {
	if o.Log.GetSink() == nil {
		o.Log = log.Log.WithName("directory")
	}
	return o
}
