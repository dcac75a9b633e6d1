package check

import (
	"hash/fnv"
	"time"
)

// Options describe the installation and what it promises.
type Options struct {
	// Namespace is the operator's own; Account is the user name of its service account.
	Namespace, Account string
	// LeasePrefix stands before the number in the names of the shard Leases, Placement is the name of the
	// ConfigMap that holds the placement.
	LeasePrefix, Placement string
	// RootResource is the kind of the root objects, as in "redisclusters.cache.example.com".
	RootResource string
	// ConnectionPrefix begins the names of the operator's connections to Redis.
	ConnectionPrefix string
	// Shards is S; ShardLabel carries an object's shard.
	Shards     int
	ShardLabel string
	// LeaseDuration is how long a Lease holds without a renewal.
	LeaseDuration time.Duration
	// GapBound is how long a shard may be without an owner after one disturbance.
	GapBound time.Duration
	// ObserveBound is how long a generation may stay unobserved while nothing is disturbed.
	ObserveBound time.Duration
}

// Window is a time in which something was broken on purpose.
type Window struct {
	What     string
	From, To time.Time
	// Outage: nobody can be expected to work in it, as when the API server is away.
	Outage bool
}

// shardOf is the documented hash: FNV-1a with 64 bits, mixed by the finaliser of MurmurHash3.
func (o Options) shardOf(namespace string) int {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(namespace)) // a hash never fails
	h := hash.Sum64()
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return int(h % uint64(o.Shards)) //nolint:gosec // G115: both are positive and small
}

// allowance is how long something that began at from, and had not ended before to, may last: until the
// bound after the last moment between the two at which a disturbance began or ended. An outage that
// lasts at the end explains everything.
func (o Options) allowance(bound time.Duration, from, to time.Time, windows []Window) time.Duration {
	last := from
	for _, w := range windows {
		for _, moment := range []time.Time{w.From, w.To} {
			if moment.After(last) && moment.Before(to) {
				last = moment
			}
		}
		if w.Outage && w.From.Before(to) && !w.To.Before(to) {
			last = to
		}
	}
	return last.Sub(from) + bound
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
