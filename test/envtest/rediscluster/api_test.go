package rediscluster

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	redisv1 "example.com/redis-operator/api/v1"
)

// newQuietNamespace makes a namespace in which nothing runs.
func newQuietNamespace(t *testing.T) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "api-"}}
	create(t, namespace)
	return namespace.Name
}

func TestAPIRefusesOnCreate(t *testing.T) {
	namespace := newQuietNamespace(t)
	config := func(name, value string) func(*redisv1.RedisCluster) {
		return func(c *redisv1.RedisCluster) {
			c.Spec.Config = map[string]redisv1.ConfigValue{name: redisv1.ConfigValue(value)}
		}
	}
	cases := map[string]struct {
		edit func(*redisv1.RedisCluster)
		want string
	}{
		"size 0":            {func(c *redisv1.RedisCluster) { c.Spec.Size = 0 }, "spec.size"},
		"size 11":           {func(c *redisv1.RedisCluster) { c.Spec.Size = 11 }, "spec.size"},
		"6 replicas":        {func(c *redisv1.RedisCluster) { *c.Spec.ReplicasPerPrimary = 6 }, "spec.replicasPerPrimary"},
		"no image":          {func(c *redisv1.RedisCluster) { c.Spec.Image = "" }, "spec.image"},
		"port too high":     {func(c *redisv1.RedisCluster) { c.Spec.Port = 55536 }, "spec.port"},
		"name with dots":    {func(c *redisv1.RedisCluster) { c.Name = "a.b" }, "metadata.name"},
		"name too long":     {func(c *redisv1.RedisCluster) { c.Name = strings.Repeat("a", 41) }, "metadata.name"},
		"name with a digit": {func(c *redisv1.RedisCluster) { c.Name = "1a" }, "metadata.name"},
		"storage of 0": {func(c *redisv1.RedisCluster) { c.Spec.Storage = &redisv1.Storage{Size: resource.MustParse("0")} },
			"storage size must be more than 0"},
		"cluster-node-timeout": {config("cluster-node-timeout", "1"), `the operator owns these directives: ["cluster-node-timeout"]`},
		"upper case":           {config("Cluster-Enabled", "no"), `the operator owns these directives: ["Cluster-Enabled"]`},
		"bind":                 {config("bind", "1"), `the operator owns these directives: ["bind"]`},
		"bind-source-addr":     {config("bind-source-addr", "1"), "the operator owns"},
		"port":                 {config("port", "1"), `the operator owns these directives: ["port"]`},
		"tls-port":             {config("tls-port", "1"), `the operator owns these directives: ["tls-port"]`},
		"dir":                  {config("dir", "/"), `the operator owns these directives: ["dir"]`},
		"announce":             {config("replica-announce-ip", "1"), `the operator owns these directives: ["replica-announce-ip"]`},
		"requirepass":          {config("requirepass", "x"), `the operator owns these directives: ["requirepass"]`},
		"masterauth":           {config("masterauth", "x"), "the operator owns"},
		"primaryauth":          {config("primaryauth", "x"), "the operator owns"},
		"primaryuser":          {config("PrimaryUser", "x"), "the operator owns"},
		"rdma-port":            {config("rdma-port", "1"), `the operator owns these directives: ["rdma-port"]`},
		"twice, in two cases": {func(c *redisv1.RedisCluster) {
			c.Spec.Config = map[string]redisv1.ConfigValue{"maxmemory": "1gb", "MaxMemory": "2gb", "save": ""}
		}, `a directive is given twice, in different case: ["`},
		"user":               {config("user", "x"), "the operator owns"},
		"aclfile":            {config("aclfile", "x"), "the operator owns"},
		"include":            {config("include", "x"), "the operator owns"},
		"loadmodule":         {config("loadmodule", "x"), "the operator owns"},
		"rename-command":     {config("rename-command", "x"), "the operator owns"},
		"replicaof":          {config("replicaof", "x"), "the operator owns"},
		"slaveof":            {config("slaveof", "x"), "the operator owns"},
		"dbfilename":         {config("dbfilename", "x"), "the operator owns"},
		"newline in a value": {config("maxmemory", "1\nport 1"), `the value has a control character: ["maxmemory"]`},
		"escape in a value":  {config("maxmemory", "1\x1b"), `the value has a control character: ["maxmemory"]`},
		"blank in a name":    {config("maxmemory 1", "1"), `not the name of a directive: ["maxmemory 1"]`},
		"newline in a name":  {config("a\nport", "1"), "not the name of a directive"},
		"empty name":         {config("", "1"), "not the name of a directive"},
		"name of 65":         {config(strings.Repeat("a", 65), "1"), "not the name of a directive"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(namespace, 3, 1)
			tc.edit(cluster)
			err := suite.client.Create(t.Context(), cluster, client.DryRunAll)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want a refusal that says %q", err, tc.want)
			}
		})
	}
}

func TestAPIAcceptsOnCreate(t *testing.T) {
	namespace := newQuietNamespace(t)
	cases := map[string]func(*redisv1.RedisCluster){
		"smallest":   func(c *redisv1.RedisCluster) { c.Spec = redisv1.RedisClusterSpec{Size: 1, Image: "redis:7.0"} },
		"largest":    func(c *redisv1.RedisCluster) { c.Spec.Size, *c.Spec.ReplicasPerPrimary = 10, 5 },
		"name of 40": func(c *redisv1.RedisCluster) { c.Name = strings.Repeat("a", 40) },
		"storage":    func(c *redisv1.RedisCluster) { c.Spec.Storage = &redisv1.Storage{Size: resource.MustParse("1Gi")} },
		"storage class": func(c *redisv1.RedisCluster) {
			c.Spec.Storage = &redisv1.Storage{Size: resource.MustParse("1Gi"), Class: "fast"}
		},
		"directives": func(c *redisv1.RedisCluster) {
			c.Spec.Config = map[string]redisv1.ConfigValue{"maxmemory": "100mb", "save": "", "appendonly": "yes",
				"client-output-buffer-limit": "replica 256mb 64mb 60", "maxmemory-policy": "allkeys-lru", "IO-threads": "2"}
		},
	}
	cases["as many directives as may be"] = func(c *redisv1.RedisCluster) {
		c.Spec.Config = map[string]redisv1.ConfigValue{}
		for i := range 64 {
			c.Spec.Config[fmt.Sprintf("%s%02d", strings.Repeat("A", 62), i)] = "1"
		}
	}
	for name, edit := range cases {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(namespace, 3, 1)
			edit(cluster)
			if err := suite.client.Create(t.Context(), cluster, client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			if cluster.Spec.Port != redisv1.DefaultPort || cluster.Spec.Replicas() < 0 || cluster.Spec.ReplicasPerPrimary == nil {
				t.Errorf("defaults are not filled in: %+v", cluster.Spec)
			}
		})
	}
}

func TestAPIRefusesOnUpdate(t *testing.T) {
	namespace := newQuietNamespace(t)
	cluster := newCluster(namespace, 3, 1)
	cluster.Spec.Storage = &redisv1.Storage{Size: resource.MustParse("2Gi"), Class: "fast"}
	cluster.Spec.Paused = true
	create(t, cluster)
	without := newCluster(namespace, 3, 1)
	without.Name, without.Spec.Paused = "without", true
	create(t, without)
	cases := map[string]struct {
		cluster *redisv1.RedisCluster
		edit    func(*redisv1.RedisCluster)
		want    string
	}{
		"port":            {cluster, func(c *redisv1.RedisCluster) { c.Spec.Port = 7000 }, "port cannot change"},
		"class":           {cluster, func(c *redisv1.RedisCluster) { c.Spec.Storage.Class = "slow" }, "storage class cannot change"},
		"class taken":     {cluster, func(c *redisv1.RedisCluster) { c.Spec.Storage.Class = "" }, "storage class cannot change"},
		"storage shrinks": {cluster, func(c *redisv1.RedisCluster) { c.Spec.Storage.Size = resource.MustParse("1Gi") }, "storage size cannot shrink"},
		"storage taken":   {cluster, func(c *redisv1.RedisCluster) { c.Spec.Storage = nil }, "storage cannot be added to or taken from"},
		"storage added": {without, func(c *redisv1.RedisCluster) { c.Spec.Storage = &redisv1.Storage{Size: resource.MustParse("1Gi")} },
			"storage cannot be added to or taken from"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			changed := &redisv1.RedisCluster{}
			if err := suite.client.Get(t.Context(), client.ObjectKeyFromObject(tc.cluster), changed); err != nil {
				t.Fatal(err)
			}
			before := changed.DeepCopy()
			tc.edit(changed)
			err := suite.client.Patch(t.Context(), changed, client.MergeFrom(before), client.DryRunAll)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want a refusal that says %q", err, tc.want)
			}
		})
	}
}
