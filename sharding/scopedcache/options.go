package scopedcache

import (
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	defaultConcurrency  = 16
	defaultStartTimeout = 2 * time.Second
)

// Options configure a Cache. The zero value is ready to use.
type Options struct {
	// Cache holds what applies to every scope: scheme, mapper, selectors (ByObject), transforms,
	// sync period. DefaultNamespaces and ByObject.Namespaces must be empty: scopes decide them.
	// HTTPClient is not used, since a watching client must not ask for compression: a client is
	// built from the rest.Config. DefaultTransform strips managedFields unless it is set.
	// Defaults for Secrets, ConfigMaps and Pods that ByObject does not name: DefaultByObject.
	Cache cache.Options

	// Shared are namespaces that every replica caches, whoever owns them: the operator's own.
	Shared []SharedNamespace

	// Kinds are cached in every scope from its start. Kinds that a controller watches or indexes
	// need not be named; one that is only read (client.Get) is cached from its first read on, and
	// named here it is there before.
	Kinds []client.Object

	// Concurrency bounds how many scopes list at the same time. Default 16: an HTTP/2 connection to the API
	// server takes 100 requests, and while it is full each request that waits opens one more.
	Concurrency int

	// StartTimeout is how long a scope may keep its place among the Concurrency ones before it
	// has synced: one that cannot sync must not keep the others waiting. Default 2 s.
	StartTimeout time.Duration

	// Log receives what goes wrong in the background. Default: the logger of controller-runtime.
	Log logr.Logger
}

// SharedNamespace is a namespace that every replica caches.
type SharedNamespace struct {
	// Name of the namespace.
	Name string
	// Kinds limits what is shared to these; empty means every kind. The kinds that are not named
	// are cached only when the namespace is added as a scope, as anywhere. A List over all
	// namespaces includes what is shared, on every replica: limit Kinds wherever that matters.
	Kinds []client.Object
}

// DefaultByObject are the selectors that keep out what no controller wants: Helm releases, token
// Secrets, the root certificate that every namespace holds, and finished Pods (which thereby look
// like deleted ones).
func DefaultByObject() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&corev1.Secret{}: {Field: fields.ParseSelectorOrDie(
			"type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token")},
		&corev1.ConfigMap{}: {Field: fields.ParseSelectorOrDie("metadata.name!=kube-root-ca.crt")},
		&corev1.Pod{}:       {Field: fields.ParseSelectorOrDie("status.phase!=Succeeded,status.phase!=Failed")},
	}
}

// NewFunc returns a function for ctrl.Options.NewCache. What the manager fills in (scheme and
// mapper) is added to o.Cache, and use is called with each Cache that is built.
func (o Options) NewFunc(use func(*Cache)) cache.NewCacheFunc {
	return func(config *rest.Config, managers cache.Options) (cache.Cache, error) {
		merged := o
		if merged.Cache.Scheme == nil {
			merged.Cache.Scheme = managers.Scheme
		}
		if merged.Cache.Mapper == nil {
			merged.Cache.Mapper = managers.Mapper
		}
		built, err := New(config, merged)
		if err != nil {
			return nil, err
		}
		if use != nil {
			use(built)
		}
		return built, nil
	}
}

// Validate reports the first option that cannot be used.
func (o Options) Validate() error {
	if len(o.Cache.DefaultNamespaces) > 0 {
		return fmt.Errorf("Cache.DefaultNamespaces must be empty: scopes decide what is cached")
	}
	for obj, byObject := range o.Cache.ByObject {
		if len(byObject.Namespaces) > 0 {
			return fmt.Errorf("Cache.ByObject[%T].Namespaces must be empty: scopes decide what is cached", obj)
		}
	}
	if o.Concurrency < 0 {
		return fmt.Errorf("Concurrency is %d, must not be negative", o.Concurrency)
	}
	if o.StartTimeout < 0 {
		return fmt.Errorf("StartTimeout is %s, must not be negative", o.StartTimeout)
	}
	seen := map[string]bool{}
	for _, shared := range o.Shared {
		if shared.Name == "" {
			return fmt.Errorf("a shared namespace has no name: that would cache every namespace")
		}
		if seen[shared.Name] {
			return fmt.Errorf("shared namespace %q is declared twice", shared.Name)
		}
		seen[shared.Name] = true
	}
	return nil
}

// withDefaults fills in what is not set.
func (o Options) withDefaults() Options {
	if o.Concurrency == 0 {
		o.Concurrency = defaultConcurrency
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = defaultStartTimeout
	}
	if o.Log.GetSink() == nil {
		o.Log = log.Log.WithName("scopedcache")
	}
	if o.Cache.DefaultTransform == nil {
		o.Cache.DefaultTransform = cache.TransformStripManagedFields()
	}
	return o
}
