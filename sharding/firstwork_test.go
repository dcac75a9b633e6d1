package sharding

import (
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
)

func TestFirstWorkIsLoggedOnce(t *testing.T) {
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	first := newFirstWork(newMetrics())

	first.Reconciled(1, time.Second)
	first.await(1, log)
	first.Reconciled(2, time.Second)
	if len(lines) != 0 {
		t.Fatalf("logged %q before the shard had work", lines)
	}
	first.Reconciled(1, time.Second)
	first.Reconciled(1, time.Second)
	if len(lines) != 1 || !strings.Contains(lines[0], "monotonicNanos") {
		t.Fatalf("logged %q, want one line with the time", lines)
	}
	first.await(1, log)
	first.forget(1)
	first.Reconciled(1, time.Second)
	if len(lines) != 1 {
		t.Fatalf("logged %q after the shard was closed", lines)
	}
}
