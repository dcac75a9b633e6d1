package scopedcache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Cache is a cache.Cache of cluster-scoped kinds, shared namespaces and scopes.
type Cache struct {
	options  Options
	settings scopeSettings
	root     context.Context // parent of every scope; ended by Start
	stop     context.CancelFunc
	started  chan struct{} // closed by Start
	slots    chan struct{} // taken by scopes that are listing
	running  sync.WaitGroup
	cluster  *scope            // kinds without a namespace
	shared   map[string]*scope // never changes after New

	// mu guards what follows. No scope or kind is called with it held, and no request is sent.
	mu      sync.Mutex
	isOver  bool
	kinds   map[kindKey]*kind
	scopes  map[string]*scope
	waiting []*registration // handlers that were added before Start
}

var _ cache.Cache = &Cache{}

// New returns a Cache without any scope. It starts nothing; building a mapper, when Options.Cache
// has none, asks the API server.
func New(config *rest.Config, options Options) (*Cache, error) {
	if err := options.Validate(); err != nil {
		return nil, fmt.Errorf("checking the options of the scoped cache: %w", err)
	}
	options = options.withDefaults()
	settings, err := newScopeSettings(config, options)
	if err != nil {
		return nil, err
	}
	c := &Cache{
		options:  options,
		settings: settings,
		started:  make(chan struct{}),
		slots:    make(chan struct{}, options.Concurrency),
		shared:   map[string]*scope{},
		kinds:    map[kindKey]*kind{},
		scopes:   map[string]*scope{},
	}
	c.root, c.stop = context.WithCancel(context.Background())
	if err := c.addPermanentScopes(); err != nil {
		return nil, err
	}
	for _, obj := range options.Kinds {
		if _, err := c.kindOf(obj); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// newScopeSettings builds what the scopes share: one HTTP client, one mapper, the selectors.
func newScopeSettings(config *rest.Config, options Options) (scopeSettings, error) {
	config = rest.CopyConfig(config)
	config.DisableCompression = true // gzip's dictionaries were 41 % of the heap
	config.QPS, config.RateLimiter = -1, nil
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return scopeSettings{}, fmt.Errorf("building the HTTP client of the scoped cache: %w", err)
	}
	settings := scopeSettings{config: config, httpClient: httpClient, options: options.Cache}
	if settings.options.Scheme == nil {
		settings.options.Scheme = scheme.Scheme
	}
	if settings.options.Mapper == nil {
		settings.options.Mapper, err = apiutil.NewDynamicRESTMapper(config, httpClient)
		if err != nil {
			return scopeSettings{}, fmt.Errorf("building the REST mapper of the scoped cache: %w", err)
		}
	}
	settings.options.ByObject, err = mergeByObject(settings.options)
	return settings, err
}

// mergeByObject adds the default selectors of the kinds that the options do not name.
func mergeByObject(options cache.Options) (map[client.Object]cache.ByObject, error) {
	merged := maps.Clone(options.ByObject)
	if merged == nil {
		merged = map[client.Object]cache.ByObject{}
	}
	named := map[schema.GroupVersionKind]bool{}
	for obj := range merged {
		gvk, err := apiutil.GVKForObject(obj, options.Scheme)
		if err != nil {
			return nil, fmt.Errorf("finding the kind of %T: %w", obj, err)
		}
		named[gvk] = true
	}
	for obj, byObject := range DefaultByObject() {
		gvk, err := apiutil.GVKForObject(obj, options.Scheme)
		if err == nil && !named[gvk] { // a kind that the scheme lacks is not cached either
			merged[obj] = byObject
		}
	}
	return merged, nil
}

// addPermanentScopes builds the scopes that are never removed.
func (c *Cache) addPermanentScopes() error {
	cluster, err := newScope(c.root, c.settings, "")
	if err != nil {
		return err
	}
	cluster.isPermanent, cluster.isOpened = true, true
	cluster.covers = func(k *kind) bool { return !k.namespaced }
	c.cluster = cluster
	for _, declared := range c.options.Shared {
		limit := map[schema.GroupVersionKind]bool{}
		for _, obj := range declared.Kinds {
			key, err := keyOf(obj, c.settings.options.Scheme)
			if err != nil {
				return err
			}
			limit[key.GroupVersionKind] = true
		}
		s, err := newScope(c.root, c.settings, declared.Name)
		if err != nil {
			return err
		}
		s.isPermanent, s.isOpened = true, true
		s.covers = func(k *kind) bool {
			return k.namespaced && (len(limit) == 0 || limit[k.key.GroupVersionKind])
		}
		c.shared[declared.Name] = s
	}
	return nil
}

// permanent returns the scopes that are never removed.
func (c *Cache) permanent() []*scope {
	return append(slices.Collect(maps.Values(c.shared)), c.cluster)
}

// Start implements cache.Informers: it runs until ctx ends and everything has stopped.
func (c *Cache) Start(ctx context.Context) error {
	if err := c.begin(); err != nil {
		return err
	}
	<-ctx.Done()
	for _, s := range c.end() {
		s.close()
	}
	c.stop()
	c.running.Wait()
	c.closeConnections()
	return nil
}

// begin starts every scope and handler there is.
func (c *Cache) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.started:
		return errors.New("starting the scoped cache: it was started before")
	default:
	}
	close(c.started)
	for _, s := range c.permanent() {
		c.launchLocked(s)
	}
	for _, s := range c.scopes {
		c.launchLocked(s)
	}
	for _, r := range c.waiting {
		c.running.Go(func() { r.run(c.root) })
	}
	c.waiting = nil
	return nil
}

// end refuses further scopes and returns those to close.
func (c *Cache) end() []*scope {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isOver = true
	all := append(c.permanent(), slices.Collect(maps.Values(c.scopes))...)
	c.scopes = map[string]*scope{}
	return all
}

// closeConnections lets go of the connections, which would otherwise stay until they time out.
func (c *Cache) closeConnections() { c.settings.httpClient.CloseIdleConnections() }

// launchLocked runs a scope, once, if the cache runs. The caller holds mu.
func (c *Cache) launchLocked(s *scope) {
	select {
	case <-c.started:
	default:
		return
	}
	if c.isOver {
		return
	}
	s.launched.Do(func() {
		c.running.Go(func() { s.run(c.slots, c.options.StartTimeout) })
	})
}

// deliver runs a registration as soon as the cache runs.
func (c *Cache) deliver(r *registration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.started:
		if !c.isOver {
			c.running.Go(func() { r.run(c.root) })
		}
	default:
		c.waiting = append(c.waiting, r)
	}
}

// WaitForCacheSync implements cache.Informers. It waits for the cluster-scoped kinds and the
// shared namespaces, not for scopes: AddScope waits for those.
func (c *Cache) WaitForCacheSync(ctx context.Context) bool {
	select {
	case <-c.started:
	case <-ctx.Done():
		return false
	}
	for _, s := range c.permanent() {
		if err := s.wait(ctx); err != nil {
			return false
		}
	}
	return true
}

// kindOf returns the registered kind of an object, registering it if it is new.
func (c *Cache) kindOf(obj client.Object) (*kind, error) {
	key, err := keyOf(obj, c.settings.options.Scheme)
	if err != nil {
		return nil, err
	}
	return c.kindFor(key)
}

// kindFor returns the kind of a key. A new one is registered and opened in every scope.
func (c *Cache) kindFor(key kindKey) (*kind, error) {
	c.mu.Lock()
	known := c.kinds[key]
	c.mu.Unlock()
	if known != nil {
		return known, nil
	}
	made, err := c.makeKind(key)
	if err != nil {
		return nil, err
	}
	k, scopes := c.registerKind(made)
	for _, s := range scopes {
		if err := s.open(k); err != nil && !errors.Is(err, ErrStopped) {
			c.forgetKind(key)
			k.remove()
			return nil, err
		}
	}
	return k, nil
}

// makeKind builds a kind; it may ask the API server for the kind's mapping.
func (c *Cache) makeKind(key kindKey) (*kind, error) {
	namespaced, err := apiutil.IsGVKNamespaced(key.GroupVersionKind, c.settings.options.Mapper)
	if err != nil {
		return nil, fmt.Errorf("mapping kind %s: %w", key, err)
	}
	prototype, err := prototypeOf(key, c.settings.options.Scheme)
	if err != nil {
		return nil, err
	}
	k := newKind(key, prototype, namespaced)
	k.start = c.deliver
	for _, s := range c.permanent() {
		if s.covers(k) {
			k.unsynced++
		}
	}
	if k.unsynced == 0 {
		close(k.permanentSynced)
	}
	return k, nil
}

// registerKind adds a kind, unless another was quicker, and returns it with the present scopes.
func (c *Cache) registerKind(made *kind) (*kind, []*scope) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, isKnown := c.kinds[made.key]
	if !isKnown {
		k = made
		c.kinds[made.key] = k
	}
	return k, append(c.permanent(), slices.Collect(maps.Values(c.scopes))...)
}

// forgetKind takes a kind out and returns it, nil if there is none, with the present scopes.
func (c *Cache) forgetKind(key kindKey) (*kind, []*scope) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.kinds[key]
	delete(c.kinds, key)
	return k, append(c.permanent(), slices.Collect(maps.Values(c.scopes))...)
}

// allScopes returns the permanent scopes and the present ones.
func (c *Cache) allScopes() []*scope {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append(c.permanent(), slices.Collect(maps.Values(c.scopes))...)
}
