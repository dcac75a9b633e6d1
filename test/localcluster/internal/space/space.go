// Package space holds sets of Linux namespaces (pid, mount, network, IPC, UTS) and runs programs in
// them. It decides nothing about what runs there. A Space may be used from any goroutine.
package space

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrClosed is returned once the space's init process has been killed.
var ErrClosed = errors.New("space: closed")

// Config says how a space begins.
type Config struct {
	// Setup is a POSIX shell script that runs as process 1 of the new namespaces, as root, and stops
	// at its first error. It sets up mounts.
	Setup string
	// Init is the path of the program that replaces the script, as seen after it. It has to reap.
	Init string
	// Env is the environment of the script and of all that Start starts.
	Env []string
	// Cgroups are the folders of the cgroups that every process of the space belongs to.
	Cgroups []string
	// Log takes what the init process says.
	Log *os.File
}

// Space is a set of namespaces that lives as long as its init process. The init process dies with
// the thread that started it, hence with this process, and takes everything in the space with it.
type Space struct {
	config Config
	init   *exec.Cmd
	calls  chan func()   // run by the thread inside the namespaces, one after the other
	closed chan struct{} // closed by Kill: no call is taken after it
	dead   chan struct{} // closed when the init process has been waited for
	kill   sync.Once
}

const prologue = `set -e
mount --make-rprivate /
mount --make-rshared /
for group in $CGROUPS; do echo 0 >"$group/cgroup.procs"; done
mount -t proc proc /proc
`

const epilogue = `
echo ready >&3
exec 3>&-
exec "$INIT"
`

// New creates the namespaces and returns when the setup script has ended well.
func New(config Config) (*Space, error) {
	s := &Space{config: config, calls: make(chan func()), closed: make(chan struct{}), dead: make(chan struct{})}
	started := make(chan error, 1)
	OnThread(func() { s.live(started) })
	if err := <-started; err != nil {
		return nil, err
	}
	return s, nil
}

// live owns its thread: it starts the init process, enters its namespaces and serves calls.
func (s *Space) live(started chan<- error) {
	err := s.startInit()
	if err == nil {
		if err = enter(s.Pid()); err != nil {
			s.init.Process.Kill()
		}
		go s.wait()
	}
	started <- err
	if err != nil {
		return
	}
	for {
		select {
		case call := <-s.calls:
			call()
		case <-s.closed:
			// The thread has to outlive the init process's own end: until then the init process is
			// alive by no other will than the killer's.
			<-s.dead
			return
		}
	}
}

func (s *Space) startInit() error {
	ready, ended, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("making a pipe: %w", err)
	}
	defer ready.Close()
	s.init = exec.Command("/bin/sh", "-c", prologue+s.config.Setup+epilogue)
	s.init.Env = append(s.environment(), "INIT="+s.config.Init)
	s.init.ExtraFiles = []*os.File{ended}
	s.init.Stdout, s.init.Stderr = s.config.Log, s.config.Log
	s.init.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
		Setsid:     true,
	}
	err = s.init.Start()
	ended.Close()
	if err != nil {
		return fmt.Errorf("creating namespaces: %w", err)
	}
	said, _ := io.ReadAll(ready)
	if strings.TrimSpace(string(said)) != "ready" {
		s.init.Process.Kill()
		s.init.Wait()
		return fmt.Errorf("setting up namespaces: the script stopped early, see %s", s.config.Log.Name())
	}
	return nil
}

func (s *Space) environment() []string {
	return append([]string{"CGROUPS=" + strings.Join(s.config.Cgroups, " ")}, s.config.Env...)
}

// enter takes the calling thread into the namespaces of a process. What it starts is in its pid
// namespace, too; the thread itself is not.
func enter(pid int) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unsharing the thread's root folder: %w", err)
	}
	var fds []int
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	for _, kind := range []string{"pid", "net", "ipc", "uts", "mnt"} { // mnt last: it changes /proc
		path := filepath.Join("/proc", fmt.Sprint(pid), "ns", kind)
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("opening %s: %w", path, err)
		}
		fds = append(fds, fd)
	}
	for _, fd := range fds {
		if err := unix.Setns(fd, 0); err != nil {
			return fmt.Errorf("entering namespaces of %d: %w", pid, err)
		}
	}
	return nil
}

func (s *Space) wait() {
	s.init.Wait()
	s.shut()
	close(s.dead)
}

func (s *Space) shut() { s.kill.Do(func() { close(s.closed) }) }

// Pid is the init process, numbered as the host does.
func (s *Space) Pid() int { return s.init.Process.Pid }

// Dead is closed when the init process has ended, and with it everything in the space.
func (s *Space) Dead() <-chan struct{} { return s.dead }

// Closed is closed as soon as the space is being killed or has died.
func (s *Space) Closed() <-chan struct{} { return s.closed }

// Do runs a function on the thread that is inside the namespaces. It must not start goroutines that
// expect to be inside too.
func (s *Space) Do(f func() error) error {
	done := make(chan error, 1)
	select {
	case s.calls <- func() { done <- f() }:
		return <-done
	case <-s.closed:
		return ErrClosed
	}
}

// Kill ends everything in the space at once and returns when it is gone.
func (s *Space) Kill() {
	s.shut()
	s.init.Process.Kill()
	<-s.dead
}
