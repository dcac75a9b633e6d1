package sharding

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/guard"
	"example.com/redis-operator/sharding/placement"
)

// Defaults of Options.
const (
	DefaultInstallation   = "redis-operator"
	DefaultShards         = 64
	DefaultShardLabel     = "cache.example.com/shard"
	DefaultLeaseDuration  = 10 * time.Second
	DefaultRenewDeadline  = 7 * time.Second
	DefaultRetryPeriod    = 2 * time.Second
	DefaultHandoverBound  = 20 * time.Second
	DefaultManagerGrace   = 30 * time.Second
	DefaultPodGrace       = 45 * time.Second
	DefaultDrainBound     = 5 * time.Second
	DefaultFoldWeights    = 5 * time.Minute
	DefaultTerminationLog = "/dev/termination-log"
)

const (
	// settleAfterUnclean is how long a new owner waits before its first write after a takeover
	// from a process that did not release: several API servers each have their own lag.
	settleAfterUnclean = 250 * time.Millisecond
	// handoversAtOnce is how many shards a process hands over at the same time, from the drain until the
	// winner is seen to hold the Lease; with very many shards it is one for each shardsPerHandover of them.
	// One counts for handoverPatience at most: what takes longer waits
	// for something of its own, and the others need not wait for that.
	handoversAtOnce   = 4
	shardsPerHandover = 64
	handoverPatience  = time.Second
	// announceBound is for how long shards that are warm wait for others that are being loaded.
	announceBound = 5 * time.Second
	// readyBound is how long /readyz waits for the home shards before it is latched anyway.
	readyBound = 60 * time.Second
)

// Options of New. Namespace and Member are required, and one of StatefulSet and Members; the zero
// values of all others are the defaults that their comments name.
type Options struct {
	// Installation is part of every Lease, ConfigMap and label of this installation; default
	// redis-operator. Two installations in one cluster need two names.
	Installation string
	// Namespace is the operator's own namespace: Leases, P, Pods and the StatefulSet live there.
	Namespace string
	// Member is the name of this process's Pod.
	Member string
	// PodUID is the UID of this process's Pod. Empty means that it is read from the API when
	// StatefulSet is set, and that the process has no Pod otherwise.
	PodUID string
	// StatefulSet names the operator's StatefulSet, whose spec.replicas gives the expected
	// members. Empty means that Members is used.
	StatefulSet string
	// Members is the fixed list of expected members without a StatefulSet (tests, make run).
	Members []string
	// Shards is the number S of shards, fixed for an installation; default 64. A process whose
	// S or Hash differs from P's refuses to start.
	Shards int
	// Hash names the function from namespace to shard; default is placement's.
	Hash string
	// ShardLabel is the key of the label that carries an object's shard; default
	// cache.example.com/shard.
	ShardLabel string

	// LeaseDuration, RenewDeadline and RetryPeriod time the shard and presence Leases; defaults
	// 10 s, 7 s and 2 s. Whole seconds are needed for LeaseDuration. P's values are taken over
	// with a warning where they differ.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// HandoverBound is how long a stopping process goes on to hand its shards over to warm
	// winners; default 20 s. ManagerGrace is the manager's graceful shutdown timeout (default
	// 30 s), PodGrace the Pod's termination grace period (default 45 s):
	// HandoverBound + DrainBound + RenewDeadline/2 < ManagerGrace < PodGrace, since a stop ends with
	// drains and a last request.
	HandoverBound, ManagerGrace, PodGrace time.Duration
	// DrainBound is how long one planned drain may take before the shard is admitted again, the
	// overrun reported, and the drain tried again later; default 5 s.
	DrainBound time.Duration
	// FoldWeights is how often the weights of the shards may change at most; default 5 min. What a
	// shard costs is measured, and published if it has changed, every fifth of that.
	FoldWeights time.Duration

	// RootKinds are the kinds whose objects make a namespace worth a scope. At least one.
	RootKinds []schema.GroupVersionKind
	// ByObject restricts what the scopes cache, as in cache.Options.
	ByObject map[client.Object]cache.ByObject
	// SharedNamespaces are cached by every replica, whoever owns them. A List over all namespaces
	// includes them on every replica.
	SharedNamespaces []string
	// Kinds are cached in every scope from its start, for kinds that are read and not watched.
	Kinds []client.Object
	// Exempt are the resources that the manager's client may write without an admission, in
	// addition to guard.DefaultExempt. Every other mutating call needs one.
	Exempt []guard.Resource

	// TerminationLog is the Pod's terminationMessagePath; default /dev/termination-log. The identity
	// is written to it if the file exists, as it does in every container. Without it the death of
	// this process is never confirmed: its shards wait for their Leases to run out.
	TerminationLog string
	// Registerer takes the sharding_* metrics; nil means that none are registered.
	Registerer prometheus.Registerer
	// Exit ends the process at once, when a mutating call is still in flight at a claim's
	// deadline; default os.Exit(1) after the reason was logged.
	Exit func(reason string)
}

// withDefaults returns o with every zero value replaced by its default.
func (o Options) withDefaults() Options {
	setDefault(&o.Installation, DefaultInstallation)
	setDefault(&o.Shards, DefaultShards)
	setDefault(&o.Hash, placement.HashFNV1aMix)
	setDefault(&o.ShardLabel, DefaultShardLabel)
	setDefault(&o.LeaseDuration, DefaultLeaseDuration)
	setDefault(&o.RenewDeadline, DefaultRenewDeadline)
	setDefault(&o.RetryPeriod, DefaultRetryPeriod)
	setDefault(&o.HandoverBound, DefaultHandoverBound)
	setDefault(&o.ManagerGrace, DefaultManagerGrace)
	setDefault(&o.PodGrace, DefaultPodGrace)
	setDefault(&o.DrainBound, DefaultDrainBound)
	setDefault(&o.FoldWeights, DefaultFoldWeights)
	setDefault(&o.TerminationLog, DefaultTerminationLog)
	if o.Exit == nil {
		o.Exit = func(string) { os.Exit(1) }
	}
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports every setting that is missing, impossible, or breaks an inequality that I1 or
// the stop order rests on. A zero value counts as its default.
func (o Options) Validate() error {
	o = o.withDefaults()
	return errors.Join(append(o.validateNames(), o.validateTimings()...)...)
}

func (o Options) validateNames() []error {
	var errs []error
	if o.Namespace == "" {
		errs = append(errs, errors.New("Namespace is required: the operator's own namespace"))
	}
	if o.Member == "" {
		errs = append(errs, errors.New("Member is required: the name of this process's Pod"))
	}
	if (o.StatefulSet == "") == (len(o.Members) == 0) {
		errs = append(errs, errors.New("exactly one of StatefulSet and Members is required"))
	}
	if err := o.settings().Validate(); err != nil {
		errs = append(errs, fmt.Errorf("Shards and Hash: %w", err))
	}
	if len(o.RootKinds) == 0 {
		errs = append(errs, errors.New("RootKinds is required: the kinds that make a namespace worth a scope"))
	}
	for _, problem := range validation.IsDNS1123Label(o.Installation) {
		errs = append(errs, fmt.Errorf("Installation %q: %s", o.Installation, problem))
	}
	for _, problem := range validation.IsQualifiedName(o.ShardLabel) {
		errs = append(errs, fmt.Errorf("ShardLabel %q: %s", o.ShardLabel, problem))
	}
	return errs
}

// validateTimings checks the inequalities of the stop order; those of the claims are the claims'.
func (o Options) validateTimings() []error {
	var errs []error
	less := func(aName string, a time.Duration, bName string, b time.Duration) {
		if a >= b {
			errs = append(errs, fmt.Errorf("%s (%s) must be less than %s (%s)", aName, a, bName, b))
		}
	}
	if err := o.claimTimings().Validate(); err != nil {
		errs = append(errs, err)
	}
	less("2 x RetryPeriod", o.RetryPeriod*2, "LeaseDuration", o.LeaseDuration)
	less("LeaseDuration / 2", o.LeaseDuration/2, "FoldWeights", o.FoldWeights)
	less("DrainBound", o.DrainBound, "HandoverBound", o.HandoverBound)
	// A stop waits for winners, then for drains, then takes the presence Lease away.
	request := o.claimTimings().ClientTimeout()
	if o.HandoverBound+o.DrainBound+request >= o.ManagerGrace {
		errs = append(errs, fmt.Errorf("HandoverBound (%s) + DrainBound (%s) + one request (%s, half of RenewDeadline) "+
			"must be less than ManagerGrace (%s)", o.HandoverBound, o.DrainBound, request, o.ManagerGrace))
	}
	less("ManagerGrace", o.ManagerGrace, "PodGrace", o.PodGrace)
	return errs
}

func (o Options) settings() placement.Settings {
	return placement.Settings{Shards: o.Shards, Hash: o.Hash}
}

// timings are what P records; withTimings takes over what another process has recorded.
func (o Options) timings() placement.Timings {
	return placement.Timings{
		LeaseDuration: o.LeaseDuration, RenewDeadline: o.RenewDeadline, RetryPeriod: o.RetryPeriod,
	}
}

func (o Options) withTimings(t placement.Timings) Options {
	o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = t.LeaseDuration, t.RenewDeadline, t.RetryPeriod
	return o
}

// claimTimings leaves calls that are cancelled 2 s to end before the claim's deadline, and less
// where the Lease is so short that the renew deadline does not leave that much.
func (o Options) claimTimings() claim.Timings {
	return claim.Timings{
		LeaseDuration: o.LeaseDuration, RenewDeadline: o.RenewDeadline, RetryPeriod: o.RetryPeriod,
		CancelLead: min(2*time.Second, (o.LeaseDuration-o.RenewDeadline)*2/3),
	}
}
