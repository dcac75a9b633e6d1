package localcluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// stateFile marks a folder as a cluster's: nothing is removed from a folder without it, unless its
// path is the default.
const stateFile = "localcluster.json"

// state is what another process needs to know of a cluster.
type state struct {
	Name       string             `json:"name"`
	Nodes      int                `json:"nodes"`
	Block      int                `json:"block"`
	Supervisor process            `json:"supervisor"`
	Inits      map[string]process `json:"inits"` // by host
	Ready      bool               `json:"ready"`
}

// process names a process for good: a number alone may be somebody else's by now.
type process struct {
	Pid     int    `json:"pid"`
	Started string `json:"started"` // clock ticks since boot
	Boot    string `json:"boot"`    // which boot
}

// identify returns the process that has this number now. The error is fs.ErrNotExist if there is none.
func identify(pid int) (process, error) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return process{}, fmt.Errorf("identifying process %d: %w", pid, err)
	}
	started, err := startTime(string(stat))
	if err != nil {
		return process{}, fmt.Errorf("identifying process %d: %w", pid, err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return process{}, fmt.Errorf("identifying process %d: %w", pid, err)
	}
	return process{Pid: pid, Started: started, Boot: strings.TrimSpace(string(boot))}, nil
}

// startTime is field 22 of /proc/PID/stat; field 2, in parentheses, may contain anything. A zombie
// counts as gone.
func startTime(stat string) (string, error) {
	rest, ok := afterLast(stat, ")")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 20 {
		return "", fmt.Errorf("unexpected form %q", stat)
	}
	if fields[0] == "Z" {
		return "", fs.ErrNotExist
	}
	return fields[19], nil
}

// afterLast is what follows the last separator in a text.
func afterLast(text, separator string) (after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return "", false
	}
	return text[i+len(separator):], true
}

// isAlive says whether exactly this process still runs.
func (p process) isAlive() bool {
	now, err := identify(p.Pid)
	return err == nil && p.Pid > 0 && now == p
}

// readState returns fs.ErrNotExist when the folder is not a cluster's.
func readState(dir string) (state, error) {
	content, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return state{}, fmt.Errorf("reading the cluster's state: %w", err)
	}
	var read state
	if err := json.Unmarshal(content, &read); err != nil {
		return state{}, fmt.Errorf("reading the cluster's state in %s: %w", dir, err)
	}
	return read, nil
}

// write replaces the file at once, so that no reader sees half of it.
func (s state) write(dir string) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the cluster's state: %w", err)
	}
	path := filepath.Join(dir, stateFile)
	if err := errors.Join(os.WriteFile(path+".new", content, 0o600), os.Rename(path+".new", path)); err != nil {
		return fmt.Errorf("writing the cluster's state: %w", err)
	}
	return nil
}

// recordInit notes the init process of a host, so that Clean finds it after a crash.
func (s *supervisor) recordInit(host string, pid int) error {
	identified, err := identify(pid)
	if err != nil {
		return err
	}
	return s.changeState(func(current *state) { current.Inits[host] = identified })
}

func (s *supervisor) changeState(change func(*state)) error {
	s.stateLock.Lock()
	defer s.stateLock.Unlock()
	change(&s.state)
	return s.state.write(s.dir)
}

func openLog(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening a log: %w", err)
	}
	return file, nil
}
