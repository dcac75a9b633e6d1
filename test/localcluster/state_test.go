package localcluster

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"
)

func TestStartTime(t *testing.T) {
	const rest = " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21"
	cases := map[string]struct {
		stat, want string
		wantErr    bool
	}{
		"plain":       {"12 (sh) S" + rest, "4711", false},
		"parentheses": {"12 (a) b (c) S" + rest, "4711", false},
		"zombie":      {"12 (sh) Z" + rest, "", true},
		"short":       {"12 (sh) S 1 2", "", true},
		"empty":       {"", "", true},
	}
	for name, tc := range cases {
		got, err := startTime(tc.stat)
		if got != tc.want || (err != nil) != tc.wantErr {
			t.Errorf("%s: %q, %v, want %q, error %t", name, got, err, tc.want, tc.wantErr)
		}
	}
}

func TestProcessIsAliveOnlyAsItself(t *testing.T) {
	self, err := identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if !self.isAlive() {
		t.Error("this process is not alive")
	}
	for name, other := range map[string]process{
		"same number, started at another time": {self.Pid, "1", self.Boot},
		"same number, another boot":            {self.Pid, self.Started, "x"},
		"no number":                            {},
	} {
		if other.isAlive() {
			t.Errorf("%s is alive", name)
		}
	}
}

func TestStateIsReadAsWritten(t *testing.T) {
	dir := t.TempDir()
	if _, err := readState(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading nothing: %v", err)
	}
	want := state{Name: "a", Nodes: 2, Block: 3, Supervisor: process{1, "2", "3"}, Inits: map[string]process{"x": {4, "5", "6"}}}
	if err := want.write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := readState(dir)
	if err != nil || got.Name != "a" || got.Nodes != 2 || got.Block != 3 || got.Supervisor != want.Supervisor || got.Inits["x"] != want.Inits["x"] {
		t.Errorf("read %+v, %v, want %+v", got, err, want)
	}
}

func TestHasWorked(t *testing.T) {
	cases := map[string]struct {
		stat   string
		signal syscall.Signal
		want   bool
	}{
		"stopped":             {"1 (a) T 1", syscall.SIGSTOP, true},
		"not stopped yet":     {"1 (a) S 1", syscall.SIGSTOP, false},
		"name looks stopped":  {"1 (a) T) R 1", syscall.SIGSTOP, false},
		"goes on":             {"1 (a) S 1", syscall.SIGCONT, true},
		"still stopped":       {"1 (a) T 1", syscall.SIGCONT, false},
		"running is not dead": {"1 (a) R 1", syscall.SIGKILL, false},
		"zombie":              {"1 (a) Z 1", syscall.SIGKILL, true},
		"cut short":           {"1 (a)", syscall.SIGKILL, false},
	}
	for name, tc := range cases {
		if got := hasWorked(tc.stat, tc.signal); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}
