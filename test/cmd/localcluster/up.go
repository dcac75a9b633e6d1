package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"example.com/redis-operator/test/localcluster"
	"golang.org/x/sys/unix"
)

// errSaid is an error that the supervising process has explained already.
var errSaid = errors.New("localcluster: the cluster did not start")

// up starts a process that supervises the cluster, repeats what it says until the cluster is ready,
// and leaves it running. It does nothing when the cluster runs already. When up itself is interrupted before that, so is the cluster.
func up(ctx context.Context, options localcluster.Options, _ []string) error {
	if cluster, err := localcluster.Find(options); err == nil {
		say(fmt.Sprintf("cluster %s runs already in %s", cluster.Name(), cluster.Dir()))
		say("export KUBECONFIG=" + cluster.Kubeconfig())
		return nil
	}
	heard, said, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("making a pipe: %w", err)
	}
	defer heard.Close()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	child := exec.Command(self, "run", "-name", options.Name, "-dir", options.Dir, "-binaries", options.Binaries,
		"-nodes", strconv.Itoa(options.Nodes), "-block", strconv.Itoa(options.Block))
	child.Stdout, child.Stderr = said, said
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a Ctrl-C reaches it through this process alone
	// The child outlives this process and whatever lock it was started under.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("keeping open files to this process: %w", err)
	}
	err = child.Start()
	said.Close()
	if err != nil {
		return fmt.Errorf("starting the supervising process: %w", err)
	}
	interrupt := context.AfterFunc(ctx, func() { child.Process.Signal(syscall.SIGTERM) })
	defer interrupt()
	for lines := bufio.NewScanner(heard); lines.Scan(); {
		say(lines.Text())
	}
	// The child has closed its side: it is ready, or it has ended.
	cluster, problem := localcluster.Find(options)
	if problem == nil && ctx.Err() == nil && cluster.Supervisor() == child.Process.Pid {
		say("export KUBECONFIG=" + cluster.Kubeconfig())
		return nil
	}
	if err := child.Wait(); err != nil {
		return errSaid
	}
	return errors.Join(problem, ctx.Err())
}

// run supervises a cluster in the foreground until it is told to end. It says what it does on its
// standard output until the cluster is ready, and after that in the cluster's folder.
func run(ctx context.Context, options localcluster.Options, _ []string) error {
	options.Log = say
	cluster, err := localcluster.Start(ctx, options)
	if err != nil {
		return err
	}
	problem := redirect(filepath.Join(cluster.Dir(), "log", "supervisor.log"))
	if problem == nil {
		select {
		case <-ctx.Done():
		case <-cluster.Dead():
		}
	}
	return errors.Join(problem, cluster.Stop(context.WithoutCancel(ctx)))
}

// redirect sends both outputs to a file, which also tells whoever started this process that it is ready.
func redirect(path string) error {
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the supervisor's log: %w", err)
	}
	defer log.Close()
	for _, fd := range []int{1, 2} {
		if err := unix.Dup3(int(log.Fd()), fd, 0); err != nil {
			return fmt.Errorf("redirecting the output: %w", err)
		}
	}
	return nil
}
