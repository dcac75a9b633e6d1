package placement

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path) //nolint:gosec // G304: a fixed name under testdata
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got); -update rewrites it:\n%s", path, diff)
	}
}

// trace writes down what each step of a scenario changes.
type trace struct {
	*cluster
	out strings.Builder
}

func (r *trace) step(what string, act func()) {
	r.t.Helper()
	before := r.p
	act()
	fmt.Fprintf(&r.out, "# %s\n", what)
	fmt.Fprintf(&r.out, "homes moved %d, acting moved %d\n", before.Moves(r.p), differences(acting(before), acting(r.p)))
	for _, process := range r.p.Processes {
		fmt.Fprintln(&r.out, strings.TrimSpace(fmt.Sprintf("%s %s %s", process.Identity, process.State, process.Cause)))
	}
	for _, member := range r.p.Expected {
		fmt.Fprintf(&r.out, "%s home of %v\n", member, r.p.HomesOf(member))
	}
	deputies := make(map[Member][]Shard)
	for shard := range Shard(r.p.Shards) {
		if deputy, ok := r.p.Deputies[shard]; ok {
			deputies[deputy] = append(deputies[deputy], shard)
		}
	}
	for _, deputy := range operators(50) {
		if shards := deputies[deputy]; len(shards) > 0 {
			fmt.Fprintf(&r.out, "%s deputy of %v\n", deputy, shards)
		}
	}
	r.out.WriteString("\n")
}

// TestScenarioTrace is the life of a small installation; the golden file is for reading.
func TestScenarioTrace(t *testing.T) {
	members := operators(5)
	r := &trace{cluster: newCluster(t, 16, 0)}
	r.step("three members are expected, none has started", func() { r.scale(3) })
	r.step("the first serves, alone", func() { r.start(members[0]) })
	r.step("the others serve", func() { r.start(members[1], members[2]) })
	r.step("one leaves for a restart", func() { r.record(members[1], Leaving) })
	r.step("its death is confirmed, and the new one joins", func() {
		r.kill(members[1], Confirmed)
		r.join(members[1])
	})
	r.step("it serves again: all home", func() { r.record(members[1], Serving) })
	r.step("scaled to five: nothing acts elsewhere yet", func() { r.scale(5) })
	r.step("the fourth serves", func() { r.start(members[3]) })
	r.step("the fifth serves", func() { r.start(members[4]) })
	r.step("a container is killed and restarts in its Pod", func() {
		r.current[members[3]] += "x"
		r.record(members[3], Joining)
	})
	r.step("it serves, and the dead one is pruned", func() {
		r.record(members[3], Serving)
		r.p = r.p.Prune(noLease, true)
	})
	r.step("scaled to two", func() { r.scale(2) })
	r.step("the three leave", func() {
		for _, member := range members[2:] {
			r.record(member, Leaving)
		}
	})
	r.step("they are dead and pruned", func() {
		for _, member := range slices.Backward(members[2:]) {
			r.kill(member, Confirmed)
		}
		r.p = r.p.Prune(noLease, true)
	})
	r.step("the rest expires: nobody acts", func() {
		r.kill(members[1], Expired)
		r.kill(members[0], Expired)
	})
	r.step("one returns and acts for all", func() { r.start(members[1]) })
	checkGolden(t, "scenario.golden", r.out.String())
}
