package e2e

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/test/localcluster/images"
	"example.com/redis-operator/test/stage"
	"example.com/redis-operator/test/traffic"
)

// otherImage is the image of the nodes under another name.
const otherImage = "redis:7.0-again"

// Every node is replaced, one after the other, under a writer: no write that was acknowledged is lost.
func TestImageChangeLosesNoWrite(t *testing.T) {
	t.Parallel()
	localOnly(t)
	ctx := story(t)
	image, err := images.Redis()
	if err != nil {
		t.Fatal(err)
	}
	if err := env.Local.ImportImage(ctx, image, otherImage); err != nil {
		t.Fatal(err)
	}
	w := stage.Wish{Namespace: "roll-3x1", Name: "cache", Size: 3, Replicas: 1}
	create(ctx, t, w)
	before := podUIDs(ctx, t, w)
	writer := traffic.Start(ctx, redisClient(ctx, t, w), 30, 300)
	changeImage(ctx, t, w, otherImage)
	waitUpToDate(ctx, t, w)
	writer.Stop()
	result, err := writer.Check(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d writes acknowledged, %d failed (%v), longest gap of a slot %s", result.Acknowledged, result.Failed,
		result.LastError, result.MaxGap)
	if result.Lost > 0 || result.Acknowledged == 0 {
		t.Errorf("%d of %d acknowledged writes are lost", result.Lost, result.Acknowledged)
	}
	for name, uid := range podUIDs(ctx, t, w) {
		if uid == before[name] {
			t.Errorf("Pod %s was not replaced", name)
		}
	}
	pods, err := env.RedisPods(ctx, w.Key())
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		if got := pods[i].Spec.Containers[0].Image; got != otherImage {
			t.Errorf("Pod %s runs %s", pods[i].Name, got)
		}
	}
	checkNodes(ctx, t, w)
}

func changeImage(ctx context.Context, t *testing.T, w stage.Wish, image string) {
	t.Helper()
	cluster, err := env.Cluster(ctx, w.Key())
	if err != nil {
		t.Fatal(err)
	}
	changed := cluster.DeepCopy()
	changed.Spec.Image = image
	if err := env.Client.Patch(ctx, changed, client.MergeFrom(cluster)); err != nil {
		t.Fatal(err)
	}
}

// waitUpToDate waits until every node was made from the present spec and the cluster is Ready.
func waitUpToDate(ctx context.Context, t *testing.T, w stage.Wish) {
	t.Helper()
	err := env.Wait(ctx, "every node of "+w.Key().String()+" to be up to date", func() (string, error) {
		cluster, err := env.Cluster(ctx, w.Key())
		if err != nil {
			return "", err
		}
		c := meta.FindStatusCondition(cluster.Status.Conditions, redisv1.ConditionUpToDate)
		if stage.IsReady(cluster) && c != nil && c.Status == "True" {
			return "", nil
		}
		if c == nil {
			return "no condition UpToDate", nil
		}
		return string(cluster.Status.Phase) + ": " + c.Message, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// podUIDs is the UID of each of the cluster's Pods, by name.
func podUIDs(ctx context.Context, t *testing.T, w stage.Wish) map[string]types.UID {
	t.Helper()
	var pods corev1.PodList
	if err := env.Client.List(ctx, &pods, client.InNamespace(w.Namespace),
		client.MatchingLabels{redisv1.LabelCluster: w.Name}); err != nil {
		t.Fatal(err)
	}
	uids := map[string]types.UID{}
	for i := range pods.Items {
		uids[pods.Items[i].Name] = pods.Items[i].UID
	}
	return uids
}
