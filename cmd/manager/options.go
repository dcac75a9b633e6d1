package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"example.com/redis-operator/sharding"
)

// Defaults of Options that are not the library's.
const (
	defaultNamespace = "redis-operator-system"
	defaultWorkers   = 32
	defaultRolling   = 10
	// qpsPerWorker bounds what one busy worker may ask of the API server a second. A pass reads from
	// the cache and writes a few objects at most, so that the limit only stops a runaway loop.
	qpsPerWorker = 10
)

// Options are the settings of one operator process. ParseOptions fills them from flags and the
// environment; they are not changed afterwards.
type Options struct {
	// MetricsAddress and ProbeAddress are where /metrics, and /healthz and /readyz, are served.
	MetricsAddress, ProbeAddress string

	// Installation is the name of this installation in Leases, ConfigMaps and policies. It does not
	// part two of them: each would act on every RedisCluster of the cluster.
	Installation string
	// Namespace is the operator's own namespace.
	Namespace string
	// PodName and PodUID say which Pod this process runs in. Outside a cluster PodName is the host's
	// name and PodUID is empty.
	PodName, PodUID string
	// StatefulSet is the operator's StatefulSet. Empty outside a cluster, where this process is the
	// only member.
	StatefulSet string
	// Shards is the number S of shards, fixed for an installation.
	Shards int

	// LeaseDuration, RenewDeadline and RetryPeriod time the Leases.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// HandoverTimeout bounds the handing over of shards at a stop, ShutdownTimeout the whole stop of
	// the manager, PodGrace is the Pod's termination grace period: each less than the next.
	HandoverTimeout, ShutdownTimeout, PodGrace time.Duration

	// Workers is how many RedisClusters this process reconciles at the same time.
	Workers int
	// MaxRolling is how many RedisClusters this process rolls at the same time.
	MaxRolling int
	// QPS and Burst limit the requests to the API server. Zero means by the number of workers.
	QPS   float64
	Burst int

	// Log holds what the --zap flags and LOG_LEVEL say.
	Log zap.Options
}

// ParseOptions reads flags and the environment (getenv), and validates. It returns flag.ErrHelp when
// help was asked for and written to usage.
func ParseOptions(arguments []string, getenv func(string) string, usage io.Writer) (Options, error) {
	options := Options{
		Namespace: getenv("POD_NAMESPACE"),
		PodName:   getenv("POD_NAME"),
		PodUID:    getenv("POD_UID"),
	}
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	flags.SetOutput(usage)
	options.bind(flags)
	if level := getenv("LOG_LEVEL"); level != "" {
		if err := flags.Set("zap-log-level", level); err != nil {
			return Options{}, fmt.Errorf("reading LOG_LEVEL: %w", err)
		}
	}
	if err := flags.Parse(arguments); err != nil {
		return Options{}, err
	}
	if flags.NArg() > 0 {
		return Options{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err := options.complete(); err != nil {
		return Options{}, err
	}
	return options, options.Validate()
}

// bind declares the flags. What the environment gave is their default.
func (o *Options) bind(flags *flag.FlagSet) {
	flags.StringVar(&o.MetricsAddress, "metrics-bind-address", ":8080", "Address of /metrics.")
	flags.StringVar(&o.ProbeAddress, "health-probe-bind-address", ":8081", "Address of /healthz and /readyz.")

	flags.StringVar(&o.Installation, "installation", sharding.DefaultInstallation,
		"Name of this installation in Leases and the placement object. A cluster takes one installation.")
	flags.StringVar(&o.Namespace, "namespace", o.Namespace,
		"The operator's own namespace. (default $POD_NAMESPACE, else "+defaultNamespace+")")
	flags.StringVar(&o.PodName, "pod-name", o.PodName, "Name of this process's Pod. (default $POD_NAME, else the host's name)")
	flags.StringVar(&o.PodUID, "pod-uid", o.PodUID, "UID of this process's Pod. (default $POD_UID)")
	flags.StringVar(&o.StatefulSet, "statefulset", "",
		"The operator's StatefulSet, whose replicas are the members. (default: $POD_NAME without its ordinal; without a Pod this process is the only member)")
	flags.IntVar(&o.Shards, "shards", sharding.DefaultShards, "Number of shards, fixed for an installation. 1 gives one active leader.")

	flags.DurationVar(&o.LeaseDuration, "lease-duration", sharding.DefaultLeaseDuration,
		"How long a Lease that is not renewed is respected. Whole seconds.")
	flags.DurationVar(&o.RenewDeadline, "renew-deadline", sharding.DefaultRenewDeadline,
		"How long renewals may fail before this process stops admitting work.")
	flags.DurationVar(&o.RetryPeriod, "retry-period", sharding.DefaultRetryPeriod, "Time between renewals.")
	flags.DurationVar(&o.HandoverTimeout, "handover-timeout", sharding.DefaultHandoverBound,
		"How long a stopping process goes on working until others are ready to take its shards.")
	flags.DurationVar(&o.ShutdownTimeout, "graceful-shutdown-timeout", sharding.DefaultManagerGrace,
		"How long the whole stop may take; more than --handover-timeout, a drain of 5s and half of --renew-deadline together.")
	flags.DurationVar(&o.PodGrace, "pod-grace-period", sharding.DefaultPodGrace,
		"The Pod's terminationGracePeriodSeconds; more than --graceful-shutdown-timeout.")

	flags.IntVar(&o.Workers, "workers", defaultWorkers, "RedisClusters reconciled at the same time.")
	flags.IntVar(&o.MaxRolling, "max-rolling-clusters", defaultRolling,
		"RedisClusters whose nodes this replica replaces at the same time; the installation's bound is this times its replicas.")
	flags.Float64Var(&o.QPS, "kube-api-qps", 0, "Requests a second to the API server. (default 10 for each worker)")
	flags.IntVar(&o.Burst, "kube-api-burst", 0, "Requests at once to the API server. (default 20 for each worker)")

	config.RegisterFlags(flags)
	o.Log.TimeEncoder = zapcore.RFC3339NanoTimeEncoder
	o.Log.BindFlags(flags)
}

// complete fills in what follows from other settings.
func (o *Options) complete() error {
	if o.Namespace == "" {
		o.Namespace = defaultNamespace
	}
	if o.StatefulSet == "" {
		if name, _, ok := cutLast(o.PodName, "-"); ok && o.PodUID != "" {
			o.StatefulSet = name
		}
	}
	if o.PodName == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("reading the host's name, since there is no POD_NAME: %w", err)
		}
		o.PodName = strings.ToLower(host)
	}
	if o.QPS == 0 {
		o.QPS = float64(o.Workers * qpsPerWorker)
	}
	if o.Burst == 0 {
		o.Burst = 2 * o.Workers * qpsPerWorker
	}
	return nil
}

// cutLast cuts s around the last instance of separator.
func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(separator):], true
}

// Validate reports every setting that cannot be. Zero is refused here, since to the library it would
// mean the default; the rest, with the order of the timings, is checked as the library does it.
func (o Options) Validate() error {
	var errs []error
	positive := func(name string, ok bool, value any) {
		if !ok {
			errs = append(errs, fmt.Errorf("--%s is %v; it must be positive", name, value))
		}
	}
	positive("shards", o.Shards > 0, o.Shards)
	positive("workers", o.Workers > 0, o.Workers)
	positive("max-rolling-clusters", o.MaxRolling > 0, o.MaxRolling)
	positive("kube-api-qps", o.QPS > 0, o.QPS)
	positive("kube-api-burst", o.Burst > 0, o.Burst)
	for name, value := range map[string]time.Duration{
		"lease-duration": o.LeaseDuration, "renew-deadline": o.RenewDeadline, "retry-period": o.RetryPeriod,
		"handover-timeout": o.HandoverTimeout, "graceful-shutdown-timeout": o.ShutdownTimeout, "pod-grace-period": o.PodGrace,
	} {
		positive(name, value > 0, value)
	}
	if o.Installation == "" {
		errs = append(errs, errors.New("--installation is empty"))
	}
	if len(errs) == 0 {
		return namedByFlags(shardingOptions(o).Validate())
	}
	return errors.Join(errs...)
}

// namedByFlags is an error of the library's timings with their flags in place of its options.
func namedByFlags(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.NewReplacer(
		"LeaseDuration", "--lease-duration", "RenewDeadline", "--renew-deadline", "RetryPeriod", "--retry-period",
		"HandoverBound", "--handover-timeout", "ManagerGrace", "--graceful-shutdown-timeout", "PodGrace", "--pod-grace-period",
	).Replace(err.Error()))
}
