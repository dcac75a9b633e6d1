package v1

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// reasonsOf returns the values of all constants of names.go that are named Reason...
func reasonsOf(t *testing.T) map[string]bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "names.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
			return true
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		reasons[value] = true
		return true
	})
	return reasons
}

// TestRunbookHasEveryReason: whoever reads a reason in a condition finds its line, and no line is left
// of a reason that is gone.
func TestRunbookHasEveryReason(t *testing.T) {
	runbook, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]int{}
	for _, match := range regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\|").FindAllStringSubmatch(string(runbook), -1) {
		lines[match[1]]++
	}
	reasons := reasonsOf(t)
	if len(reasons) < 30 {
		t.Fatalf("found only %d reasons in names.go", len(reasons))
	}
	for reason := range reasons {
		if lines[reason] != 1 {
			t.Errorf("docs/runbook.md has %d lines for the reason %s, want 1", lines[reason], reason)
		}
	}
	for reason := range lines {
		if !reasons[reason] {
			t.Errorf("docs/runbook.md has a line for %s, which is no reason of names.go", reason)
		}
	}
}
