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

// renderDirectives renders the user's directives in order of their lower-case names. A value is one quoted
// argument, as CONFIG SET takes it, which splits it by itself where a directive has several: so a server
// that has accepted a value while it runs accepts it at its start too.
func renderDirectives(config map[string]redisv1.ConfigValue) string {
	arguments := Arguments(config)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(arguments)) {
		fmt.Fprintf(&b, "%s \"%s\"\n", name, escapes.Replace(arguments[name]))
	}
	return b.String()
}

// escapes are those of a quoted argument in redis.conf. The API refuses control characters.
var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// Arguments are the directives as CONFIG SET takes them: lower-case names, and values without the quotes
// that redis.conf would have around them. Where two names differ in case alone, the one that sorts last wins.
func Arguments(config map[string]redisv1.ConfigValue) map[string]string {
	out := make(map[string]string, len(config))
	for _, name := range slices.Sorted(maps.Keys(config)) {
		out[strings.ToLower(name)] = unquote(string(config[name]))
	}
	return out
}

// unquote turns a value as it may stand in redis.conf into one argument, by the rules of sdssplitargs in
// Redis's sds.c. What is not one quoted argument from end to end stays as it is.
func unquote(value string) string {
	value = strings.TrimSpace(value)
	if len(value) < 2 || value[0] != value[len(value)-1] || value[0] != '"' && value[0] != '\'' {
		return value
	}
	quote, inner := value[0], value[1:len(value)-1]
	var plain strings.Builder
	for i := 0; i < len(inner); i++ {
		switch {
		case inner[i] == quote:
			return value
		case inner[i] != '\\' || quote == '\'' && !strings.HasPrefix(inner[i+1:], "'"):
			plain.WriteByte(inner[i])
		case i+1 == len(inner):
			return value
		default:
			text, length := unescape(inner[i+1:])
			plain.WriteByte(text)
			i += length
		}
	}
	return plain.String()
}

// unescape reads what follows a backslash, and how long that is.
func unescape(rest string) (char byte, length int) {
	if rest[0] == 'x' && len(rest) >= 3 {
		if number, err := strconv.ParseUint(rest[1:3], 16, 8); err == nil {
			return byte(number), 3
		}
	}
	if i := strings.IndexByte("nrtba", rest[0]); i >= 0 {
		return "\n\r\t\b\a"[i], 1
	}
	return rest[0], 1
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
		config[name] = redisv1.ConfigValue(value)
	}
	return config, true
}

// HasSafeAOF reports whether nodes with these directives keep an append-only file that loses at most a
// second, so that the start gate never holds them.
func HasSafeAOF(cluster *redisv1.RedisCluster, config map[string]redisv1.ConfigValue) bool {
	on, fsync := cluster.Spec.Storage != nil, "everysec"
	arguments := Arguments(config)
	if value, found := arguments["appendonly"]; found {
		on = strings.ToLower(value) == "yes"
	}
	if value, found := arguments["appendfsync"]; found {
		fsync = strings.ToLower(value)
	}
	return on && (fsync == "everysec" || fsync == "always")
}
