package plan_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"example.com/redis-operator/controllers/rediscluster/plan"
	"example.com/redis-operator/controllers/topology"
)

// TestRealRoll replaces every node of clusters of real servers, one by one and by graceful failovers alone. No key is
// lost, and the group never has another primary than one that was made for it.
func TestRealRoll(t *testing.T) {
	t.Parallel()
	cases := map[string]labOptions{
		"1x1": {size: 1, replicas: 1}, "2x1": {size: 2, replicas: 1}, "3x1": {size: 3, replicas: 1}, "1x2": {size: 1, replicas: 2},
		"3x1 with storage":          {size: 3, replicas: 1, storage: true, config: []string{"appendonly yes"}},
		"2x0 in place with storage": {size: 2, storage: true, config: []string{"appendonly yes"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, tc)
			l.settle()
			l.set("a")
			before := map[string]bool{}
			for _, p := range l.pods {
				p.Outdated, before[p.PodUID] = true, true
			}
			stop := l.write()
			l.until("rolled", func(p plan.Plan) bool { return p.Settled() && p.Roll.IsOver() })
			acknowledged, gap := stop()
			t.Logf("%d writes acknowledged, at most %s apart", len(acknowledged), gap)
			for _, p := range l.pods {
				if before[p.PodUID] {
					t.Errorf("%s was not replaced", p.PodName)
				}
			}
			l.mustHave("a")
			l.mustHaveKeysOf(acknowledged)
			if n := l.steps(plan.Takeover); n > 0 {
				t.Errorf("%d takeovers", n)
			}
			if n := l.steps(plan.Failover); tc.replicas > 0 && n != tc.size {
				t.Errorf("%d failovers, want one for each of %d primaries", n, tc.size)
			}
			l.mustStayQuiet()
		})
	}
}

// deletePod is what the operator does to a Pod whose server is what the step says; Kubernetes makes it anew.
func (l *lab) deletePod(p *labPod, s plan.Step) error {
	if s.NodeID != "" {
		myself, _, err := l.node(p).ClusterNodes(l.t.Context())
		if err != nil {
			return err
		}
		if myself.ID != s.NodeID || s.Kind == plan.Replace && myself.Role != topology.RoleReplica {
			return fmt.Errorf("%s is another node: %+v", p.PodName, myself)
		}
	}
	p.server.Terminate()
	l.replace(p)
	return nil
}

// failOver sends the step's command and notes when.
func (l *lab) failOver(p *labPod) error {
	p.FailoverAsked = time.Now()
	return l.node(p).Failover(l.t.Context())
}

// write writes keys until it is told to stop, and then tells which were acknowledged, and the longest time between two.
func (l *lab) write() (stop func() (acknowledged []string, gap time.Duration)) {
	client := l.client()
	ctx, cancel := context.WithCancel(l.t.Context())
	done := make(chan struct{})
	var acknowledged []string
	var gap time.Duration
	go func() {
		defer close(done)
		last := time.Now()
		for i := 0; ctx.Err() == nil; i++ {
			key := fmt.Sprint("w", i)
			if client.Set(l.t.Context(), key, "v", 0).Err() == nil {
				now := time.Now()
				gap, last = max(gap, now.Sub(last)), now
				acknowledged = append(acknowledged, key)
			}
			l.wait(5 * time.Millisecond)
		}
	}()
	return func() ([]string, time.Duration) {
		cancel()
		<-done
		return acknowledged, gap
	}
}

// mustHaveKeysOf reads keys that were acknowledged.
func (l *lab) mustHaveKeysOf(keys []string) {
	l.t.Helper()
	client := l.client()
	lost := 0
	for _, key := range keys {
		if client.Get(l.t.Context(), key).Err() != nil {
			lost++
		}
	}
	if lost > 0 || len(keys) == 0 {
		l.t.Errorf("%d of %d acknowledged keys are lost", lost, len(keys))
	}
}
