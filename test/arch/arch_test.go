package arch

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../.."

var limits = Limits{File: 400, TestFile: 600, Function: 80}

// modules are the folders whose packages have a line in the import table.
var modules = []string{root, root + "/examples/memcached"}

// listPackages asks `go list` for the packages of these modules.
func listPackages(t *testing.T) []Package {
	t.Helper()
	var packages []Package
	for _, module := range modules {
		packages = append(packages, listModule(t, module)...)
	}
	return packages
}

func listModule(t *testing.T, dir string) []Package {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...")
	command.Dir = dir
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var packages []Package
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p Package
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

// parseTree parses every Go file of the repository but the generated ones.
func parseTree(t *testing.T) []File {
	t.Helper()
	var files []File
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{"bin", "build", ".git", "testdata"}, entry.Name()) {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasPrefix(entry.Name(), "zz_generated") {
			return nil
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		file, err := parse(relative, path, nil)
		files = append(files, file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func parse(name, path string, source any) (File, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, path, source, parser.ParseComments)
	return File{Path: filepath.ToSlash(name), Set: set, Tree: tree}, err
}

func TestImportTable(t *testing.T) {
	packages := listPackages(t)
	if len(packages) < 5 {
		t.Fatalf("go list found only %d packages", len(packages))
	}
	for _, violation := range ImportViolations(packages, table) {
		t.Error(violation)
	}
}

func TestSizes(t *testing.T) {
	for _, file := range parseTree(t) {
		for _, violation := range append(SizeViolations(file, limits), Waivers(file)...) {
			t.Error(violation)
		}
	}
}

// The library and the operator meet in one file of the program, and otherwise only in examples and
// tests.
func TestOneFileMeetsBothWorlds(t *testing.T) {
	const meeting = "cmd/manager/run.go"
	for _, file := range parseTree(t) {
		both := ImportsBoth(file, "./sharding/...", "./controllers/...")
		outside := !strings.HasPrefix(file.Path, "test/") && !strings.HasPrefix(file.Path, "examples/")
		if both && outside && file.Path != meeting {
			t.Errorf("%s imports both sharding and controllers; only %s may", file.Path, meeting)
		}
		if file.Path == meeting && !both {
			t.Errorf("%s does not import both sharding and controllers: where do they meet now?", meeting)
		}
	}
}

func TestPackageNames(t *testing.T) {
	banned := []string{"util", "utils", "common", "helpers", "types", "pkg"}
	for _, file := range parseTree(t) {
		if name := file.Tree.Name.Name; slices.Contains(banned, name) {
			t.Errorf("%s: package %s says nothing about what it holds", file.Path, name)
		}
	}
}

func TestImportViolationsFindsPlanted(t *testing.T) {
	cases := map[string]struct {
		path, imports string
		wantViolation bool
	}{
		"library knows the operator":         {"sharding/guard", Module + "/controllers/topology", true},
		"library knows the API":              {"sharding", Module + "/api/v1", true},
		"library knows Redis":                {"sharding/claim", "github.com/redis/go-redis/v9", true},
		"part knows the whole":               {"sharding/guard", Module + "/sharding", true},
		"part knows a part":                  {"sharding/guard", Module + "/sharding/placement", false},
		"operator knows the library":         {"controllers/rediscluster", Module + "/sharding/guard", true},
		"operator knows the program":         {"controllers", Module + "/cmd/manager", true},
		"operator knows the tests":           {"controllers", Module + "/test/localcluster", true},
		"planner takes a context":            {"controllers/rediscluster/plan", "context", true},
		"planner knows Kubernetes":           {"controllers/rediscluster/plan", "k8s.io/api/core/v1", true},
		"planner knows topology":             {"controllers/rediscluster/plan", Module + "/controllers/topology", false},
		"topology knows anything":            {"controllers/topology", "github.com/google/go-cmp/cmp", true},
		"client decides":                     {"controllers/redis", Module + "/controllers/rediscluster/plan", true},
		"API knows controller-runtime":       {"api/v1", "sigs.k8s.io/controller-runtime/pkg/client", true},
		"controllers use controller-runtime": {"controllers/rediscluster", "sigs.k8s.io/controller-runtime/pkg/client", false},
		"example's controller is sharded":    {"examples/memcached/controller", Module + "/sharding", true},
		"example's program is not":           {"examples/memcached/cmd/unsharded", Module + "/sharding", true},
		"example's program is":               {"examples/memcached/cmd/sharded", Module + "/sharding", false},
		"example knows the operator":         {"examples/memcached/cmd/sharded", Module + "/api/v1", true},
		"package without a line":             {"helpers", "fmt", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ImportViolations([]Package{{ImportPath: Module + "/" + tc.path, Imports: []string{tc.imports}}}, table)
			if (len(got) > 0) != tc.wantViolation {
				t.Errorf("violations %q, want some: %t", got, tc.wantViolation)
			}
		})
	}
}

// function returns the source of a function of that many lines.
func function(name string, lines int) string {
	return fmt.Sprintf("func %s() {\n%s}\n", name, strings.Repeat("\tprintln()\n", lines-2))
}

func TestSizeViolationsFindsPlanted(t *testing.T) {
	cases := map[string]struct {
		path, source string
		want         []string
	}{
		"at the limits":      {"a.go", "package a\n" + function("a", 80), nil},
		"long function":      {"a.go", "package a\n" + function("a", 81), []string{"a.go: a has 81 lines, more than 80"}},
		"long file":          {"a.go", "package a\n" + strings.Repeat("\n", 400), []string{"a.go has 401 lines, more than 400: split it by concept"}},
		"long test file":     {"a_test.go", "package a\n" + strings.Repeat("\n", 600), []string{"a_test.go has 601 lines, more than 600: split it by concept"}},
		"test file may more": {"a_test.go", "package a\n" + strings.Repeat("\n", 500), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			file, err := parse(tc.path, tc.path, tc.source)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, SizeViolations(file, limits)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWaiversFindsPlanted(t *testing.T) {
	cases := map[string]struct {
		comment string
		want    int
	}{
		"named with a reason":  {"//nolint:errcheck // closing a file that was only read", 0},
		"without a reason":     {"//nolint:errcheck", 1},
		"without a linter":     {"//nolint", 1},
		"of size":              {"//nolint:funlen // it is long", 1},
		"of complexity, mixed": {"//nolint:errcheck,gocognit // it is hard", 1},
		"no waiver":            {"// nothing", 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			file, err := parse("a.go", "a.go", "package a\n\nvar a = 1 "+tc.comment+"\n")
			if err != nil {
				t.Fatal(err)
			}
			if got := Waivers(file); len(got) != tc.want {
				t.Errorf("waivers %q, want %d", got, tc.want)
			}
		})
	}
}
