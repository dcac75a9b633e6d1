package rediscluster

import (
	"strings"
	"testing"
	"time"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/controllers/rediscluster/plan"
	"example.com/redis-operator/controllers/topology"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// input is that of a cluster of one group of two, whose nodes are as given.
func input(nodes ...topology.Node) statusInput {
	cluster := testCluster()
	cluster.Spec.Size = 1
	seen := &observation{cluster: cluster, effective: cluster, view: topology.View{Nodes: nodes}}
	return statusInput{seen: seen, shard: "5", now: time.Unix(1000, 0), next: plan.Plan{
		Phase: plan.PhaseForming, Facts: plan.Facts{Missing: topology.AllSlots()}, Reasons: []string{"2 of 2 Pods do not exist"},
	}}
}

func answering(name string, role topology.Role) topology.Node {
	n := topology.Node{Pod: topology.Pod{PodName: name, Address: topology.Address{IP: "10.0.0.1", Port: 6379}, ContainerRunning: true}}
	n.Reachable, n.Alive, n.ID, n.Role = true, true, "id-"+name, role
	return n
}

func settled(in statusInput) statusInput {
	in.seen.formed = true
	in.next = plan.Plan{Phase: plan.PhaseSettled, Facts: plan.Facts{
		Formed: true, Assigned: topology.AllSlots(), SlotsCovered: true, ReplicasLinked: true, Agreed: true, ReadyNodes: 2,
	}}
	return in
}

func TestComputeStatus(t *testing.T) {
	broken := func(in statusInput) statusInput {
		in.seen.formed = true
		in.next.Phase, in.next.Reasons = plan.PhaseRepairing, []string{"orders-0-1 does not run"}
		return in
	}
	was := func(phase redisv1.Phase, in statusInput) statusInput {
		in.seen.cluster.Status.Phase = phase
		return in
	}
	with := func(reason string, in statusInput) statusInput {
		in.problems = append(in.problems, problem{reason: reason, message: "it is so"})
		return in
	}
	paused := func(in statusInput) statusInput {
		in.seen.cluster.Spec.Paused = true
		return in
	}
	silent := answering("orders-0-1", topology.RoleUnknown)
	silent.Reachable, silent.Alive, silent.Refused = false, false, true
	cases := map[string]struct {
		in          statusInput
		wantPhase   redisv1.Phase
		wantReady   metav1.ConditionStatus
		wantReason  string
		wantMessage string
	}{
		"nothing there yet":     {input(), redisv1.PhaseCreating, "False", redisv1.ReasonCreating, "2 of 2 Pods do not exist"},
		"all well":              {settled(input()), redisv1.PhaseReady, "True", redisv1.ReasonReady, "2 nodes"},
		"broken":                {was(redisv1.PhaseReady, broken(input())), redisv1.PhaseDegraded, "False", redisv1.ReasonConverging, "does not run"},
		"broken before Ready":   {was(redisv1.PhaseCreating, broken(input())), redisv1.PhaseCreating, "False", redisv1.ReasonConverging, "does not run"},
		"waits at its gate":     {was(redisv1.PhaseReady, broken(input(silent))), redisv1.PhaseDegraded, "False", redisv1.ReasonWaitingAtGate, ""},
		"image":                 {with(redisv1.ReasonImageNotPulled, input()), redisv1.PhaseFailed, "False", redisv1.ReasonImageNotPulled, "it is so"},
		"image, formed":         {was(redisv1.PhaseReady, with(redisv1.ReasonImageNotPulled, broken(input()))), redisv1.PhaseDegraded, "False", redisv1.ReasonImageNotPulled, "it is so"},
		"change not supported":  {with(redisv1.ReasonChangeNotSupported, settled(input())), redisv1.PhaseReady, "True", redisv1.ReasonReady, "2 nodes"},
		"paused and well":       {paused(settled(input())), redisv1.PhaseReady, "True", redisv1.ReasonPaused, "paused"},
		"paused before it came": {paused(input()), redisv1.PhaseCreating, "False", redisv1.ReasonPaused, "paused"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := computeStatus(tc.in)
			ready := meta.FindStatusCondition(got.Conditions, redisv1.ConditionReady)
			if got.Phase != tc.wantPhase || ready.Status != tc.wantReady || ready.Reason != tc.wantReason ||
				!strings.Contains(ready.Message, tc.wantMessage) {
				t.Errorf("phase %s, Ready %+v; want %s, %s, %s, %q", got.Phase, ready, tc.wantPhase, tc.wantReady, tc.wantReason, tc.wantMessage)
			}
			if got.Shard == nil || *got.Shard != 5 {
				t.Errorf("shard %v, want 5", got.Shard)
			}
			tc.in.seen.cluster.Status = got
			tc.in.now = tc.in.now.Add(time.Hour)
			if diff := cmp.Diff(got, computeStatus(tc.in)); diff != "" {
				t.Errorf("the status of an equal pass differs (-first +second):\n%s", diff)
			}
		})
	}
}

func TestIsWorthSaying(t *testing.T) {
	before := computeStatus(settled(input(answering("orders-0-0", topology.RolePrimary))))
	cases := map[string]struct {
		edit func(*redisv1.RedisClusterStatus)
		want bool
	}{
		"detail of a node": {func(s *redisv1.RedisClusterStatus) { s.NodeStates[0].Problem = "x" }, false},
		"message":          {func(s *redisv1.RedisClusterStatus) { s.Conditions[0].Message = "x" }, false},
		"phase":            {func(s *redisv1.RedisClusterStatus) { s.Phase = redisv1.PhaseDegraded }, true},
		"slots":            {func(s *redisv1.RedisClusterStatus) { s.SlotsAssigned-- }, true},
		"condition":        {func(s *redisv1.RedisClusterStatus) { s.Conditions[1].Status = "False" }, true},
		"reason":           {func(s *redisv1.RedisClusterStatus) { s.Conditions[1].Reason = "Other" }, true},
		"shard":            {func(s *redisv1.RedisClusterStatus) { s.Shard = nil }, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			after := *before.DeepCopy()
			tc.edit(&after)
			if got := isWorthSaying(&before, &after); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func TestBlindIsUnknown(t *testing.T) {
	n := answering("orders-0-0", topology.RoleUnknown)
	n.Reachable, n.Err = false, "WRONGPASS invalid username-password pair or user is disabled."
	in := input(n)
	in.seen.formed = true
	in.problems = computeProblems(in.seen, &clusterMemory{}, nil)
	got := computeStatus(in)
	for _, kind := range []string{redisv1.ConditionSlotsCovered, redisv1.ConditionReplicasLinked} {
		if c := meta.FindStatusCondition(got.Conditions, kind); c.Status != metav1.ConditionUnknown || c.Reason != redisv1.ReasonPasswordChanged {
			t.Errorf("%s is %+v, want Unknown", kind, c)
		}
	}
}

func TestQuoteGathersOneReason(t *testing.T) {
	problems := []problem{{reason: "A", message: "1"}, {reason: "B", message: "x"}, {reason: "A", message: "2"},
		{reason: "A", message: "3"}, {reason: "A", message: "4"}, {reason: "A", message: "5"}}
	reason, message := quote(problems, func(problem) bool { return true })
	if reason != "A" || message != "1; 2; 3; and 2 more" {
		t.Errorf("got %s: %s", reason, message)
	}
}

func TestPromotedAreNamed(t *testing.T) {
	before := []redisv1.NodeState{{Name: "a", ID: "1", Role: "primary", Slots: "0-1"}, {Name: "b", ID: "2", Role: "replica"}}
	after := []redisv1.NodeState{{Name: "a", ID: "3", Role: "primary", Slots: "0-1"}, {Name: "b", ID: "2", Role: "primary", Slots: "0-1"}}
	if diff := cmp.Diff([]string{"b"}, computePromoted(before, after)); diff != "" {
		t.Errorf("promoted (-want +got):\n%s", diff)
	}
}

func TestRemovedDirectivesAreNamed(t *testing.T) {
	written := map[string]redisv1.ConfigValue{"maxmemory": "1", "save": "", "hz": "10"}
	wanted := map[string]redisv1.ConfigValue{"MaxMemory": "2"}
	if diff := cmp.Diff([]string{"hz", "save"}, removed(written, wanted)); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
}

func TestOwedDetailsAreWrittenSoon(t *testing.T) {
	in := settled(input(answering("orders-0-0", topology.RolePrimary)))
	in.seen.formed = false // no node is to be asked for its directives
	known := &clusterMemory{}
	if got := known.pace(in.seen, in.next, in.now); got < 20*time.Second {
		t.Errorf("a settled cluster is looked at again after %s", got)
	}
	known.owesDetails = true
	if got := known.pace(in.seen, in.next, in.now); got != detailInterval {
		t.Errorf("details that are owed are written after %s, want %s", got, detailInterval)
	}
}
