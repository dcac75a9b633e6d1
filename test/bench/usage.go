package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The fields of /proc/PID/stat after the command begin with number 3, see proc(5).
const (
	statParent     = 4 - 3
	statUserTime   = 14 - 3
	statSystemTime = 15 - 3
	statStartTime  = 22 - 3
)

// readStat returns the name of a process's command and the fields after it.
func readStat(pid int) (command string, fields []string, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", nil, err
	}
	first, last := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if first < 0 || last < first {
		return "", nil, fmt.Errorf("reading the state of process %d: %q", pid, stat)
	}
	fields = strings.Fields(string(stat[last+1:]))
	if len(fields) <= statSystemTime {
		return "", nil, fmt.Errorf("reading the state of process %d: %d fields only", pid, len(fields))
	}
	return string(stat[first+1 : last]), fields, nil
}

// processorTime is what a process has used of the processors, to 10 ms.
func processorTime(pid int) (time.Duration, error) {
	_, fields, err := readStat(pid)
	if err != nil {
		return 0, err
	}
	var ticks int64
	for _, field := range []int{statUserTime, statSystemTime} {
		n, err := strconv.ParseInt(fields[field], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading the processor time of process %d: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// children returns this process's children by the name of their command.
func children() (map[string]int, error) {
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	found := map[string]int{}
	for _, folder := range folders {
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil {
			continue
		}
		command, fields, err := readStat(pid)
		if err == nil && fields[statParent] == strconv.Itoa(os.Getpid()) {
			found[command] = pid
		}
	}
	return found, nil
}

// residentSet is the resident set of a process in bytes.
func residentSet(pid int) (int64, error) {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(statm))
	if len(fields) < 2 {
		return 0, fmt.Errorf("reading the resident set of process %d: %q", pid, statm)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// hostTime is the processor time of the whole host since it was started: what was used, and all that there was.
func hostTime() (busy, total time.Duration, err error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, err
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	fields := strings.Fields(line)
	// cpu user nice system idle iowait irq softirq steal; what guests use is in user already.
	const idle, ioWait, last = 4, 5, 8
	if len(fields) <= last || fields[0] != "cpu" {
		return 0, 0, fmt.Errorf("reading the host's processor time: %q", line)
	}
	for i := 1; i <= last; i++ {
		ticks, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("reading the host's processor time: %w", err)
		}
		total += time.Duration(ticks) * clockTick
		if i != idle && i != ioWait {
			busy += time.Duration(ticks) * clockTick
		}
	}
	return busy, total, nil
}
