package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// quotaPeriod is the kernel's default period of processor limits, as Kubernetes sets it for containers.
const quotaPeriod = 100 * time.Millisecond

// cpuGroup is a cgroup that holds processes to a share of the processors. It knows both versions of cgroups.
type cpuGroup struct {
	folder string
	isV2   bool
}

// newCPUGroup makes a cgroup without a limit. It needs root.
func newCPUGroup(name string) (*cpuGroup, error) {
	for _, root := range []string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup"} {
		_, v1 := os.Stat(filepath.Join(root, "cpu.cfs_quota_us"))
		controllers, v2 := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
		isV2 := v2 == nil && strings.Contains(string(controllers), "cpu")
		if v1 != nil && !isV2 {
			continue
		}
		if isV2 {
			if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+cpu"), 0); err != nil {
				return nil, fmt.Errorf("delegating processor limits: %w", err)
			}
		}
		g := &cpuGroup{folder: filepath.Join(root, name), isV2: isV2}
		if err := os.Mkdir(g.folder, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("creating a cgroup: %w", err)
		}
		return g, nil
	}
	return nil, errors.New("creating a cgroup: none that limits processor time is mounted below /sys/fs/cgroup")
}

// add moves a process, with all its threads, into the cgroup.
func (g *cpuGroup) add(pid int) error {
	return g.write("cgroup.procs", strconv.Itoa(pid))
}

// limit holds the cgroup to so many cores.
func (g *cpuGroup) limit(cores float64) error {
	quota, period := int64(cores*float64(quotaPeriod.Microseconds())), quotaPeriod.Microseconds()
	if g.isV2 {
		return g.write("cpu.max", fmt.Sprintf("%d %d", quota, period))
	}
	return errors.Join(g.write("cpu.cfs_period_us", strconv.FormatInt(period, 10)), g.write("cpu.cfs_quota_us", strconv.FormatInt(quota, 10)))
}

func (g *cpuGroup) write(file, value string) error {
	if err := os.WriteFile(filepath.Join(g.folder, file), []byte(value), 0); err != nil {
		return fmt.Errorf("setting %s of a cgroup: %w", file, err)
	}
	return nil
}

// remove removes the cgroup, whose processes have ended.
func (g *cpuGroup) remove() error {
	if err := os.Remove(g.folder); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing a cgroup: %w", err)
	}
	return nil
}
