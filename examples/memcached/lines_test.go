// Package memcached_test checks the promise of the example: what a sharded operator has more.
package memcached_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// allowed is how many lines of code sharding may add.
const allowed = 20

// addedLines are the lines of code that a diff adds; comments do not count.
func addedLines(t *testing.T, before, after string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "diff", before, after).Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) { // 1: they differ
		t.Fatalf("comparing %s with %s: %v", before, after, err)
	}
	var added []string
	for line := range strings.Lines(string(out)) {
		if code, ok := strings.CutPrefix(line, "> "); ok && isCode(code) {
			added = append(added, strings.TrimSpace(code))
		}
	}
	return added
}

func isCode(line string) bool {
	line = strings.TrimSpace(line)
	return line != "" && !strings.HasPrefix(line, "//")
}

// markedLines are the lines of the controller that are there for shards only.
func markedLines(t *testing.T, files ...string) []string {
	t.Helper()
	var marked []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			if isCode(line) && strings.Contains(line, "// +") {
				marked = append(marked, strings.TrimSpace(line))
			}
		}
	}
	return marked
}

// TestAddedLines counts what the sharded program and the controller have more than an operator without
// shards has. The marks in the controller are checked too: what speaks of labels by namespace bears one.
func TestAddedLines(t *testing.T) {
	program := addedLines(t, "cmd/unsharded/main.go", "cmd/sharded/main.go")
	marked := markedLines(t, "controller/reconciler.go", "controller/objects.go")
	if len(program) < 5 || len(marked) < 3 {
		t.Fatalf("found only %d and %d lines: are these the right files?", len(program), len(marked))
	}
	for _, file := range []string{"controller/reconciler.go", "controller/objects.go"} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			hook := strings.Contains(line, "r.Labels") || strings.Contains(line, "redis-operator/sharding")
			if hook && !strings.Contains(line, "// +") {
				t.Errorf("%s has an unmarked line that is there for shards: %s", file, strings.TrimSpace(line))
			}
		}
	}
	all := append(program, marked...)
	if len(all) > allowed {
		t.Errorf("sharding adds %d lines, more than %d:\n%s", len(all), allowed, strings.Join(all, "\n"))
	}
	t.Logf("sharding adds %d lines: %d to the program, %d to the controller", len(all), len(program), len(marked))
}
