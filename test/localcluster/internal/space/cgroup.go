package space

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Hierarchies returns the folders where cgroups are mounted on this host: one for cgroup v2, one a
// controller for v1, both on a hybrid host.
func Hierarchies() ([]string, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("reading mounts: %w", err)
	}
	found := parseHierarchies(string(mounts))
	if len(found) == 0 {
		return nil, errors.New("no cgroup hierarchy is mounted")
	}
	return found, nil
}

// parseHierarchies reads /proc/PID/mountinfo: the mount point is field 5, the type follows the dash.
func parseHierarchies(mountinfo string) []string {
	var found []string
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if !ok || len(fields) < 5 {
			continue
		}
		kind, _, _ := strings.Cut(after, " ")
		if kind == "cgroup" || kind == "cgroup2" {
			found = append(found, fields[4])
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// CreateCgroup creates a cgroup, named by its path from the root, in every hierarchy, and returns
// its folders. It is usable at once: the cpuset is its parent's, and with cgroup v2 the parents pass
// all controllers on.
func CreateCgroup(name string) ([]string, error) {
	hierarchies, err := Hierarchies()
	if err != nil {
		return nil, err
	}
	var folders []string
	for _, hierarchy := range hierarchies {
		folder := hierarchy
		for part := range strings.SplitSeq(strings.Trim(name, "/"), "/") {
			if err := delegate(folder); err != nil {
				return nil, err
			}
			folder = filepath.Join(folder, part)
			if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return nil, fmt.Errorf("creating a cgroup: %w", err)
			}
			if err := inheritCPUSet(folder); err != nil {
				return nil, err
			}
		}
		folders = append(folders, folder)
	}
	return folders, nil
}

// delegate lets the children of a v2 cgroup use the controllers that it may use itself.
func delegate(folder string) error {
	controllers, err := os.ReadFile(filepath.Join(folder, "cgroup.controllers"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // cgroup v1
	}
	if err != nil {
		return fmt.Errorf("reading controllers: %w", err)
	}
	for controller := range strings.FieldsSeq(string(controllers)) {
		path := filepath.Join(folder, "cgroup.subtree_control")
		if err := os.WriteFile(path, []byte("+"+controller), 0); err != nil {
			return fmt.Errorf("delegating %s in %s: %w", controller, folder, err)
		}
	}
	return nil
}

// SetWeight gives a cgroup a multiple of the processor time that a cgroup has by default, when there
// is not enough for all.
func SetWeight(name string, factor int) error {
	hierarchies, err := Hierarchies()
	if err != nil {
		return err
	}
	// The defaults of cgroup v1 and v2.
	for file, unit := range map[string]int{"cpu.shares": 1024, "cpu.weight": 100} {
		for _, hierarchy := range hierarchies {
			path := filepath.Join(hierarchy, name, file)
			if _, err := os.Stat(path); err != nil {
				continue // another version, or another controller's hierarchy
			}
			if err := os.WriteFile(path, []byte(strconv.Itoa(unit*factor)), 0); err != nil {
				return fmt.Errorf("setting the weight of %s: %w", name, err)
			}
		}
	}
	return nil
}

// inheritCPUSet gives a v1 cpuset what its parent has: an empty one takes no process.
func inheritCPUSet(folder string) error {
	if _, err := os.Stat(filepath.Join(folder, "cgroup.controllers")); err == nil {
		return nil // cgroup v2 inherits by itself
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(filepath.Dir(folder), file))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the parent's cpuset: %w", err)
		}
		if err := os.WriteFile(filepath.Join(folder, file), value, 0); err != nil {
			return fmt.Errorf("setting the cpuset of %s: %w", folder, err)
		}
	}
	return nil
}

// CgroupProcesses returns the processes in a cgroup and below, in any hierarchy, in ascending order.
func CgroupProcesses(name string) ([]int, error) {
	var pids []int
	err := walkCgroup(name, func(folder string) error {
		found, err := readPids(filepath.Join(folder, "cgroup.procs"))
		pids = append(pids, found...)
		return err
	})
	slices.Sort(pids)
	return slices.Compact(pids), err
}

// RemoveCgroup removes a cgroup and what is below it in every hierarchy. It has to be empty of
// processes, or the error is EBUSY.
func RemoveCgroup(name string) error {
	var folders []string
	err := walkCgroup(name, func(folder string) error {
		folders = append(folders, folder)
		return nil
	})
	if err != nil {
		return err
	}
	slices.Reverse(folders) // parents come first in a walk
	for _, folder := range folders {
		if err := os.Remove(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing a cgroup: %w", err)
		}
	}
	return nil
}

// walkCgroup visits the folders of a cgroup, parents first. What vanishes meanwhile is skipped.
func walkCgroup(name string, visit func(folder string) error) error {
	hierarchies, err := Hierarchies()
	if err != nil {
		return err
	}
	for _, hierarchy := range hierarchies {
		root := filepath.Join(hierarchy, name)
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case isGone(err):
				return nil
			case err != nil:
				return err
			case entry.IsDir():
				return visit(path)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("walking cgroup %s: %w", root, err)
		}
	}
	return nil
}

func readPids(path string) ([]int, error) {
	content, err := os.ReadFile(path)
	if isGone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading processes: %w", err)
	}
	var pids []int
	for field := range strings.FieldsSeq(string(content)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		if pid > 0 { // 0 is a process of another pid namespace
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV)
}
