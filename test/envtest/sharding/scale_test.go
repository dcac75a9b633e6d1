package sharding

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestScaleOutAndIn(t *testing.T) {
	i := newInstallation(t, 8)
	namespaces := i.fill(12)
	i.start(0)
	i.eventually("one replica serves everything", i.isServed)
	i.eventually("every root object is reconciled", func() string { return i.isReconciled(namespaces) })

	i.scale(3)
	i.start(1)
	i.start(2)
	i.eventually("three replicas share", func() string { return i.isBalanced(3) })
	i.eventually("every root object is reconciled by its new owner", func() string { return i.isReconciled(namespaces) })

	i.scale(2)
	i.replicas[2].stop()
	i.eventually("two replicas share", func() string { return i.isBalanced(2) })
	i.eventually("every root object is reconciled by its new owner", func() string { return i.isReconciled(namespaces) })
	i.assertNoOverlap()
}

// assertNoOverlap asserts by the logged times that nobody admitted a shard before the last owner had
// stopped (I1), and logs the gaps.
func (i *installation) assertNoOverlap() {
	i.t.Helper()
	type turn struct {
		at    int64
		opens bool
	}
	turns := map[string][]turn{}
	for _, r := range i.replicas {
		for message, opens := range map[string]bool{"Admitted shard": true, "Stopped admitting shard": false} {
			for shard, times := range r.log.times(message) {
				for _, at := range times {
					turns[shard] = append(turns[shard], turn{at, opens})
				}
			}
		}
	}
	if len(turns) != i.options.Shards {
		i.t.Fatalf("the logs name %d shards, want %d", len(turns), i.options.Shards)
	}
	var gaps []time.Duration
	for shard, of := range turns {
		slices.SortFunc(of, func(a, b turn) int { return cmp.Compare(a.at, b.at) })
		for n, now := range of {
			if now.opens != (n%2 == 0) {
				i.t.Errorf("I1: shard %s was admitted and stopped in the order %v", shard, of)
				break
			}
			if n > 0 && now.opens {
				gaps = append(gaps, time.Duration(now.at-of[n-1].at))
			}
		}
	}
	slices.Sort(gaps)
	i.t.Logf("%d handovers, gaps %v", len(gaps), gaps)
}

// isBalanced says what is missing until members replicas serve floor or ceil of the mean each.
func (i *installation) isBalanced(members int) string {
	if lacks := i.isServed(); lacks != "" {
		return lacks
	}
	floor := i.options.Shards / members
	balance := i.balance()
	for _, member := range sorted(balance) {
		if n := balance[member]; n < floor || n > floor+1 || len(balance) != members {
			return fmt.Sprintf("the balance is %v", balance)
		}
	}
	return ""
}

// isReconciled says what is missing until the present owner of each namespace has reconciled it (I5).
func (i *installation) isReconciled(namespaces []string) string {
	return i.isObjectReconciled(namespaces, "root")
}

// isObjectReconciled is the same for the object of another name in each namespace.
func (i *installation) isObjectReconciled(namespaces []string, name string) string {
	for _, namespace := range namespaces {
		owner := i.ownerOf(namespace)
		if owner == nil {
			return "nobody owns " + namespace
		}
		if i.recorder.count(namespace+"/"+name, owner.sharding.Identity()) == 0 {
			return fmt.Sprintf("%s has not reconciled %s/%s", owner.member, namespace, name)
		}
	}
	return ""
}

// ownerOf is the running replica that admits work of a namespace.
func (i *installation) ownerOf(namespace string) *replica {
	for _, r := range i.replicas {
		if r.dead.Load() {
			continue
		}
		s := r.sharding.Snapshot()
		if shard := r.sharding.ShardOf(namespace); len(s.Shards) > 0 && s.Shards[shard].State == "admitting" {
			return r
		}
	}
	return nil
}
