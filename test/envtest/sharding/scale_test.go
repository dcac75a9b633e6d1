package sharding

import (
	"fmt"
	"testing"
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
	for _, namespace := range namespaces {
		owner := i.ownerOf(namespace)
		if owner == nil {
			return "nobody owns " + namespace
		}
		if i.recorder.count(namespace+"/root", owner.sharding.Identity()) == 0 {
			return fmt.Sprintf("%s has not reconciled %s", owner.member, namespace)
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
