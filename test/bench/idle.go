package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"example.com/redis-operator/test/stage"
)

// idleClusters is how many RedisClusters are left alone.
const idleClusters = 15

// Idle creates 15 clusters, leaves them alone once they are Ready, and counts from the audit log
// what the operator wrote meanwhile; then one Pod of every cluster is deleted, and the time until
// all are Ready again is taken.
//
//   - api_writes: writes of the operator's service account, its Leases apart
//   - lease_writes_per_second: what the Leases of the shards and the replicas cost
//   - heal_all_seconds
func Idle(ctx context.Context, out io.Writer, quiet time.Duration) error {
	s, err := openStage(ctx, out)
	if err != nil {
		return err
	}
	defer s.Close()
	r := report{out: out, scenario: "idle"}
	names, err := createIdle(ctx, s)
	if err != nil {
		s.Report(ctx, out)
		return err
	}
	if err := settle(ctx); err != nil {
		return err
	}
	r.note("%d clusters are Ready; leaving them alone for %s", len(names), quiet)
	before, err := os.Stat(s.Local.AuditLog())
	if err != nil {
		return fmt.Errorf("reading the audit log: %w", err)
	}
	if err := pause(ctx, quiet); err != nil {
		return err
	}
	writes, err := readWrites(s.Local.AuditLog(), before.Size())
	if err != nil {
		return err
	}
	for _, what := range writes.others {
		r.note("written: %s", what)
	}
	r.figure("api_writes", float64(len(writes.others)), "writes")
	r.figure("lease_writes_per_second", float64(writes.leases)/quiet.Seconds(), "writes/s")
	r.figure("quiet_minutes", quiet.Minutes(), "min")
	return healAll(ctx, s, names, r)
}

func createIdle(ctx context.Context, s *stage.Stage) ([]types.NamespacedName, error) {
	var names []types.NamespacedName
	for i := range idleClusters {
		w := stage.Wish{Namespace: fmt.Sprintf("idle-%d", i), Name: "cache", Size: 1}
		switch i % 5 {
		case 0:
			w.Size, w.Replicas = 3, 1
		case 1:
			w.Replicas = 1
		case 2:
			w.Storage = true
		}
		if err := s.Create(ctx, w); err != nil {
			return nil, err
		}
		names = append(names, w.Key())
	}
	return names, s.WaitReady(ctx, names, nil)
}

// settle lets what follows from the formation pass, such as a status of Pods that lags.
func settle(ctx context.Context) error { return pause(ctx, 15*time.Second) }

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// auditEvent is the part of an audit.k8s.io/v1 Event that is looked at.
type auditEvent struct {
	Stage      string `json:"stage"`
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	User       struct{ Username string }
	ObjectRef  struct{ Resource, Namespace, Name, Subresource string }
}

// operatorWrites counts what was written to Leases and to the status of RedisClusters, and names what was
// written to anything but Leases.
type operatorWrites struct {
	leases, statuses int
	others           []string
}

// readWrites returns what the operator's service account wrote since the given length of the log.
func readWrites(log string, offset int64) (operatorWrites, error) {
	file, err := os.Open(log)
	if err != nil {
		return operatorWrites{}, fmt.Errorf("reading the audit log: %w", err)
	}
	defer file.Close()
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return operatorWrites{}, fmt.Errorf("reading the audit log: %w", err)
	}
	return countWrites(file)
}

func countWrites(log io.Reader) (operatorWrites, error) {
	var writes operatorWrites
	scanner := bufio.NewScanner(log)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		var event auditEvent
		if json.Unmarshal(scanner.Bytes(), &event) != nil || event.Stage != "ResponseComplete" {
			continue // the last line may be half written, the first half skipped
		}
		if !strings.HasPrefix(event.User.Username, "system:serviceaccount:"+stage.OperatorNamespace+":") || event.isRead() {
			continue
		}
		ref := event.ObjectRef
		if ref.Resource == "leases" {
			writes.leases++
			continue
		}
		if ref.Resource == "redisclusters" && ref.Subresource == "status" {
			writes.statuses++
		}
		writes.others = append(writes.others, fmt.Sprintf("%s %s/%s %s/%s", event.Verb, ref.Resource,
			ref.Subresource, ref.Namespace, ref.Name))
	}
	return writes, scanner.Err()
}

// isRead tells what changes nothing: reads, and by what the server's fence is proved: dry runs and the
// question who one is.
func (e auditEvent) isRead() bool {
	return e.Verb == "get" || e.Verb == "list" || e.Verb == "watch" ||
		strings.Contains(e.RequestURI, "dryRun=All") || e.ObjectRef.Resource == "selfsubjectreviews"
}

func healAll(ctx context.Context, s *stage.Stage, names []types.NamespacedName, r report) error {
	started := time.Now()
	var deleted []*corev1.Pod
	for _, name := range names {
		pods, err := s.RedisPods(ctx, name)
		if err != nil {
			return err
		}
		if len(pods) == 0 {
			return fmt.Errorf("RedisCluster %s has no Pod", name)
		}
		if err := s.Client.Delete(ctx, &pods[0]); err != nil {
			return fmt.Errorf("deleting %s: %w", pods[0].Name, err)
		}
		deleted = append(deleted, &pods[0])
	}
	for _, pod := range deleted {
		if err := s.WaitReplaced(ctx, pod); err != nil {
			return err
		}
	}
	if err := s.WaitReady(ctx, names, nil); err != nil {
		s.Report(ctx, r.out)
		return err
	}
	r.figure("heal_all_seconds", time.Since(started).Seconds(), "s")
	return nil
}
