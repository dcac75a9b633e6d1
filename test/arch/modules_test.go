package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// required finds the modules that a go.mod requires, with their versions.
var required = regexp.MustCompile(`(?m)^\t(\S+) (v\S+)`)

func requirements(t *testing.T, module string) map[string]string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(module, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, match := range required.FindAllStringSubmatch(string(content), -1) {
		versions[match[1]] = match[2]
	}
	return versions
}

// TestModulesAgree finds a module that was left behind when the versions of another changed: what they
// have in common would be compiled twice, and tested with what is not delivered.
func TestModulesAgree(t *testing.T) {
	tests := requirements(t, root+"/test")
	for _, module := range modules {
		versions, shared := requirements(t, module), 0
		for path, version := range versions {
			other, found := tests[path]
			if found {
				shared++
			}
			if found && other != version {
				t.Errorf("%s/go.mod has %s %s, test/go.mod has %s; run: go mod tidy", module, path, version, other)
			}
		}
		if shared < 20 {
			t.Errorf("%s/go.mod and test/go.mod have only %d modules in common", module, shared)
		}
	}
}
