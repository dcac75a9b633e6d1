package bench

import (
	"context"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/test/localcluster/images"
	"example.com/redis-operator/test/stage"
	"example.com/redis-operator/test/traffic"
)

const (
	// rollLimit bounds the change of the image of one cluster.
	rollLimit = 5 * time.Minute
	// rollSlots and rollWrites are into how many slots the writer writes, and how often a second in all.
	rollSlots, rollWrites = 30, 1000
	rollImage             = "redis:7.0-again"
)

// RollRedis measures the change of the image of 3 primaries and 3 replicas under 1,000 writes a second: how long it
// takes, the longest time without an acknowledged write of any of 30 slots (30 ms of it are the pause between two
// writes), and how many acknowledged writes are not there afterwards. The scenario needs the local Kubernetes.
func RollRedis(ctx context.Context, out io.Writer) error {
	s, err := openStage(ctx, out)
	if err != nil {
		return err
	}
	defer s.Close()
	dial, end := s.Dialer()
	defer end()
	ctx, cancel := context.WithTimeout(ctx, rollLimit)
	defer cancel()
	w := stage.Wish{Namespace: "roll", Name: "cache", Size: 3, Replicas: 1}
	if err := prepareRoll(ctx, s, w); err != nil {
		return err
	}
	redis, err := s.RedisClient(ctx, w.Key(), dial)
	if err != nil {
		return err
	}
	defer redis.Close()
	writer := traffic.Start(ctx, redis, rollSlots, rollWrites)
	started := time.Now()
	err = rollTo(ctx, s, w, rollImage)
	lasted := time.Since(started)
	writer.Stop()
	if err != nil {
		s.Report(ctx, out)
		return err
	}
	result, err := writer.Check(ctx)
	if err != nil {
		return err
	}
	r := report{out: out, scenario: "roll-redis"}
	r.note("%d writes acknowledged, %d failed, lastly: %v", result.Acknowledged, result.Failed, result.LastError)
	r.figure("seconds", lasted.Seconds(), "s")
	r.figure("write_unavailable_ms_max", millis(result.MaxGap), "ms")
	r.figure("acknowledged", float64(result.Acknowledged), "writes")
	r.figure("acknowledged_lost", float64(result.Lost), "writes")
	return nil
}

// prepareRoll has a Ready cluster, and the image under another name on every Node.
func prepareRoll(ctx context.Context, s *stage.Stage, w stage.Wish) error {
	image, err := images.Redis()
	if err != nil {
		return err
	}
	if err := s.Local.ImportImage(ctx, image, rollImage); err != nil {
		return err
	}
	if err := s.Create(ctx, w); err != nil {
		return err
	}
	_, err = watchReady(ctx, s, w.Key())
	return err
}

// rollTo changes the image and returns when every node runs it.
func rollTo(ctx context.Context, s *stage.Stage, w stage.Wish, image string) error {
	cluster, err := s.Cluster(ctx, w.Key())
	if err != nil {
		return err
	}
	changed := cluster.DeepCopy()
	changed.Spec.Image = image
	if err := s.Client.Patch(ctx, changed, client.MergeFrom(cluster)); err != nil {
		return fmt.Errorf("changing the image of %s: %w", w.Key(), err)
	}
	return s.Wait(ctx, "every node to be up to date", func() (string, error) {
		cluster, err := s.Cluster(ctx, w.Key())
		if err != nil {
			return "", err
		}
		if !stage.IsReady(cluster) || !meta.IsStatusConditionTrue(cluster.Status.Conditions, redisv1.ConditionUpToDate) {
			return fmt.Sprintf("phase %s", cluster.Status.Phase), nil
		}
		return "", nil
	})
}
