package plan_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"example.com/redis-operator/controllers/rediscluster/plan"
	"example.com/redis-operator/controllers/topology"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden traces")

// TestGolden runs whole scenarios on the in-memory cluster and compares every step with a recorded trace.
func TestGolden(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		size, replicas int
		run            func(l *fakeLab)
	}{
		"form-1x0":                    {1, 0, (*fakeLab).settle},
		"form-2x1":                    {2, 1, (*fakeLab).settle},
		"form-3x1":                    {3, 1, (*fakeLab).settle},
		"form-1x5":                    {1, 5, (*fakeLab).settle},
		"form-one-step-a-pass":        {3, 1, formOneStep},
		"form-late-nodes":             {3, 1, formLate},
		"form-late-with-storage":      {2, 1, formLateStorage},
		"form-two-parties":            {3, 0, formTwoParties},
		"foreign-node":                {3, 1, foreignNode(3)},
		"foreign-node-of-a-pair":      {3, 1, foreignNode(2)},
		"foreign-node-alone":          {3, 1, foreignNode(1)},
		"kill-primary-1x1":            {1, 1, killPrimary},
		"kill-primary-2x1":            {2, 1, killPrimary},
		"kill-primary-3x1":            {3, 1, killPrimary},
		"kill-primary-aof":            {1, 1, killPrimaryAOF},
		"kill-primary-never-back-aof": {1, 1, killPrimaryAOFForGood},
		"kill-majority":               {3, 1, killMajority},
		"kill-everything":             {3, 1, killEverything},
		"lose-primary-1x2":            {1, 2, losePrimary},
		"lose-primary-3x1":            {3, 1, losePrimary},
		"lose-replica":                {3, 1, loseReplica},
		"lose-group":                  {3, 1, loseGroup},
		"lose-replica-kill-primary":   {1, 1, loseReplicaKillPrimary},
		"hang-primary-1x1":            {1, 1, hangPrimary},
		"hang-primary-3x1":            {3, 1, hangPrimary},
		"move-everything":             {3, 1, moveEverything},
		"move-one":                    {1, 1, moveOne},
		"change-size":                 {1, 1, changeSize},
		"roll-1x1":                    {1, 1, rollAll},
		"roll-3x1":                    {3, 1, rollAll},
		"roll-2x2-one-step-a-pass":    {2, 2, rollOneStep},
		"roll-3x0-in-place":           {3, 0, rollInPlace},
		"roll-2x0-held":               {2, 0, rollHeld},
		"roll-3x1-stuck":              {3, 1, rollStuck},
		"roll-3x1-taken-back":         {3, 1, rollTakenBack},
		"roll-3x1-unsynced":           {3, 1, rollUnsynced},
		"roll-3x1-stopped-replica":    {3, 1, rollStoppedReplica},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newFakeLab(t, tc.size, tc.replicas)
			tc.run(l)
			l.pass()
			compareGolden(t, filepath.Join("testdata", name+".trace"), l.out.String())
		})
	}
}

func compareGolden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("trace differs (-want +got); rewrite with -update:\n%s", diff)
	}
}

func formOneStep(l *fakeLab) {
	l.stopAfter = 1
	l.settle()
}

func formLate(l *fakeLab) {
	l.lose("c-2-0")
	l.lose("c-2-1")
	l.lose("c-1-1")
	l.run(2 * time.Second)
	l.create(1, 1)
	l.create(2, 1)
	l.run(time.Second)
	l.create(2, 0)
	l.settle()
}

// formLateStorage must not give out slots before it has seen what is in the storage of the last Pod.
func formLateStorage(l *fakeLab) {
	for _, p := range l.pods {
		p.Storage, p.AOF = true, true
	}
	l.kill("c-1-1", 0)
	if p := l.run(3 * time.Second); len(p.Steps) > 0 || !p.Facts.Assigned.IsEmpty() {
		l.t.Errorf("gave out slots while the state of a Pod is not known")
	}
	l.restart("c-1-1")
	l.settle()
}

// formTwoParties is what an operator leaves that died between meetings: two parties, each with slots of its own.
func formTwoParties(l *fakeLab) {
	for i, name := range []string{"c-0-0", "c-1-0"} {
		if err := l.pod(name).node.AddSlots(l.t.Context(), topology.EvenShare(i, 3)); err != nil {
			l.t.Fatal(err)
		}
	}
	if err := l.pod("c-1-0").node.Meet(l.t.Context(), l.pod("c-2-0").Address); err != nil {
		l.t.Fatal(err)
	}
	l.cluster.Advance(time.Second)
	l.settle()
}

// foreignNode has a node of another cluster, of a given size, answer at the address of a Pod.
func foreignNode(size int) func(l *fakeLab) {
	return func(l *fakeLab) { l.meetForeign(size) }
}

func (l *fakeLab) meetForeign(size int) {
	other := newFakeLab(l.t, size, 0)
	other.cluster, other.made, other.pods = l.cluster, 100, nil
	for g := range size {
		other.add(g, 0)
	}
	other.settle()
	l.lose("c-2-1")
	stray := l.add(2, 1)
	stray.node.Stop()
	stray.node = other.pods[0].node
	stray.Address = other.pods[0].Address
	if p := l.run(4 * time.Second); p.Settled() {
		l.t.Error("settled with a foreign node")
	}
	if known := l.view().Nodes[0].Known; len(known) != 0 {
		l.t.Errorf("nodes were introduced though the place of one is taken: %v", known)
	}
	if got := len(other.view().Nodes[0].Known); got != size-1 {
		l.t.Errorf("a node of the other cluster knows %d nodes, want %d", got, size-1)
	}
}

func killPrimary(l *fakeLab) {
	l.settle()
	l.pod("c-0-0").node.Write(100)
	l.cluster.Advance(time.Second)
	l.kill("c-0-0", 10)
	l.run(time.Second)
	l.restart("c-0-0")
	l.until("promoted", func(p plan.Plan) bool { return p.Facts.Primaries[0] == "c-0-1" })
	l.settle()
	l.mustHaveKeys(0, 100)
}

// mustHaveKeys wants all nodes of a group to have so many keys.
func (l *fakeLab) mustHaveKeys(group int, want int64) {
	l.t.Helper()
	for _, n := range l.view().InGroup(group) {
		if n.Keys != want {
			l.t.Errorf("%s has %d keys, want %d", n.PodName, n.Keys, want)
		}
	}
}

// killPrimaryAOF has the primary back, with everything, before anybody needs to be promoted.
func killPrimaryAOF(l *fakeLab) {
	for _, p := range l.pods {
		p.AOF, p.Storage = true, true
	}
	l.settle()
	l.pod("c-0-0").node.Write(100)
	l.cluster.Advance(time.Second)
	l.kill("c-0-0", 100)
	l.run(3 * time.Second)
	l.restart("c-0-0")
	l.settle()
	if got := l.pass().Facts.Primaries[0]; got != "c-0-0" {
		l.t.Errorf("primary is %q, want c-0-0", got)
	}
}

func killPrimaryAOFForGood(l *fakeLab) {
	for _, p := range l.pods {
		p.AOF, p.Storage = true, true
	}
	l.settle()
	l.kill("c-0-0", 100)
	l.until("promoted", func(p plan.Plan) bool { return p.Facts.Primaries[0] == "c-0-1" })
	l.restart("c-0-0")
	l.settle()
}

func killMajority(l *fakeLab) {
	l.settle()
	for i, name := range []string{"c-0-0", "c-1-0"} {
		l.pod(name).node.Write(100)
		l.cluster.Advance(time.Duration(i) * time.Second)
	}
	l.kill("c-0-0", 0)
	l.kill("c-1-0", 0)
	l.run(time.Second)
	l.restart("c-0-0")
	l.restart("c-1-0")
	l.settle()
	l.mustHaveKeys(0, 100)
	l.mustHaveKeys(1, 100)
}

// killEverything leaves the replica of group 0 with its keys, that of group 1 without, and group 2 with nothing.
func killEverything(l *fakeLab) {
	l.settle()
	keys := map[string]int64{"c-0-0": 50, "c-0-1": 60, "c-1-0": 70}
	names := []string{"c-0-0", "c-0-1", "c-1-0", "c-1-1", "c-2-0", "c-2-1"}
	for _, name := range names {
		l.kill(name, keys[name])
	}
	for _, name := range names {
		l.restart(name)
	}
	l.settle()
	l.mustHaveKeys(0, 60)
	l.mustHaveKeys(1, 70)
}

func losePrimary(l *fakeLab) {
	l.settle()
	l.pod("c-0-0").node.Write(100)
	l.cluster.Advance(time.Second)
	l.lose("c-0-0")
	l.create(0, 0)
	l.settle()
	l.mustHaveKeys(0, 100)
}

func loseReplica(l *fakeLab) {
	l.settle()
	l.lose("c-1-1")
	l.run(time.Second)
	l.create(1, 1)
	l.settle()
}

// loseGroup must report which slots are lost, and give them to nobody.
func loseGroup(l *fakeLab) {
	l.settle()
	l.lose("c-1-0")
	l.lose("c-1-1")
	l.run(time.Second)
	l.create(1, 0)
	l.create(1, 1)
	if p := l.run(10 * time.Second); len(p.Steps) > 0 || !p.Facts.Missing.Equal(topology.EvenShare(1, 3)) || len(p.Problems) != 1 {
		l.t.Errorf("steps %v, missing %s, problems %v", p.Steps, p.Facts.Missing, p.Problems)
	}
}

// loseReplicaKillPrimary leaves nobody who knows the epoch of the primary that waits at its gate.
func loseReplicaKillPrimary(l *fakeLab) {
	l.settle()
	l.lose("c-0-1")
	l.kill("c-0-0", 30)
	l.create(0, 1)
	l.restart("c-0-0")
	l.settle()
	l.mustHaveKeys(0, 30)
}

// hangPrimary never promotes by force over a process that may be alive.
func hangPrimary(l *fakeLab) {
	l.settle()
	l.say("-- c-0-0 hangs")
	l.pod("c-0-0").node.Pause()
	l.run(12 * time.Second)
	l.say("-- c-0-0 goes on")
	l.pod("c-0-0").node.Resume()
	l.settle()
}

func moveEverything(l *fakeLab) {
	for _, p := range l.pods {
		p.AOF, p.Storage = true, true
	}
	l.settle()
	for _, p := range l.pods {
		p.node.Stop()
	}
	for _, p := range l.pods {
		l.move(p.PodName)
	}
	l.settle()
}

// moveOne replaces a primary's Pod whose snapshot is older than what its replica has.
func moveOne(l *fakeLab) {
	for _, p := range l.pods {
		p.Storage = true
	}
	l.settle()
	l.pod("c-0-0").node.Write(100)
	l.cluster.Advance(time.Second)
	l.kill("c-0-0", 40)
	l.move("c-0-0")
	l.settle()
	l.mustHaveKeys(0, 100)
}

func changeSize(l *fakeLab) {
	l.settle()
	l.desired = topology.Desired{Size: 3, ReplicasPerPrimary: 2}
	l.add(1, 0)
	if p := l.run(time.Second); len(p.Steps) > 0 || len(p.Problems) == 0 {
		l.t.Errorf("steps %v, problems %v", p.Steps, p.Problems)
	}
}
