package dashboards

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"example.com/redis-operator/sharding"
	"example.com/redis-operator/sharding/serverfence"
)

const root = "../.."

func TestFilesAreUpToDate(t *testing.T) {
	want := map[string][]byte{"README.md": Readme(All())}
	for _, d := range All() {
		content, err := d.JSON()
		if err != nil {
			t.Fatal(err)
		}
		want[d.File] = content
	}
	for name, content := range want {
		got, err := os.ReadFile(filepath.Join(root, "dashboards", name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, content) {
			t.Errorf("dashboards/%s is out of date; run: make dashboards", name)
		}
	}
}

// What Grafana reads must hold every query that the tests run.
func TestJSONHoldsEveryQuery(t *testing.T) {
	for _, d := range All() {
		content, err := d.JSON()
		if err != nil {
			t.Fatal(err)
		}
		var decoded any
		if err := json.Unmarshal(content, &decoded); err != nil {
			t.Fatal(err)
		}
		got := expressions(decoded)
		for _, want := range d.Queries() {
			if !slices.Contains(got, want) {
				t.Errorf("%s lacks the query %s", d.File, want)
			}
		}
		if len(got) != len(d.Queries()) {
			t.Errorf("%s has %d queries, want %d", d.File, len(got), len(d.Queries()))
		}
	}
}

// expressions returns every value of a key "expr" in decoded JSON.
func expressions(value any) []string {
	var found []string
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if text, ok := inner.(string); ok && key == "expr" {
				found = append(found, text)
				continue
			}
			found = append(found, expressions(inner)...)
		}
	case []any:
		for _, inner := range value {
			found = append(found, expressions(inner)...)
		}
	}
	return found
}

// TestEveryMetricIsShownAndDocumented compares the metrics that the code names with those that the
// dashboards read and that docs/operations.md lists.
func TestEveryMetricIsShownAndDocumented(t *testing.T) {
	defined := definedMetrics(t)
	if len(defined) < 10 {
		t.Fatalf("found only %d metrics in the code: %q", len(defined), defined)
	}
	var shown []string
	for _, d := range All() {
		for _, expression := range d.Queries() {
			shown = append(shown, MetricNames(expression)...)
		}
	}
	documentation, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	checkShown(t, defined, shown)
	checkDocumented(t, defined, string(documentation))
}

// checkShown compares the defined metrics with those on panels, both ways.
func checkShown(t *testing.T, defined, shown []string) {
	t.Helper()
	for _, name := range defined {
		if !slices.Contains(shown, name) {
			t.Errorf("%s is on no panel", name)
		}
	}
	for _, name := range shown {
		own := strings.HasPrefix(name, "sharding_") || strings.HasPrefix(name, "redis_operator_")
		if own && !slices.Contains(defined, name) {
			t.Errorf("a panel reads %s, which no code defines", name)
		}
	}
}

// checkDocumented compares the defined metrics with the rows of docs/operations.md, both ways.
func checkDocumented(t *testing.T, defined []string, documentation string) {
	t.Helper()
	var documented []string
	for _, match := range documentedMetric.FindAllStringSubmatch(documentation, -1) {
		documented = append(documented, match[1])
		if !slices.Contains(defined, match[1]) {
			t.Errorf("docs/operations.md lists %s, which no code defines", match[1])
		}
	}
	for _, name := range defined {
		if !slices.Contains(documented, name) {
			t.Errorf("%s is not in docs/operations.md", name)
		}
	}
}

// documentedMetric finds a metric as the first cell of a table's row.
var documentedMetric = regexp.MustCompile("(?m)^\\| `((?:sharding|redis_operator)_[a-z0-9_]+)[`{]")

// definedMetrics returns the metrics of the library and of the operator.
func definedMetrics(t *testing.T) []string {
	t.Helper()
	names := append(libraryMetrics(t), operatorMetrics(t)...)
	slices.Sort(names)
	return slices.Compact(names)
}

// recorder is a Registerer that notes the names of what is registered.
type recorder struct {
	prometheus.Registerer
	names []string
}

var descriptionName = regexp.MustCompile(`fqName: "([^"]+)"`)

func (r *recorder) Register(collector prometheus.Collector) error {
	descriptions := make(chan *prometheus.Desc)
	go func() {
		defer close(descriptions)
		collector.Describe(descriptions)
	}()
	for description := range descriptions {
		r.names = append(r.names, descriptionName.FindStringSubmatch(description.String())[1])
	}
	return r.Registerer.Register(collector)
}

// libraryMetrics returns the metrics that the library registers.
func libraryMetrics(t *testing.T) []string {
	t.Helper()
	registered := &recorder{Registerer: prometheus.NewRegistry()}
	_, err := sharding.New(&rest.Config{Host: "127.0.0.1:1"}, sharding.Options{
		Namespace: "operator", Member: "operator-0", StatefulSet: "operator", Registerer: registered,
		RootKinds: []schema.GroupVersionKind{{Group: "cache.example.com", Version: "v1", Kind: "RedisCluster"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = serverfence.NewMonitor(serverfence.MonitorOptions{
		Proof:      serverfence.ProofOptions{Client: fake.NewClientset(), Namespace: "operator", Shards: 1},
		Registerer: registered,
	})
	if err != nil {
		t.Fatal(err)
	}
	return registered.names
}

var operatorMetric = regexp.MustCompile(`^redis_operator_[a-z0-9_]+$`)

// operatorMetrics returns the strings in the controllers that are names of metrics: to register them
// takes a manager.
func operatorMetrics(t *testing.T) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(filepath.Join(root, "controllers"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		tree, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(tree, func(node ast.Node) bool {
			if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				if text, err := strconv.Unquote(literal.Value); err == nil && operatorMetric.MatchString(text) {
					names = append(names, text)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
