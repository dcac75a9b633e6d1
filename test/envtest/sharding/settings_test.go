package sharding

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Settings live in P: a process with another S refuses to start, and says both values.
func TestOtherShardsRefuseToStart(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, 4)
	i.start(0)
	i.eventually("one replica serves everything", i.isServed)

	i.options.Shards = 6
	other := i.start(1)
	i.waitFor(other)
	if other.err == nil || !strings.Contains(other.err.Error(), "shards=6") || !strings.Contains(other.err.Error(), "shards=4") {
		t.Fatalf("a replica with other settings ended with %v, want an error with both values", other.err)
	}
	i.options.Shards = 4
	i.eventually("the first replica still serves everything", i.isServed)
}

// Without P the shard Leases still say what S is.
func TestShardLeasesRememberSettings(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, 4)
	first := i.start(0)
	i.eventually("one replica serves everything", i.isServed)
	first.stop()
	if err := i.api.CoreV1().ConfigMaps(i.namespace).Delete(t.Context(), i.name+"-placement", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}

	i.options.Shards = 6
	other := i.start(1)
	i.waitFor(other)
	if other.err == nil || !strings.Contains(other.err.Error(), "6") || !strings.Contains(other.err.Error(), "4") {
		t.Fatalf("a replica with other settings ended with %v, want an error with both values", other.err)
	}
}

// Other timings are taken over, with a warning.
func TestOtherTimingsAreTakenOver(t *testing.T) {
	t.Parallel()
	i := newInstallation(t, 4)
	i.scale(2)
	i.start(0)
	i.eventually("the first replica is serving", func() string {
		if len(i.replicas[0].sharding.Snapshot().Admitted()) == 0 {
			return "nothing is admitted"
		}
		return ""
	})

	i.options.LeaseDuration, i.options.RenewDeadline, i.options.RetryPeriod = 8*time.Second, 6*time.Second, time.Second
	second := i.start(1)
	i.eventually("two replicas share", func() string { return i.isBalanced(2) })
	if !second.log.contains("Warning: taking over the timings") {
		t.Error("taking over the timings was not logged")
	}
	leases, err := i.api.CoordinationV1().Leases(i.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, lease := range leases.Items {
		if got := *lease.Spec.LeaseDurationSeconds; got != 5 {
			t.Errorf("Lease %s lasts %d s, the installation's last 5 s", lease.Name, got)
		}
	}
}

// waitFor waits until a replica has ended.
func (i *installation) waitFor(r *replica) {
	i.t.Helper()
	i.eventually("ending "+r.member, func() string {
		select {
		case <-r.done:
			r.dead.Store(true)
			return ""
		default:
			return "it is running"
		}
	})
}
