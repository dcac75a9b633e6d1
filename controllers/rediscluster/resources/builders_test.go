package resources

import (
	"encoding/json"
	"strings"
	"testing"

	redisv1 "example.com/redis-operator/api/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func testCluster() *redisv1.RedisCluster {
	return &redisv1.RedisCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "orders", Namespace: "shop", UID: "uid-1"},
		Spec: redisv1.RedisClusterSpec{
			Size: 3, ReplicasPerPrimary: ptr.To[int32](1), Image: "redis:7.0", Port: 6379,
			Storage: &redisv1.Storage{Size: resource.MustParse("1Gi")},
		},
	}
}

func TestBuildNamesAndLabels(t *testing.T) {
	in := Input{Cluster: testCluster(), Labels: map[string]string{redisv1.LabelShard: "17"}}
	var got []string
	for _, object := range Build(in) {
		got = append(got, object.GetObjectKind().GroupVersionKind().Kind+"/"+object.GetName())
		if object.GetLabels()[redisv1.LabelShard] != "17" {
			t.Errorf("%s has no shard label", object.GetName())
		}
		if !metav1.IsControlledBy(object, in.Cluster) {
			t.Errorf("%s is not controlled by the cluster", object.GetName())
		}
	}
	want := []string{
		"ConfigMap/orders-config", "Service/orders-nodes", "Service/orders", "PodDisruptionBudget/orders",
		"StatefulSet/orders-0", "StatefulSet/orders-1", "StatefulSet/orders-2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

func TestStatefulSetKeepsItsPromises(t *testing.T) {
	in := Input{Cluster: testCluster(), Labels: map[string]string{redisv1.LabelShard: "17"}}
	in.Cluster.Spec.PasswordSecret = "auth"
	set := StatefulSet(in, 2)
	if got := *set.Spec.Replicas; got != 2 {
		t.Errorf("%d Pods, want 2", got)
	}
	for what, labels := range map[string]map[string]string{
		"Pod template": set.Spec.Template.Labels, "claim template": set.Spec.VolumeClaimTemplates[0].Labels,
	} {
		if labels[redisv1.LabelShard] != "17" || labels[redisv1.LabelNodeGroup] != "2" {
			t.Errorf("%s has labels %v", what, labels)
		}
	}
	for name, value := range set.Spec.Selector.MatchLabels {
		if name == redisv1.LabelShard {
			t.Error("the selector has the shard label, which may change")
		}
		if set.Spec.Template.Labels[name] != value {
			t.Errorf("the selector wants %s=%s, which the Pods have not", name, value)
		}
	}
	if probe := set.Spec.Template.Spec.Containers[0].LivenessProbe; probe != nil {
		t.Error("a liveness probe would kill a node at its start gate")
	}
	if text, err := json.Marshal(set); err != nil || strings.Contains(string(text), "creationTimestamp\":\"") {
		t.Errorf("rendering: %s, %v", text, err)
	}
}

func TestDataVolume(t *testing.T) {
	in := Input{Cluster: testCluster()}
	in.Cluster.Spec.Storage = nil
	set := StatefulSet(in, 0)
	if len(set.Spec.VolumeClaimTemplates) != 0 {
		t.Error("claims without storage")
	}
	var found bool
	for _, volume := range set.Spec.Template.Spec.Volumes {
		found = found || volume.Name == volumeData && volume.EmptyDir != nil
	}
	if !found {
		t.Error("no data volume without storage")
	}
}

func TestConfigRoundTrip(t *testing.T) {
	config := map[string]redisv1.ConfigValue{
		"MaxMemory": "100mb", "save": "", "client-output-buffer-limit": "replica 1mb 1mb 60",
	}
	cm := ConfigMap(Input{Cluster: testCluster(), Config: config})
	got, found := Directives(cm)
	want := map[string]redisv1.ConfigValue{
		"maxmemory": `"100mb"`, "save": `""`, "client-output-buffer-limit": `"replica 1mb 1mb 60"`,
	}
	if diff := cmp.Diff(want, got); diff != "" || !found {
		t.Errorf("directives (-want +got):\n%s", diff)
	}
	if ConfigHash(config) != ConfigHash(want) {
		t.Error("the case of a directive's name changes the hash")
	}
	if !strings.HasPrefix(cm.Data[keyConfig], "# directives "+ConfigHash(config)+"\n") {
		t.Error("redis.conf does not begin with its hash")
	}
	if got := StartedWith("/run/redis/" + ConfigHash(config) + ".conf"); got != ConfigHash(config) {
		t.Errorf("StartedWith = %q", got)
	}
	if got := StartedWith("/etc/redis.conf"); got != "" {
		t.Errorf("StartedWith of a foreign file = %q, want none", got)
	}
	if _, found := Directives(&corev1.ConfigMap{}); found {
		t.Error("directives in a foreign ConfigMap")
	}
}

// What CONFIG SET is given, and that redis.conf says the same, whatever quotes there were.
func TestArguments(t *testing.T) {
	for in, want := range map[string]string{
		`"a b"`: "a b", `'it\'s'`: "it's", `'a\n'`: `a\n`, " plain ": "plain", "": "", `""`: "", `"\x41\n\q"`: "A\nq",
		`{a} {b}`: "{a} {b}", `"a" "b"`: `"a" "b"`, `"`: `"`, `"a\"`: `"a\"`, `C:\dir`: `C:\dir`, `\\`: `\\`,
	} {
		config := map[string]redisv1.ConfigValue{"Name": redisv1.ConfigValue(in)}
		if got := Arguments(config)["name"]; got != want {
			t.Errorf("%s is %q, want %q", in, got, want)
		}
		if strings.Contains(want, "\n") {
			continue // refused by the API
		}
		written, _ := Directives(ConfigMap(Input{Cluster: testCluster(), Config: config}))
		if got := Arguments(written)["name"]; got != want || ConfigHash(written) != ConfigHash(config) {
			t.Errorf("%s was written down as %s, which is %q, want %q", in, written["name"], got, want)
		}
	}
}

func TestHasSafeAOF(t *testing.T) {
	cases := map[string]struct {
		storage bool
		config  map[string]redisv1.ConfigValue
		want    bool
	}{
		"no storage":            {want: false},
		"storage":               {storage: true, want: true},
		"storage, switched off": {storage: true, config: map[string]redisv1.ConfigValue{"AppendOnly": "no"}, want: false},
		"storage, lazy":         {storage: true, config: map[string]redisv1.ConfigValue{"appendfsync": "no"}, want: false},
		"storage, LAZY":         {storage: true, config: map[string]redisv1.ConfigValue{"appendfsync": "NO"}, want: false},
		"storage, lazy, quoted": {storage: true, config: map[string]redisv1.ConfigValue{"appendfsync": "'no'"}, want: false},
		"storage, Always":       {storage: true, config: map[string]redisv1.ConfigValue{"appendfsync": "Always"}, want: true},
		"switched on":           {config: map[string]redisv1.ConfigValue{"appendonly": `"yes"`}, want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cluster := testCluster()
			if !tc.storage {
				cluster.Spec.Storage = nil
			}
			if got := HasSafeAOF(cluster, tc.config); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
