package localcluster_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestInterruptedUp ends `up` once the cluster has begun to start. An interrupt takes the cluster down
// with it; of a killed one, `down` removes what is left.
func TestInterruptedUp(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a local cluster takes root")
	}
	const name = "lcinterrupted"
	before := observeHost(t)
	command := buildCommand(t)
	down := func(t *testing.T, dir string) {
		t.Helper()
		if said, err := exec.Command(command, "down", "-name", name, "-dir", dir).CombinedOutput(); err != nil {
			t.Errorf("down: %v: %s", err, said)
		}
	}
	down(t, "") // what an earlier run of this test has left
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "c")
			t.Cleanup(func() { down(t, dir) })
			interruptUp(t, exec.Command(command, "up", "-name", name, "-dir", dir, "-nodes", "1"), signal)
			namespaces := namespacesOf(t, name, dir)
			if signal == syscall.SIGKILL {
				down(t, dir)
			}
			checkNothingLeft(t, name, dir, namespaces)
		})
	}
	observeHost(t).sameAs(t, before)
}

// interruptUp runs the command, sends it the signal after its first line, and waits for its end.
func interruptUp(t *testing.T, up *exec.Cmd, signal syscall.Signal) {
	t.Helper()
	out, err := up.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	up.Stderr = up.Stdout
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for first := true; lines.Scan(); first = false {
		t.Log(lines.Text())
		if !first {
			continue
		}
		if err := up.Process.Signal(signal); err != nil {
			t.Error(err)
		}
	}
	if err := up.Wait(); err == nil {
		t.Errorf("up succeeded although it was sent %s", signal)
	}
}
