package plan_test

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"example.com/redis-operator/controllers/redis"
	"example.com/redis-operator/controllers/redis/redistest"
	"example.com/redis-operator/controllers/topology"
)

// BenchmarkFormation forms 3 primaries with a replica each on bare processes: by the planner, and by redis-cli --cluster
// create until all replicas are linked, with the same configuration. It reports milliseconds from the start of the last
// process until the cluster is settled; the servers' own floor is 2,000.
func BenchmarkFormation(b *testing.B) {
	b.Run("planner", func(b *testing.B) {
		var sum time.Duration
		for range b.N {
			l := newLab(b, labOptions{size: 3, replicas: 1})
			l.settle()
			sum += time.Since(lastStart(l.servers()))
			l.stop()
		}
		b.ReportMetric(float64(sum.Milliseconds())/float64(b.N), "ms-from-start")
	})
	b.Run("redis-cli", func(b *testing.B) {
		var sum time.Duration
		for range b.N {
			l := newLab(b, labOptions{size: 3, replicas: 1})
			createWithCLI(b, l)
			sum += time.Since(lastStart(l.servers()))
			l.stop()
		}
		b.ReportMetric(float64(sum.Milliseconds())/float64(b.N), "ms-from-start")
	})
}

func (l *lab) servers() []*redistest.Server {
	var out []*redistest.Server
	for _, p := range l.pods {
		out = append(out, p.server)
	}
	return out
}

func (l *lab) stop() {
	for _, s := range l.servers() {
		s.Kill()
	}
}

func lastStart(servers []*redistest.Server) (last time.Time) {
	for _, s := range servers {
		if s.Started.After(last) {
			last = s.Started
		}
	}
	return last
}

// createWithCLI runs redis-cli as soon as all servers listen, and waits for the replicas' links and for every node to
// say that the cluster is up.
func createWithCLI(b *testing.B, l *lab) {
	b.Helper()
	args := []string{"--cluster", "create"}
	for _, p := range l.pods {
		l.awaitPort(p)
		args = append(args, p.Address.String())
	}
	args = append(args, "--cluster-replicas", "1", "--cluster-yes")
	if out, err := exec.CommandContext(b.Context(), "redis-cli", args...).CombinedOutput(); err != nil {
		b.Fatalf("redis-cli: %v\n%s", err, out)
	}
	for range 1000 {
		if isUp(b.Context(), l) {
			return
		}
		l.wait(20 * time.Millisecond)
	}
	b.Fatal("redis-cli's cluster never came up")
}

func isUp(ctx context.Context, l *lab) bool {
	for _, p := range l.pods {
		s := redis.Observe(ctx, l.node(p))
		if !s.ClusterOK || s.Role == topology.RoleReplica && !s.LinkUp {
			return false
		}
	}
	return true
}
