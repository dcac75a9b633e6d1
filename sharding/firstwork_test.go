package sharding

import (
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
)

func TestFirstWorkIsLoggedOnce(t *testing.T) {
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	first := newFirstWork(newMetrics())

	first.Started(1, "5")
	first.await(1, "5", log)
	first.Started(2, "5")
	if len(lines) != 0 {
		t.Fatalf("logged %q before the shard had work", lines)
	}
	first.Started(1, "5")
	first.Started(1, "5")
	if len(lines) != 1 || !strings.Contains(lines[0], "monotonicNanos") {
		t.Fatalf("logged %q, want one line with the time", lines)
	}
	first.await(1, "7", log)
	first.Started(1, "5") // admitted under the epoch before, and late
	if len(lines) != 1 {
		t.Fatalf("logged %q for work of another epoch", lines)
	}
	first.Started(1, "7")
	if len(lines) != 2 {
		t.Fatalf("logged %q, want one more line", lines)
	}
	first.await(1, "9", log)
	first.forget(1)
	first.Started(1, "9")
	if len(lines) != 2 {
		t.Fatalf("logged %q after the shard was closed", lines)
	}
}
