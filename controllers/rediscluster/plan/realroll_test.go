package plan_test

import (
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
			l.until("rolled", func(p plan.Plan) bool { return p.Settled() && p.Roll.IsOver() })
			for _, p := range l.pods {
				if before[p.PodUID] {
					t.Errorf("%s was not replaced", p.PodName)
				}
			}
			l.mustHave("a")
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
