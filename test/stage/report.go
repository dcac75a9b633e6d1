package stage

import (
	"context"
	"fmt"
	"io"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	redisv1 "example.com/redis-operator/api/v1"
)

const reportedLogLines = 40

// Report writes what helps to find out what went wrong: the RedisClusters that are not Ready, the
// warnings among the events, and the end of every operator replica's log.
func (s *Stage) Report(ctx context.Context, out io.Writer) {
	for _, part := range []func(context.Context, io.Writer) error{s.reportClusters, s.reportEvents, s.reportLogs} {
		if err := part(ctx, out); err != nil {
			fmt.Fprintf(out, "  (%v)\n", err)
		}
	}
}

func (s *Stage) reportClusters(ctx context.Context, out io.Writer) error {
	var list redisv1.RedisClusterList
	if err := s.Client.List(ctx, &list); err != nil {
		return fmt.Errorf("listing RedisClusters: %w", err)
	}
	for i := range list.Items {
		cluster := &list.Items[i]
		if IsReady(cluster) {
			continue
		}
		fmt.Fprintf(out, "  RedisCluster %s/%s is %q%s\n", cluster.Namespace, cluster.Name,
			cluster.Status.Phase, conditionText(cluster))
		for _, node := range cluster.Status.NodeStates {
			fmt.Fprintf(out, "    %s %s %s slots=%q link=%q %s\n", node.Name, node.Address, node.Role,
				node.Slots, node.Link, node.Problem)
		}
	}
	return nil
}

func (s *Stage) reportEvents(ctx context.Context, out io.Writer) error {
	var events corev1.EventList
	if err := s.Client.List(ctx, &events); err != nil {
		return fmt.Errorf("listing events: %w", err)
	}
	sort.Slice(events.Items, func(i, j int) bool {
		return events.Items[i].CreationTimestamp.Before(&events.Items[j].CreationTimestamp)
	})
	for i := range events.Items {
		event := &events.Items[i]
		if event.Type != corev1.EventTypeWarning {
			continue
		}
		fmt.Fprintf(out, "  event %s %s %s/%s: %s: %s\n", event.CreationTimestamp.Format("15:04:05"),
			event.InvolvedObject.Kind, event.InvolvedObject.Namespace, event.InvolvedObject.Name,
			event.Reason, event.Message)
	}
	return nil
}

func (s *Stage) reportLogs(ctx context.Context, out io.Writer) error {
	pods, err := s.OperatorPods(ctx)
	if err != nil {
		return err
	}
	for i := range pods {
		log, err := s.Kubernetes.CoreV1().Pods(OperatorNamespace).GetLogs(pods[i].Name,
			&corev1.PodLogOptions{TailLines: ptr.To[int64](reportedLogLines)}).DoRaw(ctx)
		if err != nil {
			fmt.Fprintf(out, "  log of %s: %v\n", pods[i].Name, err)
			continue
		}
		for _, line := range strings.Split(strings.TrimSpace(string(log)), "\n") {
			fmt.Fprintf(out, "  %s | %s\n", pods[i].Name, line)
		}
	}
	return nil
}
