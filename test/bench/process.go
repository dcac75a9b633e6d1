package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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
	_, fields, err := readStat(pid)
	if err != nil {
		return 0, err
	}
	if len(fields) <= statStartTime {
		return 0, fmt.Errorf("reading the start of process %d: %d fields only", pid, len(fields))
	}
	ticks, err := strconv.ParseInt(fields[statStartTime], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the start of process %d: %w", pid, err)
	}
	return time.Duration(ticks) * clockTick, nil
}

// serverLogTime is the time at the beginning of a server's log line, in UTC as in the Pods:
// "1:C 30 Nov 2026 13:22:19.123 # ...".
var serverLogTime = regexp.MustCompile(`(?m)^\d+:[A-Z] (\d\d \w{3} \d{4} \d\d:\d\d:\d\d\.\d{3}) `)

// serverStart is when the server of a Pod whose log this is started, to 1 ms.
func serverStart(log string) (time.Time, error) {
	match := serverLogTime.FindStringSubmatch(log)
	if match == nil {
		return time.Time{}, fmt.Errorf("no line of a server in it: %q", log)
	}
	return time.Parse("02 Jan 2006 15:04:05.000", match[1])
}

// podProcessStart is when the first process of the Pod's container that runs the command was created,
// which the runtime does before it starts the container.
func podProcessStart(podUID, command string) (time.Time, error) {
	now, err := sinceBoot()
	if err != nil {
		return time.Time{}, err
	}
	booted := time.Now().Add(-now)
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return time.Time{}, err
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
			return time.Time{}, err
		}
		started, err := processStart(pid)
		return booted.Add(started), err
	}
	return time.Time{}, fmt.Errorf("no process %s runs in Pod %s", command, podUID)
}
