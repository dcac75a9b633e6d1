package chaos

import (
	"context"
	"net"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/test/chaos/check"
	"example.com/redis-operator/test/stage"
)

const (
	// redisLogEvery is how often the servers are asked: what a server has executed since, and does not
	// live to tell, is not checked.
	redisLogEvery = time.Second
	// redisLogEntries is how many of the newest entries are asked for.
	redisLogEntries = 512
	redisLogTimeout = 2 * time.Second
)

// redisLog collects what all Redis servers have executed, from their SLOWLOG. MONITOR would not do: it
// leaves out the commands of administrators, and so all by which the operator changes something.
type redisLog struct {
	stage *stage.Stage

	mu    sync.Mutex // guards what follows
	nodes map[string]map[int64]check.Command
}

func newRedisLog(s *stage.Stage) *redisLog {
	goredis.SetLogger(silent{}) // servers that are gone are no news
	return &redisLog{stage: s, nodes: map[string]map[int64]check.Command{}}
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func (l *redisLog) commands() []check.Command {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []check.Command
	for _, node := range l.nodes {
		for _, command := range node {
			all = append(all, command)
		}
	}
	return all
}

func countNodes(commands []check.Command) int {
	nodes := map[string]bool{}
	for _, command := range commands {
		nodes[command.Node] = true
	}
	return len(nodes)
}

// follow asks all servers again and again. While the API server is away those known before are asked.
func (l *redisLog) follow(ctx context.Context) {
	var pods []corev1.Pod
	for pause(ctx, redisLogEvery) {
		var list corev1.PodList
		try, cancel := context.WithTimeout(ctx, redisLogTimeout)
		if l.stage.Client.List(try, &list, client.HasLabels{redisv1.LabelCluster}) == nil {
			pods = list.Items
		}
		cancel()
		var work sync.WaitGroup
		for i := range pods {
			if pod := &pods[i]; pod.Status.PodIP != "" {
				work.Go(func() { l.ask(ctx, pod) })
			}
		}
		work.Wait()
	}
}

// ask takes in what one server remembers. One that does not answer is asked again next time.
func (l *redisLog) ask(ctx context.Context, pod *corev1.Pod) {
	ctx, cancel := context.WithTimeout(ctx, redisLogTimeout)
	defer cancel()
	redis := goredis.NewClient(&goredis.Options{
		Addr: net.JoinHostPort(pod.Status.PodIP, "6379"), Dialer: l.stage.Local.Dial, Protocol: 2,
		MaxRetries: -1, DialerRetries: 1, PoolSize: 1, DisableIdentity: true, ContextTimeoutEnabled: true,
	})
	defer func() { _ = redis.Close() }() // of what was read nothing is lost
	info, err := redis.Info(ctx, "server").Result()
	if err != nil {
		return
	}
	entries, err := redis.SlowLogGet(ctx, redisLogEntries).Result()
	if err != nil {
		return
	}
	l.take(pod, runID(info), entries)
}

func (l *redisLog) take(pod *corev1.Pod, run string, entries []goredis.SlowLog) {
	node := pod.Namespace + "/" + pod.Name + " run " + run
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.nodes[node] == nil {
		l.nodes[node] = map[int64]check.Command{}
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.ClientName, checkOptions().ConnectionPrefix) {
			l.nodes[node][entry.ID] = check.Command{
				Node: node, Namespace: pod.Namespace, ID: entry.ID, At: entry.Time,
				Connection: entry.ClientName, Words: entry.Args[:min(2, len(entry.Args))],
			}
		}
	}
}

func runID(info string) string {
	for line := range strings.Lines(info) {
		if id, ok := strings.CutPrefix(line, "run_id:"); ok {
			return strings.TrimSpace(id)[:8]
		}
	}
	return ""
}
