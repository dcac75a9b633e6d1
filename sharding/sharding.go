package sharding

import (
	"context"
	"net/http"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/guard"
	"example.com/redis-operator/sharding/placement"
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
	options Options
	config  *rest.Config
	guard   *guard.Guard
}

// New returns the sharding of one replica, which does nothing before the manager that it is
// attached to starts. It asks the API for nothing. The error names every option that is wrong.
func New(config *rest.Config, options Options) (*Sharding, error) {
	options = options.withDefaults()
	if err := options.Validate(); err != nil {
		return nil, err
	}
	return &Sharding{options: options, config: config}, nil
}

// ManagerOptions changes the options of a manager that is to be sharded: a cache of scopes, a
// client whose mutating calls the guard must let pass, no leader election, and a graceful shutdown
// timeout of Options.ManagerGrace. An option for the cache's objects (ByObject) belongs in
// Options.ByObject.
func (s *Sharding) ManagerOptions(options *ctrl.Options) {}

// Attach adds the directory and the coordinator to a manager made with ManagerOptions. Call it
// before the manager starts.
func (s *Sharding) Attach(mgr ctrl.Manager) error { return nil }

// Reconciler returns a reconciler that lets only requests of held shards through to inner.
func (s *Sharding) Reconciler(inner reconcile.Reconciler) reconcile.Reconciler {
	return Wrap(s, inner, func(request reconcile.Request) string { return request.Namespace })
}

// Wrap is Reconciler for any type of request. namespaceOf names the namespace that a request works
// on.
func Wrap[R comparable](
	s *Sharding, inner reconcile.TypedReconciler[R], namespaceOf func(R) string,
) reconcile.TypedReconciler[R] {
	return guard.Wrap(s.guard, inner, namespaceOf)
}

// Guard returns the guard, which has what a controller may know about ownership: Check, Labels and
// Dropped.
func (s *Sharding) Guard() *Guard { return s.guard }

// Dropped registers a function that is called with each namespace that this replica no longer owns.
func (s *Sharding) Dropped(f func(namespace string)) { s.guard.Dropped(f) }

// ReadyCheck is a healthz.Checker for /readyz: nil once this process is recorded as serving in P
// and admits every shard whose home it is, or 60 s after it started; from then on it stays nil.
func (s *Sharding) ReadyCheck(_ *http.Request) error { return nil }

// Identity returns the present identity of this process, empty before it has one.
func (s *Sharding) Identity() Identity { return "" }

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

// Snapshot returns what this replica knows at the moment.
func (s *Sharding) Snapshot() Snapshot { return Snapshot{} }

// Snapshot is one replica's view, for status pages, logs and tests.
type Snapshot struct {
	Identity  Identity
	State     placement.State
	Placement placement.Placement // as last read; Version is empty before
	Shards    []ShardSnapshot     // all shards, by number
	Ready     bool
}

// ShardSnapshot is one shard in one replica's view.
type ShardSnapshot struct {
	Shard  Shard
	Home   Member // who it belongs to
	Acting Member // who is to act for it; empty if nobody is live
	Epoch  Epoch  // of this replica's claim; empty if it has none
	State  string // idle, warming, warm, claiming, held, admitting, stalled, draining, releasing
	Scopes int    // namespaces that this replica caches of it
}
