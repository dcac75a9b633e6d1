package bench

import (
	"math"
	"os"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	redisv1 "example.com/redis-operator/api/v1"
)

func TestNodeAddressesDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for cluster := range 20000 {
		for group := range scaleoutPrimaries {
			for ordinal := range 1 + scaleoutReplicas {
				address := nodeAddress(7000, cluster, group, ordinal).String()
				if seen[address] {
					t.Fatalf("node %d of group %d of cluster %d has the address %s of another", ordinal, group, cluster, address)
				}
				seen[address] = true
			}
		}
	}
}

func TestUsageUntil(t *testing.T) {
	t.Parallel()
	start := time.Now()
	before := usage{at: start, busy: time.Second, total: 10 * time.Second, replicas: []time.Duration{time.Second, 2 * time.Second}}
	after := usage{
		at: start.Add(10 * time.Second), busy: 16 * time.Second, total: 30 * time.Second, apiServer: 5 * time.Second,
		replicas: []time.Duration{2 * time.Second, 2*time.Second + 900*time.Millisecond},
	}
	got := before.until(after, 0.1)
	for name, pair := range map[string][2]float64{
		"host": {got.hostUsed, 0.75}, "API server": {got.apiServerCores, 0.5}, "limit": {got.limitUsed, 0.9},
	} {
		if math.Abs(pair[0]-pair[1]) > 1e-9 {
			t.Errorf("%s: %g, want %g", name, pair[0], pair[1])
		}
	}
}

// TestClusterWatch has a batch end with the last status, and not with one of an older generation.
func TestClusterWatch(t *testing.T) {
	t.Parallel()
	w := &clusterWatch{states: map[client.ObjectKey]clusterState{}}
	see := func(name string, generation, observed int64) {
		w.see(&redisv1.RedisCluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, Generation: generation},
			Status:     redisv1.RedisClusterStatus{ObservedGeneration: observed, Phase: redisv1.PhaseReady},
		})
	}
	see("a", 3, 3)
	see("b", 1, 1)
	if w.settled() != 2 {
		t.Errorf("%d clusters are settled, want 2", w.settled())
	}
	done := w.begin()
	see("a", 4, 3)
	see("b", 2, 2)
	select {
	case <-done:
		t.Fatal("the batch is over, and a's status speaks of the spec before")
	default:
	}
	if w.left() != 1 || w.settled() != 1 {
		t.Errorf("%d left and %d settled, want 1 and 1", w.left(), w.settled())
	}
	see("a", 4, 4)
	select {
	case <-done:
	default:
		t.Fatal("the batch is not over")
	}
	see("a", 4, 4) // again, as after a relist
}

func TestParseMetric(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]struct {
		name  string
		value float64
	}{
		`workqueue_depth{controller="rediscluster",name="rediscluster",priority="0"} 12`: {"workqueue_depth", 12},
		"sharding_shards_owned 8":             {"sharding_shards_owned", 8},
		"# HELP sharding_shards_owned shards": {"", 0},
		"":                                    {"", 0},
	} {
		if name, value, err := parseMetric(line); err != nil || name != want.name || value != want.value {
			t.Errorf("%q is read as %q %g, %v", line, name, value, err)
		}
	}
	if _, _, err := parseMetric("workqueue_depth many"); err == nil {
		t.Error("no error for a value that is no number")
	}
}

func TestUsageOfThisProcess(t *testing.T) {
	t.Parallel()
	rss, err := residentSet(os.Getpid())
	if err != nil || rss < 1<<20 {
		t.Errorf("resident set %d, %v", rss, err)
	}
	if _, err := processorTime(os.Getpid()); err != nil {
		t.Error(err)
	}
	busy, total, err := hostTime()
	if err != nil || busy <= 0 || busy > total {
		t.Errorf("host: %s of %s, %v", busy, total, err)
	}
}
