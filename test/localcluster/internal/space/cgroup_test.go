package space

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseHierarchies(t *testing.T) {
	cases := map[string]struct {
		mountinfo string
		want      []string
	}{
		"v2": {"30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n", []string{"/sys/fs/cgroup"}},
		"v1": {
			"23 1 8:1 / / rw - ext4 /dev/vda rw\n" +
				"33 32 0:30 / /sys/fs/cgroup/pids rw shared:9 - cgroup cgroup rw,pids\n" +
				"32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n",
			[]string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/pids"},
		},
		"mounted twice": {"1 1 0:1 / /c rw - cgroup2 a rw\n2 1 0:1 / /c rw - cgroup2 a rw\n", []string{"/c"}},
		"none":          {"23 1 8:1 / / rw - ext4 /dev/vda rw\nbroken\n", nil},
	}
	for name, tc := range cases {
		if diff := cmp.Diff(tc.want, parseHierarchies(tc.mountinfo)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestReadPids(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cgroup.procs")
	if pids, err := readPids(path); err != nil || pids != nil {
		t.Errorf("a cgroup that is gone: %v, %v", pids, err)
	}
	if err := os.WriteFile(path, []byte("7\n0\n12\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	pids, err := readPids(path)
	if diff := cmp.Diff([]int{7, 12}, pids); err != nil || diff != "" {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
}
