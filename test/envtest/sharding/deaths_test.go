package sharding

import (
	stderrors "errors"
	"testing"
	"time"

	"example.com/redis-operator/sharding"
)

// withLongLeases makes sure that what is over soon was not waited out.
func (i *installation) withLongLeases() {
	i.options.LeaseDuration, i.options.RenewDeadline, i.options.RetryPeriod = 30*time.Second, 20*time.Second, time.Second
	i.options.HandoverBound, i.options.ManagerGrace, i.options.PodGrace = 8*time.Second, 25*time.Second, 40*time.Second
}

// soon is well before a long Lease runs out.
func (i *installation) assertSoon(since time.Time, what string) {
	i.t.Helper()
	if took := time.Since(since); took > 15*time.Second {
		i.t.Errorf("%s took %s: the Lease was waited for", what, took)
	} else {
		i.t.Logf("%s took %s", what, took)
	}
}

// A death that the kubelet confirms is acted upon at once.
func TestConfirmedDeath(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, 4)
	i.withLongLeases()
	i.seedLeases()
	namespaces := i.share()
	dead := i.replicas[0]
	identity := dead.sharding.Identity()
	dead.kill()
	start := time.Now()
	i.reportDeath(0, identity)
	i.eventually("the other replica serves everything", func() string { return i.isServedBy(i.replicas[1]) })
	i.assertSoon(start, "taking over from a confirmed death")
	i.eventually("every root object is reconciled", func() string { return i.isReconciled(namespaces) })
}

// A new process in the same Pod takes over from its predecessor at once: the kubelet never runs two.
func TestContainerRestarted(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, 4)
	i.withLongLeases()
	i.seedLeases()
	namespaces := i.share()
	before := i.replicas[0].sharding.Identity()
	i.replicas[0].kill()
	start := time.Now()
	restarted := i.startIn(0)
	i.eventually("two replicas share", func() string { return i.isBalanced(2) })
	i.assertSoon(start, "taking over from the predecessor in the Pod")
	i.eventually("every root object is reconciled", func() string { return i.isReconciled(namespaces) })
	if restarted.sharding.Identity() == before {
		t.Error("the new process has the identity of the old one")
	}
}

// A death that nobody confirms is believed when the Lease has run out.
func TestExpiredDeath(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, 4)
	namespaces := i.share()
	i.replicas[0].kill()
	i.eventually("the other replica serves everything", func() string { return i.isServedBy(i.replicas[1]) })
	i.eventually("every root object is reconciled", func() string { return i.isReconciled(namespaces) })
}

// A Pod object that is gone proves nothing: its process runs on, and hands over to the process of the
// Pod that has taken its name, and only then ends.
func TestForceDeletedPod(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, 4)
	i.withLongLeases()
	i.seedLeases()
	namespaces := i.share()
	old := i.replicas[0]
	i.deletePod(0)
	i.start(0)
	i.waitFor(old)
	if !stderrors.Is(old.err, sharding.ErrPodGone) {
		t.Errorf("the process of the deleted Pod ended with %v, want ErrPodGone", old.err)
	}
	i.eventually("two replicas share", func() string { return i.isBalanced(2) })
	i.eventually("every root object is reconciled", func() string { return i.isReconciled(namespaces) })
	if reason := old.exited.Load(); reason != nil {
		t.Errorf("it would have exited with calls in flight: %s", *reason)
	}
}

// isServedBy says what is missing until one replica serves every shard.
func (i *installation) isServedBy(r *replica) string {
	if n := len(r.sharding.Snapshot().Admitted()); n < i.options.Shards {
		return r.member + " does not serve all shards"
	}
	return ""
}
