package sharding

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/directory"
	"example.com/redis-operator/sharding/guard"
	"example.com/redis-operator/sharding/placement"
	"example.com/redis-operator/sharding/scopedcache"
)

// The public nouns; see the packages that define them.
type (
	// Shard is a fixed slice of the namespaces.
	Shard = placement.Shard
	// Member is a Pod name that is expected to work.
	Member = placement.Member
	// Identity names one life of one process.
	Identity = placement.Identity
	// Epoch is the resourceVersion of the write that acquired a claim.
	Epoch = claim.Epoch
	// Settings are S and the hash, fixed for an installation.
	Settings = placement.Settings
	// Guard admits requests and refuses calls.
	Guard = guard.Guard
)

// Errors of calls that are refused.
var (
	ErrNotAdmitted = guard.ErrNotAdmitted
	ErrDraining    = guard.ErrDraining
	ErrExpired     = guard.ErrExpired
	ErrStaleEpoch  = guard.ErrStaleEpoch
)

// Sharding is one replica's share of the work. New makes it, ManagerOptions and Attach fit it into
// a controller-runtime manager. It is safe for concurrent use.
type Sharding struct {
	options   Options
	config    *rest.Config
	guard     *guard.Guard
	metrics   *metrics
	firstWork *firstWork
	costs     *costMeter
	scopes    atomic.Pointer[scopes]
	cache     atomic.Pointer[scopedcache.Cache]
	snapshot  atomic.Pointer[Snapshot]
	confirmed atomic.Pointer[map[Identity]bool]
}

// New returns the sharding of one replica, which does nothing before the manager that it is
// attached to starts. It asks the API for nothing. The error names every option that is wrong.
func New(config *rest.Config, options Options) (*Sharding, error) {
	options = options.withDefaults()
	if err := options.Validate(); err != nil {
		return nil, fmt.Errorf("checking the sharding options: %w", err)
	}
	s := &Sharding{options: options, config: config, metrics: newMetrics(), costs: newCostMeter(options.FoldWeights / measurements)}
	s.firstWork = newFirstWork(s.metrics)
	gate, err := guard.New(guard.Options{
		Settings: options.settings(), ShardLabel: options.ShardLabel,
		CancelLead: options.claimTimings().CancelLead, Exempt: options.Exempt,
		Observer: workObserver{firstWork: s.firstWork, costs: s.costs},
	})
	if err != nil {
		return nil, fmt.Errorf("building the guard: %w", err)
	}
	s.guard = gate
	if options.Registerer != nil {
		if err := s.metrics.register(options.Registerer, newGauges(s.Snapshot)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// ManagerOptions changes the options of a manager that is to be sharded: a cache of scopes, a
// client whose mutating calls the guard must let pass, no leader election, and a graceful shutdown
// timeout of Options.ManagerGrace. What the cache holds of an object (ByObject) belongs in
// Options.ByObject.
func (s *Sharding) ManagerOptions(options *ctrl.Options) {
	options.LeaderElection = false
	options.GracefulShutdownTimeout = ptr.To(s.options.ManagerGrace)
	var shared []scopedcache.SharedNamespace
	for _, namespace := range s.options.SharedNamespaces {
		shared = append(shared, scopedcache.SharedNamespace{Name: namespace})
	}
	scoped := scopedcache.Options{
		Cache:  cache.Options{ByObject: s.options.ByObject, DefaultTransform: options.Cache.DefaultTransform},
		Shared: shared, Kinds: s.options.Kinds,
	}
	options.NewCache = scoped.NewFunc(s.cache.Store)
	inner := options.NewClient
	if inner == nil {
		inner = client.New
	}
	options.NewClient = func(config *rest.Config, clientOptions client.Options) (client.Client, error) {
		config = rest.CopyConfig(config)
		config.Wrap(s.guard.RoundTripper)
		clientOptions.HTTPClient = nil // the manager's own does not pass through the guard
		return inner(config, clientOptions)
	}
}

// Attach adds the directory and the coordinator to a manager made with ManagerOptions. Call it
// before the manager starts.
func (s *Sharding) Attach(mgr ctrl.Manager) error {
	scoped := s.cache.Load()
	if scoped == nil {
		return errors.New("attaching to a manager that was not made with ManagerOptions")
	}
	log := mgr.GetLogger().WithName("sharding")
	known, err := directory.New(s.config, directory.Options{
		RootKinds: s.options.RootKinds, Mapper: mgr.GetRESTMapper(), Log: log.WithName("directory"),
		ShardOf: func(namespace string) int { return int(s.ShardOf(namespace)) },
	})
	if err != nil {
		return fmt.Errorf("building the directory: %w", err)
	}
	loaded := newScopes(log, scoped, func(shard Shard) map[string]int { return known.Namespaces(int(shard)) }, s.ShardOf)
	loaded.dropped = s.guard.NotifyDropped
	known.OnChange(loaded.Changed)
	s.scopes.Store(loaded)
	err = mgr.Add(&coordinator{
		s: s, options: s.options, log: log, queue: newEventQueue(), failed: make(chan error, 1),
		directory: known, scopes: loaded,
		history: &history{metrics: s.metrics, shards: map[Shard]*shardHistory{}},
	})
	if err != nil {
		return fmt.Errorf("adding the coordinator: %w", err)
	}
	return nil
}

// Reconciler returns a reconciler that lets only requests of held shards through to inner.
func (s *Sharding) Reconciler(inner reconcile.Reconciler) reconcile.Reconciler {
	return Wrap(s, inner, func(request reconcile.Request) string { return request.Namespace })
}

// syncPause is when a request comes again whose namespace is still being read for the first time.
const syncPause = 250 * time.Millisecond

// Wrap is Reconciler for any type of request. namespaceOf names the namespace that a request works
// on.
func Wrap[R comparable](
	s *Sharding, inner reconcile.TypedReconciler[R], namespaceOf func(R) string,
) reconcile.TypedReconciler[R] {
	scoped := reconcile.TypedFunc[R](func(ctx context.Context, request R) (reconcile.Result, error) {
		result, err := inner.Reconcile(ctx, request)
		switch {
		case errors.Is(err, scopedcache.ErrNotOwned) && !s.isCached(namespaceOf(request)):
			// The namespace has no root object left and was dropped. When it gets one, all of
			// it is reconciled.
			return reconcile.Result{}, nil
		case errors.Is(err, scopedcache.ErrNotSynced):
			// It has just got its first root object. One that does not sync is reported as such.
			return reconcile.Result{RequeueAfter: syncPause}, nil
		}
		return result, err
	})
	return guard.Wrap(s.guard, scoped, namespaceOf)
}

// isCached tells whether a namespace is a scope at the moment.
func (s *Sharding) isCached(namespace string) bool {
	loaded := s.scopes.Load()
	return loaded != nil && loaded.Has(namespace)
}

// isConfirmedDead tells whether P records a confirmed death of a process.
func (s *Sharding) isConfirmedDead(identity Identity) bool {
	confirmed := s.confirmed.Load()
	return confirmed != nil && (*confirmed)[identity]
}

// Guard returns the guard, which has what a controller may know about ownership: Check, Labels and
// Dropped.
func (s *Sharding) Guard() *Guard { return s.guard }

// Dropped registers a function that is called with each namespace that this replica no longer owns.
func (s *Sharding) Dropped(f func(namespace string)) { s.guard.Dropped(f) }

// ReadyCheck is a healthz.Checker for /readyz: nil once this process is recorded as serving in P
// and admits every shard whose home it is, or 60 s after it started; from then on it stays nil.
func (s *Sharding) ReadyCheck(_ *http.Request) error {
	if snapshot := s.Snapshot(); !snapshot.Ready {
		return fmt.Errorf("%d of %d home shards are admitted", len(snapshot.Admitted()),
			len(snapshot.Placement.HomesOf(Member(s.options.Member))))
	}
	return nil
}

// Identity returns the present identity of this process, empty before it has one.
func (s *Sharding) Identity() Identity { return s.Snapshot().Identity }

// IdentityOf returns what a connection to the outside should be named by: the identity of this
// process and the epoch under which ctx was admitted; false without an admission.
func (s *Sharding) IdentityOf(ctx context.Context) (Identity, Epoch, bool) {
	epoch, ok := guard.Epoch(ctx)
	return s.Identity(), epoch, ok
}

// ShardOf returns the shard of a namespace.
func (s *Sharding) ShardOf(namespace string) Shard {
	return Settings{Shards: s.options.Shards, Hash: s.options.Hash}.ShardOf(namespace)
}

// Snapshot returns what this replica knows at the moment. Nothing in it may be changed.
func (s *Sharding) Snapshot() Snapshot {
	if snapshot := s.snapshot.Load(); snapshot != nil {
		return *snapshot
	}
	return Snapshot{}
}
