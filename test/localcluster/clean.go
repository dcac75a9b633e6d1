package localcluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"example.com/redis-operator/test/localcluster/internal/space"
)

// cleanGrace is how long a supervisor has to take its cluster down itself.
const cleanGrace = 20 * time.Second

// cgroupOf is the one thing of a cluster that the host sees outside its folder: the processes in it
// are the cluster's by its name.
func cgroupOf(name string) string { return "/localcluster-" + name }

// Clean removes what a cluster of that name and folder left behind, also if it is still running. It
// needs nothing but the name and what is in the folder, and does nothing when there is nothing.
func Clean(ctx context.Context, options Options) error {
	options, err := options.withDefaults()
	if err != nil {
		return err
	}
	if err := endSupervisor(ctx, options); err != nil {
		return err
	}
	return cleanRemains(ctx, options)
}

// endSupervisor asks the process that supervises the cluster to end, and kills it if it does not.
func endSupervisor(ctx context.Context, options Options) error {
	found, err := readState(options.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	supervisor := found.Supervisor
	if supervisor.Pid == os.Getpid() || !supervisor.isAlive() {
		return nil
	}
	grace, cancel := context.WithTimeout(ctx, cleanGrace)
	defer cancel()
	options.Log(fmt.Sprintf("ending process %d, which supervises the cluster", supervisor.Pid))
	if endProcess(grace, supervisor, syscall.SIGTERM) == nil {
		return nil
	}
	return endProcess(ctx, supervisor, syscall.SIGKILL)
}

// endProcess sends a signal and waits for the process to be gone.
func endProcess(ctx context.Context, target process, signal syscall.Signal) error {
	if !target.isAlive() {
		return nil
	}
	if err := syscall.Kill(target.Pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("ending process %d: %w", target.Pid, err)
	}
	return poll(ctx, fmt.Sprintf("the end of process %d", target.Pid), func(context.Context) (string, bool) {
		return "it still runs", !target.isAlive()
	})
}

// cleanRemains ends what is in the cluster's cgroup and removes cgroup and folder. Nobody supervises
// the cluster any more.
func cleanRemains(ctx context.Context, options Options) error {
	found, err := readState(options.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, init := range found.Inits {
		if err := endProcess(ctx, init, syscall.SIGKILL); err != nil {
			return err
		}
	}
	if err := emptyCgroup(ctx, cgroupOf(options.Name)); err != nil {
		return err
	}
	if found.Name == "" && !options.ownDir { // nothing says that the folder is a cluster's
		return nil
	}
	if err := os.RemoveAll(options.Dir); err != nil {
		return fmt.Errorf("removing the cluster's folder: %w", err)
	}
	return nil
}

// emptyCgroup kills all that is in a cgroup and removes it.
func emptyCgroup(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, cleanGrace)
	defer cancel()
	return poll(ctx, "the end of cgroup "+name, func(context.Context) (string, bool) {
		pids, err := space.CgroupProcesses(name)
		for _, pid := range pids {
			err = errors.Join(err, ignoreGone(syscall.Kill(pid, syscall.SIGKILL)))
		}
		if err == nil && len(pids) == 0 {
			err = space.RemoveCgroup(name)
		}
		return fmt.Sprintf("%d processes, %v", len(pids), err), err == nil && len(pids) == 0
	})
}

func ignoreGone(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}
