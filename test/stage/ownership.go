package stage

import (
	"context"
	"fmt"
	"sort"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"example.com/redis-operator/sharding/placement"
)

// Installation is the name that the operator's Leases and placement object begin with.
const Installation = "redis-operator"

// Placement reads P.
func (s *Stage) Placement(ctx context.Context) (placement.Placement, error) {
	var object corev1.ConfigMap
	key := types.NamespacedName{Namespace: OperatorNamespace, Name: Installation + "-placement"}
	if err := s.Client.Get(ctx, key, &object); err != nil {
		return placement.Placement{}, fmt.Errorf("reading the placement: %w", err)
	}
	p, err := placement.Decode([]byte(object.Data["placement.json"]))
	if err != nil {
		return placement.Placement{}, fmt.Errorf("decoding the placement: %w", err)
	}
	p.Version = object.ResourceVersion
	return p, nil
}

// Holders returns the Pod that holds each shard's Lease, "" where nobody does.
func (s *Stage) Holders(ctx context.Context) (map[int]string, error) {
	var leases coordinationv1.LeaseList
	if err := s.Client.List(ctx, &leases, client.InNamespace(OperatorNamespace)); err != nil {
		return nil, fmt.Errorf("listing the shard Leases: %w", err)
	}
	holders := map[int]string{}
	for i := range leases.Items {
		var shard int
		if _, err := fmt.Sscanf(leases.Items[i].Name, Installation+"-shard-%d", &shard); err != nil {
			continue
		}
		holder := ptr.Deref(leases.Items[i].Spec.HolderIdentity, "")
		pod, _, _ := strings.Cut(holder, "_")
		holders[shard] = pod
	}
	return holders, nil
}

// OperatorPods lists the operator's Pods by name.
func (s *Stage) OperatorPods(ctx context.Context) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := s.Client.List(ctx, &pods, client.InNamespace(OperatorNamespace)); err != nil {
		return nil, fmt.Errorf("listing the operator's Pods: %w", err)
	}
	var operators []corev1.Pod
	for i := range pods.Items {
		if strings.HasPrefix(pods.Items[i].Name, OperatorStatefulSet+"-") {
			operators = append(operators, pods.Items[i])
		}
	}
	sort.Slice(operators, func(i, j int) bool { return operators[i].Name < operators[j].Name })
	return operators, nil
}

// WaitSettled waits until every one of the shards is held by its home, and the homes are the given
// number of members.
func (s *Stage) WaitSettled(ctx context.Context, members int) error {
	return s.Wait(ctx, fmt.Sprintf("every shard held by its home among %d members", members), func() (string, error) {
		p, err := s.Placement(ctx)
		if err != nil {
			return "", err
		}
		if len(p.Expected) != members {
			return fmt.Sprintf("the placement expects %d members", len(p.Expected)), nil
		}
		holders, err := s.Holders(ctx)
		if err != nil {
			return "", err
		}
		away := 0
		for shard, home := range p.Homes {
			if holders[shard] != string(home) {
				away++
			}
		}
		if away > 0 {
			return fmt.Sprintf("%d of %d shards are not held by their home", away, len(p.Homes)), nil
		}
		return "", nil
	})
}

// MovedHomes counts the shards whose home differs, and the least that a change from the one to the
// other membership can move when every member keeps a floor or a ceiling of the mean.
func MovedHomes(before, after placement.Placement) (moved, optimum int) {
	held := map[placement.Member]int{}
	for shard, home := range before.Homes {
		held[home]++
		if after.Homes[shard] != home {
			moved++
		}
	}
	counts := make([]int, 0, len(after.Expected))
	for _, member := range after.Expected {
		counts = append(counts, held[member])
	}
	sort.Sort(sort.Reverse(sort.IntSlice(counts)))
	quota, larger := len(after.Homes)/len(counts), len(after.Homes)%len(counts)
	kept := 0
	for i, count := range counts {
		allowed := quota
		if i < larger {
			allowed++
		}
		kept += min(count, allowed)
	}
	return moved, len(after.Homes) - kept
}
