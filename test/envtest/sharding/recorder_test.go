package sharding

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"example.com/redis-operator/sharding"
)

// recorder sees every call of every replica and checks that they exclude each other (I1): never two
// identities in one shard at a time, and no call of an older epoch after the first of a newer.
type recorder struct {
	mu       sync.Mutex // guards everything below
	busy     map[sharding.Shard]sharding.Identity
	inside   map[sharding.Shard]int
	epochs   map[sharding.Shard]sharding.Epoch
	owners   map[sharding.Shard][]sharding.Identity // each change of owner, by first call
	calls    map[string]map[sharding.Identity]int   // by namespace/name
	last     time.Time
	problems []string
}

func newRecorder() *recorder {
	return &recorder{
		busy: map[sharding.Shard]sharding.Identity{}, inside: map[sharding.Shard]int{},
		epochs: map[sharding.Shard]sharding.Epoch{}, owners: map[sharding.Shard][]sharding.Identity{},
		calls: map[string]map[sharding.Identity]int{},
	}
}

// call is one call that changes something, begun after a Check and ended by the answer.
func (r *recorder) call(shard sharding.Shard, epoch sharding.Epoch, identity sharding.Identity, key string) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = time.Now()
	if other := r.busy[shard]; other != identity && r.inside[shard] > 0 {
		r.problem("%s calls in shard %d while a call of %s is in flight", identity, shard, other)
	}
	if before := r.epochs[shard]; before != "" {
		if order, err := resourceversion.CompareResourceVersion(string(epoch), string(before)); err != nil || order < 0 {
			r.problem("%s calls in shard %d under epoch %s after epoch %s", identity, shard, epoch, before)
		}
	}
	if owners := r.owners[shard]; len(owners) == 0 || owners[len(owners)-1] != identity {
		r.owners[shard] = append(owners, identity)
	}
	r.epochs[shard] = epoch
	r.busy[shard] = identity
	r.inside[shard]++
	if r.calls[key] == nil {
		r.calls[key] = map[sharding.Identity]int{}
	}
	r.calls[key][identity]++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.inside[shard]--
		r.last = time.Now()
	}
}

func (r *recorder) problem(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// count is how often a replica has called for an object.
func (r *recorder) count(key string, identity sharding.Identity) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[key][identity]
}

// byObject is how often anybody has called for each object.
func (r *recorder) byObject() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	totals := map[string]int{}
	for key, by := range r.calls {
		for _, n := range by {
			totals[key] += n
		}
	}
	return totals
}

// total is how often anybody has called.
func (r *recorder) total() int {
	total := 0
	for _, n := range r.byObject() {
		total += n
	}
	return total
}

// ownersOf is who has called in a shard, in order, each change once.
func (r *recorder) ownersOf(shard sharding.Shard) []sharding.Identity {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]sharding.Identity(nil), r.owners[shard]...)
}
