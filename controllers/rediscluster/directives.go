package rediscluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/controllers/redis"
	"example.com/redis-operator/controllers/rediscluster/resources"
	"example.com/redis-operator/controllers/topology"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// needsConfig reports whether a node runs with other directives than the spec wants, as far as is known
// without asking it, and has not refused them.
func needsConfig(seen *observation, known *clusterMemory) bool {
	if !seen.formed {
		return false
	}
	wanted := resources.ConfigHash(seen.cluster.Spec.Config)
	return slices.ContainsFunc(seen.view.Nodes, func(n topology.Node) bool {
		return n.Reachable && stateOf(n, known).hash != wanted
	})
}

// stateOf is what a node's present run has of directives: set by this process, or else from its start.
func stateOf(n topology.Node, known *clusterMemory) configured {
	if c, found := known.configured[instance(n)]; found {
		return c
	}
	return configured{hash: resources.StartedWith(n.ConfigFile)}
}

// refusals are the nodes' answers to the directives of the spec, where they were refused.
func refusals(seen *observation, known *clusterMemory) []problem {
	wanted := resources.ConfigHash(seen.cluster.Spec.Config)
	var problems []problem
	for _, n := range seen.view.Nodes {
		if c := stateOf(n, known); n.Reachable && c.hash == wanted && c.refusal != "" {
			problems = append(problems, problem{n.PodName, redisv1.ReasonDirectiveRejected,
				fmt.Sprintf("node %s refuses the changed config: %s", n.PodName, c.refusal)})
		}
	}
	return problems
}

// setDirectives brings the directives of a formed cluster's running nodes to what the spec wants, each node
// taking all of them or none. It returns what nodes are to be started with: the spec's directives once a
// running node has accepted them and none has refused, and until then those written down before. Where what
// was written down is gone, that is what a node that refuses runs with. Where no node runs any more and
// those written down do not start one, the spec's are tried.
func (r *Reconciler) setDirectives(ctx context.Context, seen *observation, known *clusterMemory) (map[string]redisv1.ConfigValue, error) {
	wanted := seen.cluster.Spec.Config
	if !seen.formed {
		return wanted, nil
	}
	results, err := r.setAllDirectives(ctx, seen, known, wanted)
	if err != nil {
		return seen.config, err
	}
	accepted, refused := known.rememberDirectives(seen.view.Nodes, results)
	isLost := seen.config == nil
	switch {
	case accepted == 0 && refused == 0 && (isLost || isFailingToStart(seen.pods)):
		return wanted, nil
	case refused > 0 && isLost:
		i := slices.IndexFunc(results, func(c configured) bool { return c.refusal != "" })
		return results[i].instead, nil
	case accepted == 0 || refused > 0:
		return seen.config, nil
	case !isLost:
		r.tellAccepted(seen, wanted, accepted)
	}
	return wanted, nil
}

// setAllDirectives sets directives on all running nodes at once that have others, and returns what each has now.
func (r *Reconciler) setAllDirectives(ctx context.Context, seen *observation, known *clusterMemory, wanted map[string]redisv1.ConfigValue) ([]configured, error) {
	hash := resources.ConfigHash(wanted)
	results := make([]configured, len(seen.view.Nodes))
	errs := make([]error, len(seen.view.Nodes))
	var wait sync.WaitGroup
	for i, n := range seen.view.Nodes {
		if results[i] = stateOf(n, known); n.Reachable && results[i].hash != hash {
			wait.Go(func() { results[i], errs[i] = r.setNodeDirectives(ctx, r.node(seen, n.Pod), wanted) })
		}
	}
	wait.Wait()
	for i, n := range seen.view.Nodes {
		if errs[i] != nil {
			return nil, fmt.Errorf("setting directives on %s: %w", n.PodName, errs[i])
		}
	}
	return results, nil
}

// isFailingToStart reports whether containers end by themselves and none is up. It says nothing of nodes
// that run and do not answer: those may yet accept a change.
func isFailingToStart(pods []*corev1.Pod) bool {
	isFailing := false
	for _, pod := range pods {
		status := containerStatus(pod)
		if status == nil {
			continue
		}
		if status.State.Running != nil {
			return false
		}
		ended := status.State.Terminated
		if ended == nil {
			ended = status.LastTerminationState.Terminated
		}
		isFailing = isFailing || ended != nil && ended.ExitCode != 0
	}
	return isFailing
}

// rememberDirectives keeps what the reachable nodes said, and what was known of the others, and counts
// the nodes that have accepted and refused.
func (m *clusterMemory) rememberDirectives(nodes []topology.Node, results []configured) (accepted, refused int) {
	remembered := map[string]configured{}
	for i, n := range nodes {
		if !n.Reachable {
			if c, found := m.configured[instance(n)]; found {
				remembered[instance(n)] = c
			}
			continue
		}
		remembered[instance(n)] = results[i]
		if results[i].refusal != "" {
			refused++
		} else {
			accepted++
		}
	}
	m.configured = remembered
	return accepted, refused
}

// tellAccepted sends the event of changed directives that are in force now. A directive that was taken out
// keeps its value: Redis knows no way back to a default but a restart.
func (r *Reconciler) tellAccepted(seen *observation, wanted map[string]redisv1.ConfigValue, nodes int) {
	if resources.ConfigHash(seen.config) == resources.ConfigHash(wanted) {
		return
	}
	message := fmt.Sprintf("The changed config is in force on %d nodes", nodes)
	if gone := removed(seen.config, wanted); len(gone) > 0 {
		message += "; until they restart they keep the value of what was taken out: " + strings.Join(gone, ", ")
	}
	r.events.Eventf(seen.cluster, nil, corev1.EventTypeNormal, redisv1.EventConfigSet, "Configure", "%s", message)
}

// removed names the directives, in lower case and in order, that were written down and are not wanted.
func removed(written, wanted map[string]redisv1.ConfigValue) []string {
	kept := map[string]bool{}
	for name := range wanted {
		kept[strings.ToLower(name)] = true
	}
	var gone []string
	for _, name := range slices.Sorted(maps.Keys(written)) {
		if !kept[strings.ToLower(name)] {
			gone = append(gone, name)
		}
	}
	return gone
}

// setNodeDirectives sets on one node those directives that differ from what it says of itself.
func (r *Reconciler) setNodeDirectives(ctx context.Context, node redis.Node, wanted map[string]redisv1.ConfigValue) (configured, error) {
	result := configured{hash: resources.ConfigHash(wanted)}
	values := resources.Arguments(wanted)
	if len(values) == 0 {
		return result, nil
	}
	present, err := node.ConfigGet(ctx, slices.Sorted(maps.Keys(values))...)
	if err != nil {
		return configured{}, err
	}
	instead := make(map[string]redisv1.ConfigValue, len(present))
	for name, value := range present {
		instead[name] = redisv1.ConfigValue(value)
	}
	for name, value := range values {
		if has, found := present[name]; found && normalise(has) == normalise(value) {
			delete(values, name)
		}
	}
	if len(values) == 0 {
		return result, nil
	}
	ctrl.LoggerFrom(ctx).Info("Setting directives", "directives", slices.Sorted(maps.Keys(values)))
	err = node.ConfigSet(ctx, values)
	if message, isAnswer := redis.ServerMessage(err); isAnswer && isRefusal(message) {
		result.refusal, result.instead = message, instead
		return result, nil
	}
	return result, err
}

// isRefusal tells an answer that will be the same next time from one of a server that is busy or loading.
func isRefusal(message string) bool {
	return strings.HasPrefix(message, "ERR")
}

// units are the suffixes of amounts of memory in redis.conf.
var units = []struct {
	suffix string
	factor int64
}{
	{"kb", 1 << 10}, {"mb", 1 << 20}, {"gb", 1 << 30}, {"k", 1000}, {"m", 1000 * 1000}, {"g", 1000 * 1000 * 1000}, {"b", 1},
}

// normalise makes spellings of one value equal: amounts of memory, and blanks. Other words keep their case,
// which counts in some directives; to set one again that differs in case alone does no harm.
func normalise(value string) string {
	words := strings.Fields(value)
	for i, word := range words {
		for _, unit := range units {
			number, found := strings.CutSuffix(strings.ToLower(word), unit.suffix)
			if !found {
				continue
			}
			if n, err := strconv.ParseInt(number, 10, 64); err == nil {
				words[i] = strconv.FormatInt(n*unit.factor, 10)
			}
			break
		}
	}
	return strings.Join(words, " ")
}
