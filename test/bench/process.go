package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// clockTick is the kernel's USER_HZ: the unit of starttime in /proc/PID/stat (proc(5)).
const clockTick = 10 * time.Millisecond

// sinceBoot is CLOCK_BOOTTIME, on which process starts are given too.
func sinceBoot() (time.Duration, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0, fmt.Errorf("reading the boot clock: %w", err)
	}
	return time.Duration(now.Nano()), nil
}

// processStart is when a process started, since boot, to 10 ms.
func processStart(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("reading the start of process %d: %w", pid, err)
	}
	// The fields after the command, which may hold anything, begin with number 3, the state.
	const startTime = 22 - 3
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= startTime {
		return 0, fmt.Errorf("reading the start of process %d: %d fields only", pid, len(fields))
	}
	ticks, err := strconv.ParseInt(fields[startTime], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the start of process %d: %w", pid, err)
	}
	return time.Duration(ticks) * clockTick, nil
}

// podProcessStart is when the process of that name in the Pod's containers started.
func podProcessStart(podUID, command string) (time.Duration, error) {
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		comm, err := os.ReadFile(name)
		if err != nil || strings.TrimSpace(string(comm)) != command {
			continue
		}
		dir := filepath.Dir(name)
		cgroup, err := os.ReadFile(filepath.Join(dir, "cgroup"))
		if err != nil || !strings.Contains(string(cgroup), "pod"+podUID) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return 0, err
		}
		return processStart(pid)
	}
	return 0, fmt.Errorf("no process %s runs in Pod %s", command, podUID)
}
