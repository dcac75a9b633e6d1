package arch

// kubernetes are the modules that everything but the pure packages may use.
var kubernetes = []string{
	"std", "k8s.io/api/...", "k8s.io/apimachinery/...", "k8s.io/client-go/...", "k8s.io/klog/v2", "k8s.io/utils/...",
	"sigs.k8s.io/controller-runtime/...", "github.com/go-logr/logr", "github.com/prometheus/client_golang/...",
}

// table is the import table; .golangci.yml repeats it for editors. The first line that fits a package
// holds. Adding to it is a design decision: what a package imports is what it has to know.
var table = []Rule{
	{Path: "api/v1", Allowed: []string{"std", "k8s.io/apimachinery/..."}},

	{
		Path:    "sharding/placement",
		Allowed: with(kubernetes, "github.com/buraksezer/consistent", "github.com/cespare/xxhash/v2"),
		Denied:  []string{"sigs.k8s.io/controller-runtime/pkg/manager", "github.com/prometheus/client_golang/..."},
	},
	// x/sys reads the monotonic clock that processes of one kernel share, for the log.
	{Path: "sharding", Allowed: with(kubernetes, "./sharding/...", "golang.org/x/sys/unix")},
	// The parts of the library never import the package that puts them together.
	{Path: "sharding/...", Allowed: with(kubernetes, "./sharding/..."), Denied: []string{"./sharding"}},

	{Path: "controllers/topology", Allowed: []string{"std"}, Denied: []string{"context", "log", "log/slog", "net/http", "os"}},
	{
		Path:    "controllers/rediscluster/plan",
		Allowed: []string{"std", "./controllers/topology"},
		Denied:  []string{"context", "log", "log/slog", "net", "net/http", "os"},
	},
	{Path: "controllers/redis", Allowed: []string{"std", "./controllers/topology", "github.com/redis/go-redis/v9/..."}},
	{Path: "controllers/redis/redistest", Allowed: []string{"std", "./controllers/topology", "./controllers/redis"}},
	{Path: "controllers/...", Allowed: with(kubernetes, "./api/v1", "./controllers/...")},

	{
		Path: "cmd/manager",
		Allowed: with(kubernetes, "./api/v1", "./sharding/...", "./controllers/...",
			"go.uber.org/zap/...", "k8s.io/component-base/..."),
	},
	// It knows the operator's kinds, and nothing of what is done with them.
	{
		Path:    "cmd/fence",
		Allowed: with(kubernetes, "./api/v1", "./sharding", "./sharding/serverfence", "sigs.k8s.io/yaml"),
	},

	// The example: one of its programs meets the library, and nothing else of it does.
	{Path: "examples/memcached/api/v1alpha1", Allowed: []string{"std", "k8s.io/apimachinery/..."}},
	{Path: "examples/memcached/cmd/sharded", Allowed: with(kubernetes, "./sharding", "./examples/memcached/...")},
	{Path: "examples/memcached/...", Allowed: with(kubernetes, "./examples/memcached/...")},
}

func with(base []string, more ...string) []string {
	return append(append([]string(nil), base...), more...)
}
