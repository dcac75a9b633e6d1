package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/controllers/rediscluster/plan"
	"example.com/redis-operator/controllers/rediscluster/resources"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// recordingClient notes what is written, and writes nothing.
type recordingClient struct {
	client.Client
	writes  []string
	refusal error // of Apply
}

func (c *recordingClient) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	content, err := patch.Data(object)
	c.writes = append(c.writes, fmt.Sprintf("patch %s %s", object.GetName(), content))
	object.SetResourceVersion("8")
	return err
}

func (c *recordingClient) Delete(_ context.Context, object client.Object, _ ...client.DeleteOption) error {
	c.writes = append(c.writes, "delete "+object.GetName())
	return nil
}

func (c *recordingClient) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return c.refusal
}

// shardThree owns everything, as shard 3.
type shardThree struct{}

func (shardThree) Check(context.Context) error { return nil }
func (shardThree) Dropped(func(string))        {}
func (shardThree) Labels(string) map[string]string {
	return map[string]string{redisv1.LabelShard: "3"}
}

// The API server refuses a deletion of what bears another shard's label, or none.
func TestDeletionStampsFirst(t *testing.T) {
	const stamp = `patch orders-0-0 {"metadata":{"labels":{"cache.example.com/shard":"3"}}}`
	cases := map[string]struct {
		labels map[string]string
		want   []string
	}{
		"own label":     {map[string]string{redisv1.LabelShard: "3", "x": "y"}, []string{"delete orders-0-0"}},
		"another's":     {map[string]string{redisv1.LabelShard: "4", "x": "y"}, []string{stamp, "delete orders-0-0"}},
		"taken off":     {map[string]string{"x": "y"}, []string{stamp, "delete orders-0-0"}},
		"all taken off": {nil, []string{stamp, "delete orders-0-0"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			recorder := &recordingClient{}
			r := &Reconciler{client: recorder, owner: shardThree{}}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders-0-0", UID: "u", Labels: tc.labels}}
			if err := r.deleteObject(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, recorder.writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if pod.Labels[redisv1.LabelShard] != "3" {
				t.Errorf("labels %v afterwards", pod.Labels)
			}
		})
	}
}

func TestOpenGateSaysTheLabel(t *testing.T) {
	recorder := &recordingClient{}
	r := &Reconciler{client: recorder, owner: shardThree{}}
	seen := &observation{cluster: testCluster()}
	if err := r.openGate(t.Context(), seen, plan.Step{Pod: "orders-0-0", PodUID: "u", Gate: "open"}); err != nil {
		t.Fatal(err)
	}
	want := []string{`patch orders-0-0 {"metadata":{"annotations":{"cache.example.com/start-gate":"open"},` +
		`"labels":{"cache.example.com/shard":"3"},"uid":"u"}}`}
	if diff := cmp.Diff(want, recorder.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// What the API server rejects is for a person to mend; what its fence refuses is tried again.
func TestRefusalOfTheFenceIsNoProblem(t *testing.T) {
	forbidden := func(message string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "orders", errors.New(message))
	}
	isFenced := func(err error) bool { return err != nil && strings.Contains(err.Error(), "fence") }
	cases := map[string]struct {
		refusal     error
		isFenced    func(error) bool
		wantProblem string
		wantErr     bool
	}{
		"accepted":                {nil, isFenced, "", false},
		"rejected":                {forbidden("a policy of somebody"), isFenced, redisv1.ReasonObjectRejected, false},
		"refused by the fence":    {forbidden("the fence"), isFenced, "", true},
		"without a fence to know": {forbidden("the fence"), nil, redisv1.ReasonObjectRejected, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{client: &recordingClient{refusal: tc.refusal}, owner: shardThree{}, fenced: tc.isFenced, now: time.Now}
			cluster := testCluster()
			object := resources.ClientService(resources.Input{Cluster: cluster})
			p, err := r.applyObject(t.Context(), &observation{cluster: cluster}, object, newMemory().of(cluster))
			if p.reason != tc.wantProblem || (err != nil) != tc.wantErr {
				t.Errorf("problem %q, error %v; want %q, an error: %t", p.reason, err, tc.wantProblem, tc.wantErr)
			}
		})
	}
}
