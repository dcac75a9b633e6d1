package plan_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"example.com/redis-operator/controllers/rediscluster/plan"
	goredis "github.com/redis/go-redis/v9"
)

// TestRealFormation forms clusters of several shapes on real servers.
func TestRealFormation(t *testing.T) {
	t.Parallel()
	cases := map[string]labOptions{
		"1x0": {size: 1}, "1x1": {size: 1, replicas: 1}, "2x1": {size: 2, replicas: 1},
		"3x0": {size: 3}, "3x1": {size: 3, replicas: 1}, "3x2": {size: 3, replicas: 2}, "1x5": {size: 1, replicas: 5},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, tc)
			l.settle()
			if got := l.last.Facts.ReadyNodes; got != l.desired.Nodes() {
				t.Errorf("%d ready nodes, want %d", got, l.desired.Nodes())
			}
			l.set("a")
			l.mustStayQuiet()
		})
	}
}

// mustStayQuiet passes a few times and wants no step.
func (l *lab) mustStayQuiet() {
	l.t.Helper()
	for range 5 {
		if p := l.pass(); len(p.Steps) > 0 {
			l.t.Errorf("a settled cluster gets steps: %v", p.Steps)
		}
		l.wait(50 * time.Millisecond)
	}
}

// TestRealOperatorCrash forms a cluster though the operator dies after every k steps.
func TestRealOperatorCrash(t *testing.T) {
	t.Parallel()
	for _, k := range []int{1, 2, 3, 5} {
		t.Run(fmt.Sprintf("after %d steps", k), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, labOptions{size: 3, replicas: 1})
			l.stopAfter = k
			l.settle()
		})
	}
}

// TestRealLateNode has a node group whose Pods come late.
func TestRealLateNode(t *testing.T) {
	t.Parallel()
	l := newLab(t, labOptions{size: 3, replicas: 1, groups: 2})
	l.until("half formed", func(p plan.Plan) bool { return len(p.Steps) == 0 && p.Facts.ReadyNodes == 4 })
	l.addPod(2, 0, "")
	l.addPod(2, 1, "")
	l.settle()
}

// TestRealKilledPrimary kills a primary of each size, without storage: nothing that was acknowledged
// and replicated may be lost.
func TestRealKilledPrimary(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 2, 3} {
		t.Run(fmt.Sprintf("size %d", size), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, labOptions{size: size, replicas: 1})
			l.settle()
			l.set("a")
			old := l.primary(0)
			l.kill(old)
			l.pass()
			l.restart(old)
			l.until("promoted", func(p plan.Plan) bool {
				return p.Facts.Primaries[0] != "" && p.Facts.Primaries[0] != old.PodName
			})
			l.settle()
			l.mustHave("a")
		})
	}
}

// TestRealLostPod replaces a primary's Pod by one with a new ID.
func TestRealLostPod(t *testing.T) {
	t.Parallel()
	// With two replicas, one may have taken the dead primary's epoch when both were blank.
	cases := []labOptions{
		{size: 1, replicas: 1}, {size: 1, replicas: 2}, {size: 2, replicas: 1}, {size: 2, replicas: 2}, {size: 3, replicas: 2},
	}
	for _, tc := range cases {
		t.Run(fmt.Sprintf("size %d with %d replicas", tc.size, tc.replicas), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, tc)
			l.settle()
			l.set("a")
			l.replace(l.primary(0))
			l.settle()
			l.mustHave("a")
			for _, n := range l.view().Nodes {
				if len(n.Known) != l.desired.Nodes()-1 {
					t.Errorf("%s knows %d others", n.PodName, len(n.Known))
				}
			}
		})
	}
}

// TestRealAllAddressesChange restarts everything elsewhere, with its data.
func TestRealAllAddressesChange(t *testing.T) {
	t.Parallel()
	cases := map[string]labOptions{
		"with an append-only file": {size: 3, replicas: 1, storage: true, config: []string{"appendonly yes"}},
		"with snapshots":           {size: 3, replicas: 1, storage: true, config: []string{"save 3600 1"}},
		"size 1":                   {size: 1, replicas: 1, storage: true, config: []string{"appendonly yes"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, tc)
			l.settle()
			l.set("a")
			pods := append([]*labPod(nil), l.pods...)
			for _, p := range pods {
				p.server.Terminate()
			}
			for _, p := range pods {
				l.replace(p)
			}
			l.settle()
			l.mustHave("a")
		})
	}
}

// set writes keys that reach every group, and waits until the replicas have them.
func (l *lab) set(prefix string) {
	l.t.Helper()
	client := l.client()
	for i := range 100 {
		if err := client.Set(l.t.Context(), fmt.Sprint(prefix, i), "v", 0).Err(); err != nil {
			l.t.Fatalf("writing a key: %v", err)
		}
	}
	if l.desired.ReplicasPerPrimary == 0 {
		return
	}
	err := client.ForEachMaster(l.t.Context(), func(ctx context.Context, c *goredis.Client) error {
		return c.Do(ctx, "WAIT", l.desired.ReplicasPerPrimary, 5000).Err()
	})
	if err != nil {
		l.t.Fatalf("waiting for the replicas: %v", err)
	}
}

// mustHave reads all keys.
func (l *lab) mustHave(prefix string) {
	l.t.Helper()
	client := l.client()
	lost := 0
	for i := range 100 {
		if err := client.Get(l.t.Context(), fmt.Sprint(prefix, i)).Err(); err != nil {
			if lost++; lost == 1 {
				l.t.Errorf("reading a key: %v", err)
			}
		}
	}
	if lost > 0 {
		l.t.Errorf("%d of 100 keys are lost", lost)
	}
}

func (l *lab) client() *goredis.ClusterClient {
	addresses := make([]string, len(l.pods))
	for i, p := range l.pods {
		addresses[i] = p.Address.String()
	}
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: addresses, Protocol: 2})
	l.t.Cleanup(func() { _ = client.Close() })
	return client
}

// steps counts the steps of a kind in the trace.
func (l *lab) steps(kind plan.Kind) int {
	return strings.Count(strings.Join(l.trace, "\n"), " "+string(kind))
}
