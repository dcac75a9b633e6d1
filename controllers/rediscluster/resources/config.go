package resources

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	redisv1 "example.com/redis-operator/api/v1"
	"example.com/redis-operator/controllers/topology"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

//go:embed entrypoint.sh
var entrypoint string

// Keys of the ConfigMap. keyDirectives holds the user's directives alone, so that they can be read
// back: what is written there is what nodes start with.
const (
	keyConfig     = "redis.conf"
	keyEntrypoint = "entrypoint.sh"
	keyDirectives = "directives"
)

// hashLength is the length of a configuration's hash in hexadecimal digits.
const hashLength = 16

// ConfigMap holds the configuration and the entry program of every node.
func ConfigMap(in Input) *corev1.ConfigMap {
	directives := renderDirectives(in.Config)
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: in.meta(ConfigMapName(in.Cluster.Name), in.labels()),
		Data: map[string]string{
			keyConfig:     "# directives " + ConfigHash(in.Config) + "\n" + ownDirectives(in.Cluster) + directives,
			keyDirectives: directives,
			keyEntrypoint: entrypoint,
		},
	}
}

// ownDirectives are those of the operator. The user's come after them, so that appendonly, save and
// their like can be overridden; those that cannot be are refused by the API.
func ownDirectives(cluster *redisv1.RedisCluster) string {
	lines := []string{
		"port " + strconv.Itoa(int(cluster.Spec.ClientPort())),
		"protected-mode no",
		"daemonize no",
		"logfile \"\"",
		"dbfilename dump.rdb",
		"cluster-enabled yes",
		"cluster-config-file nodes.conf",
		"cluster-node-timeout " + strconv.FormatInt(topology.DefaultNodeTimeout.Milliseconds(), 10),
		"cluster-allow-replica-migration no",
		"repl-diskless-sync yes",
		"repl-diskless-sync-delay 0",
	}
	if cluster.Spec.Storage != nil {
		lines = append(lines, "appendonly yes", "appendfsync everysec")
	}
	return strings.Join(lines, "\n") + "\n"
}

// renderDirectives renders the user's directives in order of their lower-case names.
func renderDirectives(config map[string]redisv1.ConfigValue) string {
	lowered := lowerNames(config)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(lowered)) {
		value := string(lowered[name])
		if strings.TrimSpace(value) == "" {
			value = `""`
		}
		fmt.Fprintf(&b, "%s %s\n", name, value)
	}
	return b.String()
}

// lowerNames returns the directives under lower-case names. Where two names differ in case alone, the
// one that sorts last wins.
func lowerNames(config map[string]redisv1.ConfigValue) map[string]redisv1.ConfigValue {
	out := make(map[string]redisv1.ConfigValue, len(config))
	for _, name := range slices.Sorted(maps.Keys(config)) {
		out[strings.ToLower(name)] = config[name]
	}
	return out
}

// ConfigHash names a set of directives. Equal sets have equal hashes, whatever the case of the names.
func ConfigHash(config map[string]redisv1.ConfigValue) string {
	sum := sha256.Sum256([]byte(renderDirectives(config)))
	return hex.EncodeToString(sum[:])[:hashLength]
}

// StartedWith is the hash of the directives that a node was started with, from the path of its
// configuration file as the server reports it; empty when the path is none of ours.
func StartedWith(configFile string) string {
	hash, found := strings.CutSuffix(path.Base(configFile), ".conf")
	if !found || len(hash) != hashLength {
		return ""
	}
	return hash
}

// Directives reads back from a ConfigMap the user's directives that were written into it, by their
// lower-case names. It is false when the ConfigMap holds none of ours.
func Directives(configMap *corev1.ConfigMap) (map[string]redisv1.ConfigValue, bool) {
	text, found := configMap.Data[keyDirectives]
	if !found {
		return nil, false
	}
	config := map[string]redisv1.ConfigValue{}
	for line := range strings.Lines(text) {
		name, value, found := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !found {
			continue
		}
		if value == `""` {
			value = ""
		}
		config[name] = redisv1.ConfigValue(value)
	}
	return config, true
}

// HasSafeAOF reports whether nodes with these directives keep an append-only file that loses at most a
// second, so that the start gate never holds them.
func HasSafeAOF(cluster *redisv1.RedisCluster, config map[string]redisv1.ConfigValue) bool {
	on, fsync := cluster.Spec.Storage != nil, "everysec"
	lowered := lowerNames(config)
	if value, found := lowered["appendonly"]; found {
		on = strings.Trim(string(value), `"`) == "yes"
	}
	if value, found := lowered["appendfsync"]; found {
		fsync = strings.Trim(string(value), `"`)
	}
	return on && fsync != "no"
}
