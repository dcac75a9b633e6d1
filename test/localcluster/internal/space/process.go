package space

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Process is one program running in a space.
type Process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has been waited for
	err  error         // how it ended; read only after done
}

// join puts the shell into the space's cgroups and then becomes the program.
const join = `for group in $CGROUPS; do echo 0 >"$group/cgroup.procs" || exit 125; done; exec "$@"`

// Start starts a program in the space. What it says is appended to the log file, a path of the host.
func (s *Space) Start(log string, path string, args ...string) (*Process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", path, err)
	}
	defer file.Close()
	cmd := exec.Command("/bin/sh", append([]string{"-c", join, "sh", path}, args...)...)
	cmd.Dir = "/"
	cmd.Env = s.environment()
	cmd.Stdout, cmd.Stderr = file, file
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := s.Do(cmd.Start); err != nil {
		return nil, fmt.Errorf("starting %s: %w", path, err)
	}
	p := &Process{name: path, cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says how the process ended. Only after Done.
func (p *Process) Err() error { return p.err }

// Signal sends a signal to the process.
func (p *Process) Signal(signal syscall.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil {
		return fmt.Errorf("sending signal %d to %s: %w", signal, p.name, err)
	}
	return nil
}

// Stop asks the process to end, kills it when the grace is over, and waits for it.
func (p *Process) Stop(grace time.Duration) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping %s: %w", p.name, err)
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing %s: %w", p.name, err)
	}
	<-p.done
	return nil
}

// Run runs a program in the space to its end and returns what it said on both its outputs. The
// error contains it too.
func (s *Space) Run(ctx context.Context, input string, path string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", join, "sh", path}, args...)...)
	cmd.Dir = "/"
	cmd.Env = s.environment()
	cmd.Stdin = strings.NewReader(input)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := s.Do(cmd.Start); err != nil {
		return "", fmt.Errorf("starting %s: %w", path, err)
	}
	if err := cmd.Wait(); err != nil {
		return said.String(), fmt.Errorf("running %s %s: %w: %s", path, strings.Join(args, " "), err, strings.TrimSpace(said.String()))
	}
	return said.String(), nil
}
