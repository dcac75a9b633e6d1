package claim

import (
	"errors"
	"fmt"
	"os"
	"time"

	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"example.com/redis-operator/sharding/placement"
)

// Timings are the durations of a claim. The zero value of a field is its default.
type Timings struct {
	// LeaseDuration is how long a claim lasts after its last successful write was sent, and how long
	// others wait without seeing a change before they take the Lease. Whole seconds, since the API
	// stores it so. Default 10 s.
	LeaseDuration time.Duration
	// RenewDeadline is the age of the last successful write at which work is no longer admitted.
	// Default 7 s.
	RenewDeadline time.Duration
	// RetryPeriod is the pause between two renewals, and between two attempts. Default 2 s.
	RetryPeriod time.Duration
	// CancelLead is how long before the claim's deadline contexts are cancelled and connections
	// closed, so that calls in flight have ended by then. Default 2 s.
	CancelLead time.Duration
}

// DefaultTimings are the timings of an installation that does not set any.
func DefaultTimings() Timings { return Timings{}.withDefaults() }

func (t Timings) withDefaults() Timings {
	set := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	set(&t.LeaseDuration, 10*time.Second)
	set(&t.RenewDeadline, 7*time.Second)
	set(&t.RetryPeriod, 2*time.Second)
	set(&t.CancelLead, 2*time.Second)
	return t
}

// Validate checks the order on which exclusion rests: renew, stop admitting, cancel, end.
func (t Timings) Validate() error {
	t = t.withDefaults()
	var errs []error
	if t.LeaseDuration < time.Second || t.LeaseDuration%time.Second != 0 {
		errs = append(errs, fmt.Errorf("LeaseDuration %s is not a whole number of seconds", t.LeaseDuration))
	}
	if t.RetryPeriod <= 0 || t.CancelLead <= 0 {
		errs = append(errs, fmt.Errorf("RetryPeriod %s and CancelLead %s have to be positive",
			t.RetryPeriod, t.CancelLead))
	}
	// The elector waits up to 1.2 retry periods between attempts and refuses a deadline below that.
	if 12*t.RetryPeriod >= 10*t.RenewDeadline {
		errs = append(errs, fmt.Errorf("RenewDeadline %s has to exceed 1.2 x RetryPeriod %s",
			t.RenewDeadline, t.RetryPeriod))
	}
	if t.RenewDeadline >= t.LeaseDuration-t.CancelLead {
		errs = append(errs, fmt.Errorf("RenewDeadline %s has to be below LeaseDuration %s - CancelLead %s",
			t.RenewDeadline, t.LeaseDuration, t.CancelLead))
	}
	return errors.Join(errs...)
}

// ClientTimeout bounds one request of the Lease client, so that a hung renewal leaves time for
// another attempt before the deadline.
func (t Timings) ClientTimeout() time.Duration {
	return max(time.Second, t.withDefaults().RenewDeadline/2)
}

// RESTConfig returns a copy of cfg for the client that drives claims and nothing else: its own
// timeout, and no client-side rate limit, since renewals queued behind a limit of 5 requests a second
// would run out their claims. It must not be wrapped by the guard.
func RESTConfig(cfg *rest.Config, t Timings) *rest.Config {
	c := rest.CopyConfig(cfg)
	c.Timeout = t.ClientTimeout()
	c.QPS = -1
	c.RateLimiter = nil
	return rest.AddUserAgent(c, "shard-claims")
}

// Options configure the claims of one process.
type Options struct {
	// Client reaches the Leases. It needs a configuration of its own, see RESTConfig. Required.
	Client coordinationv1client.LeasesGetter
	// Namespace holds the shard Leases: the operator's own. Required.
	Namespace string
	// Installation is the first part of each Lease's name and the value of InstallationLabel.
	// Default "redis-operator".
	Installation string
	// Settings are S and the hash, recorded in every Lease and compared on acquiring. Required.
	Settings placement.Settings
	// Identity is this process: podName_podUID_nonce. Required.
	Identity placement.Identity
	// Timings have defaults.
	Timings Timings

	// OnEvent is told what happens to a claim. Events of one claim come one at a time and in order,
	// each from a goroutine that holds no lock, so it may call back into the claim, Release included.
	// While it blocks, only the later events of that claim wait: not its renewals, not its deadline.
	OnEvent func(Event)
	// OnHolder is told when another holder than before is seen in the Lease, empty for a free or missing one.
	// It is called with the claim's lock held: it must be fast and must not call back into the claim. Default:
	// nobody is told.
	OnHolder func(placement.Shard, placement.Identity)
	// ConfirmedDead says whether an identity is dead beyond doubt, so that its Lease may be emptied
	// before it has expired. It must be fast and is called without locks. Default: never.
	ConfirmedDead func(placement.Identity) bool
	// InFlight is the number of mutating calls in flight of a shard that were admitted under the epoch
	// or an earlier one: Guard.MutatingUpTo. It is called without locks. Default: 0.
	InFlight func(placement.Shard, Epoch) int
	// Exit ends the process. It is called from the claim's own timer, at the deadline, if a mutating
	// call of the shard is then still in flight. Default: print the reason and os.Exit(1).
	Exit func(reason string)
	// Now is the clock, with its monotonic reading. Default time.Now.
	Now func() time.Time
	// Poll is how often a claim that waits for another holder reads the Lease by itself. Default
	// RetryPeriod; a Set, which watches, sets it to LeaseDuration.
	Poll time.Duration
}

func (o Options) withDefaults() Options {
	if o.Installation == "" {
		o.Installation = "redis-operator"
	}
	o.Timings = o.Timings.withDefaults()
	if o.OnEvent == nil {
		o.OnEvent = func(Event) {}
	}
	if o.OnHolder == nil {
		o.OnHolder = func(placement.Shard, placement.Identity) {}
	}
	if o.ConfirmedDead == nil {
		o.ConfirmedDead = func(placement.Identity) bool { return false }
	}
	if o.InFlight == nil {
		o.InFlight = func(placement.Shard, Epoch) int { return 0 }
	}
	if o.Exit == nil {
		o.Exit = func(reason string) {
			fmt.Fprintln(os.Stderr, "Exiting: "+reason)
			os.Exit(1)
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Poll == 0 {
		o.Poll = o.Timings.RetryPeriod
	}
	return o
}

// Validate checks that what is required is there and that the timings are in order.
func (o Options) Validate() error {
	var errs []error
	if o.Client == nil {
		errs = append(errs, errors.New("Client is missing"))
	}
	if o.Namespace == "" {
		errs = append(errs, errors.New("Namespace is missing"))
	}
	if o.Identity == "" {
		errs = append(errs, errors.New("Identity is missing"))
	}
	if o.Settings.Shards < 1 || o.Settings.Hash == "" {
		errs = append(errs, fmt.Errorf("Settings %+v name no shards or no hash", o.Settings))
	}
	if o.Poll < 0 {
		errs = append(errs, fmt.Errorf("Poll %s is negative", o.Poll))
	}
	return errors.Join(append(errs, o.Timings.Validate())...)
}
