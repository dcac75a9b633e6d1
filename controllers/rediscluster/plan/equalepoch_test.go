package plan_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"example.com/redis-operator/controllers/rediscluster/plan"
	"example.com/redis-operator/controllers/topology"
)

// A node that takes over keeps its config epoch if it is the highest already. When the dead primary
// had the same, those who heard of the dead one first go on holding it for the owner.
func TestDeadOwnerOfEqualEpochIsForgotten(t *testing.T) {
	// Each of two epochs decides by itself, and at equal ones neither ID may.
	cases := map[string]struct {
		deadID               string
		deadEpoch, liveEpoch uint64
		wantForgotten        bool
	}{
		"equal, the dead ID sorts first": {deadID: "a", deadEpoch: 1, liveEpoch: 1, wantForgotten: true},
		"equal, the dead ID sorts last":  {deadID: "z", deadEpoch: 1, liveEpoch: 1, wantForgotten: true},
		"the living owner has a later":   {deadID: "a", deadEpoch: 1, liveEpoch: 2, wantForgotten: true},
		"the dead owner has a later":     {deadID: "a", deadEpoch: 2, liveEpoch: 1, wantForgotten: false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			view := viewWithDeadOwner(tc.deadID, tc.deadEpoch, tc.liveEpoch)
			next := plan.Next(topology.Desired{Size: 1, ReplicasPerPrimary: 2}, view, time.Now())
			var forgetting []string
			for _, s := range next.Steps {
				switch s.Kind {
				case plan.Forget:
					if s.PeerID != tc.deadID {
						t.Errorf("%s is to forget %s", s.Pod, s.PeerID)
					}
					forgetting = append(forgetting, s.Pod)
				case plan.Takeover:
					if tc.wantForgotten {
						t.Errorf("%s is to take over although there is a primary", s.Pod)
					}
				}
			}
			slices.Sort(forgetting)
			if want := []string{"c-0-0", "c-0-1", "c-0-2"}; tc.wantForgotten && !slices.Equal(forgetting, want) {
				t.Errorf("%v forget the dead owner, want %v; reasons %q", forgetting, want, next.Reasons)
			}
			if !tc.wantForgotten && len(forgetting) > 0 {
				t.Errorf("%v forget an owner of slots", forgetting)
			}
		})
	}
}

// viewWithDeadOwner is a node group whose node "m" has taken over from a dead one, of which "r" has
// not been convinced; "n" is the dead one's successor.
func viewWithDeadOwner(deadID string, deadEpoch, liveEpoch uint64) topology.View {
	ids := []string{"n", "m", "r"}
	peers := map[string]topology.Peer{
		"m":    {ID: "m", Role: topology.RolePrimary, LinkUp: true, ConfigEpoch: liveEpoch, Slots: topology.AllSlots()},
		"n":    {ID: "n", Role: topology.RoleReplica, PrimaryID: "m", LinkUp: true},
		"r":    {ID: "r", Role: topology.RoleReplica, PrimaryID: "m", LinkUp: true},
		deadID: {ID: deadID, Role: topology.RolePrimary, Fail: true, ConfigEpoch: deadEpoch, Address: topology.Address{IP: "10.0.0.9", Port: 6379}},
	}
	view := topology.View{}
	for i, id := range ids {
		address := topology.Address{IP: fmt.Sprintf("10.0.0.%d", i+1), Port: 6379}
		n := topology.Node{
			Pod:   topology.Pod{PodName: fmt.Sprintf("c-0-%d", i), PodUID: id, Ordinal: i, Address: address, ContainerRunning: true, Ready: true},
			State: topology.State{Reachable: true, Alive: true, ID: id, Role: topology.RoleReplica, PrimaryID: "m", LinkUp: true, ClusterOK: true},
		}
		n.PrimaryAddress = topology.Address{IP: "10.0.0.2", Port: 6379}
		if id == "m" {
			n.Role, n.PrimaryID, n.LinkUp, n.Slots, n.ConfigEpoch = topology.RolePrimary, "", false, topology.AllSlots(), liveEpoch
		}
		for other, p := range peers {
			if other == id {
				continue
			}
			if j := slices.Index(ids, other); j >= 0 {
				p.Address = topology.Address{IP: fmt.Sprintf("10.0.0.%d", j+1), Port: 6379}
			}
			if id == "r" && other == deadID {
				p.Slots = topology.AllSlots()
			}
			if id == "r" && other == "m" {
				p.Slots = topology.SlotSet{}
			}
			n.Known = append(n.Known, p)
		}
		slices.SortFunc(n.Known, func(a, b topology.Peer) int { return cmp.Compare(a.ID, b.ID) })
		view.Nodes = append(view.Nodes, n)
	}
	return view
}

// Volume claims of an earlier cluster bring its owners, though Kubernetes was told the new size.
func TestSizeOfKeptClaimsIsReported(t *testing.T) {
	view := viewWithDeadOwner("a", 1, 2)
	view.Groups = []topology.Group{{Index: 0, Nodes: 3}, {Index: 1, Nodes: 3}, {Index: 2, Nodes: 3}}
	next := plan.Next(topology.Desired{Size: 3, ReplicasPerPrimary: 2}, view, time.Now())
	if !slices.ContainsFunc(next.Problems, func(p plan.Problem) bool { return p.Kind == plan.SizeChange }) {
		t.Errorf("a cluster of 1 primary that is to have 3 has the problems %v", next.Problems)
	}
}
