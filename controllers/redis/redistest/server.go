// Package redistest has what tests of the operator need in place of a Redis Cluster: Cluster, an in-memory one in
// virtual time that obeys the commands that the planner emits, by itself or behind Redis's wire protocol (WireServer),
// and Server, a real redis-server process on loopback. All three pass the same contract test.
package redistest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"example.com/redis-operator/controllers/topology"
)

// ServerOptions describe a Server. Dir is required.
type ServerOptions struct {
	// Dir holds everything of the server, the data directory "data" among it. What is in it is kept.
	Dir string
	// Address is where to listen; the zero value means FreeAddress.
	Address topology.Address
	// NodeTimeout is cluster-node-timeout; 0 means 1 s.
	NodeTimeout time.Duration
	// Config has further lines of redis.conf, which win over those written before.
	Config []string
	// Binary is the program; empty means redis-server.
	Binary string
	// Entrypoint is the path of the operator's entry program, to be run in place of the server itself. It gets its
	// start gate's value from the file "start-gate" in Dir.
	Entrypoint string
}

// Server is a real redis-server process in cluster mode. Its methods must not be called concurrently, apart from
// IsRunning.
type Server struct {
	Address topology.Address
	Dir     string
	Started time.Time

	cmd  *exec.Cmd
	done chan struct{} // closed once the process has ended
}

// FreeAddress is an address of its own in 127.0.0.0/8 at which nothing listens, neither at its port nor its bus port.
func FreeAddress() (topology.Address, error) {
	for range 100 {
		ip := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250))
		address := topology.Address{IP: ip, Port: 10000 + rand.IntN(20000)}
		if isFree(ip, address.Port) && isFree(ip, address.Bus()) {
			return address, nil
		}
	}
	return topology.Address{}, errors.New("looking for a free loopback address: none of 100 was free")
}

func isFree(ip string, port int) bool {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// StartServer starts a server and ends it with the test. It does not wait until the server listens.
func StartServer(tb testing.TB, options ServerOptions) *Server {
	tb.Helper()
	if options.Address.IP == "" {
		address, err := FreeAddress()
		if err != nil {
			tb.Fatal(err)
		}
		options.Address = address
	}
	if options.NodeTimeout == 0 {
		options.NodeTimeout = time.Second
	}
	if options.Binary == "" {
		options.Binary = "redis-server"
	}
	s := &Server{Address: options.Address, Dir: options.Dir, done: make(chan struct{})}
	s.cmd = prepare(tb, options)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.Started = time.Now()
	if err := startLocked(s.cmd); err != nil {
		tb.Fatalf("starting %s: %v", options.Binary, err)
	}
	go func() {
		_ = s.cmd.Wait() // It ends by a signal more often than not.
		close(s.done)
	}()
	tb.Cleanup(s.Kill)
	return s
}

// starting keeps one thread for all starts: a process with Pdeathsig dies with the thread that started it.
var starting struct {
	once     sync.Once
	requests chan func()
}

func startLocked(cmd *exec.Cmd) error {
	starting.once.Do(func() {
		starting.requests = make(chan func())
		go runLocked(starting.requests)
	})
	result := make(chan error)
	starting.requests <- func() { result <- cmd.Start() }
	return <-result
}

// prepare makes the folders and the configuration, and the command that starts the server.
func prepare(tb testing.TB, o ServerOptions) *exec.Cmd {
	tb.Helper()
	conf := filepath.Join(o.Dir, "redis.conf")
	data, run := filepath.Join(o.Dir, "data"), filepath.Join(o.Dir, "run")
	err := errors.Join(os.MkdirAll(data, 0o700), os.MkdirAll(run, 0o700),
		os.WriteFile(conf, []byte(renderConfig(o, data)), 0o600))
	if err != nil {
		tb.Fatalf("preparing a server: %v", err)
	}
	if o.Entrypoint == "" {
		return exec.CommandContext(tb.Context(), o.Binary, conf)
	}
	cmd := exec.CommandContext(tb.Context(), "sh", o.Entrypoint)
	cmd.Env = append(os.Environ(), "REDIS_SERVER="+o.Binary, "DATA_DIR="+data, "RUN_DIR="+run, "CONFIG_FILE="+conf,
		"GATE_FILE="+filepath.Join(o.Dir, "start-gate"), "POD_IP="+o.Address.IP)
	return cmd
}

// renderConfig is the operator's own configuration as far as it matters to a cluster.
func renderConfig(o ServerOptions, data string) string {
	lines := []string{
		"# directives 0123456789abcdef",
		"bind " + o.Address.IP,
		"bind-source-addr " + o.Address.IP,
		"port " + strconv.Itoa(o.Address.Port),
		"cluster-port " + strconv.Itoa(o.Address.Bus()),
		"protected-mode no",
		"daemonize no",
		"dir " + data,
		"logfile " + filepath.Join(o.Dir, "log"),
		"cluster-enabled yes",
		"cluster-config-file nodes.conf",
		"cluster-node-timeout " + strconv.FormatInt(o.NodeTimeout.Milliseconds(), 10),
		"cluster-allow-replica-migration no",
		"repl-diskless-sync yes",
		"repl-diskless-sync-delay 0",
	}
	return strings.Join(append(lines, o.Config...), "\n") + "\n"
}

// IsRunning reports whether the process has not ended.
func (s *Server) IsRunning() bool {
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

// Kill ends the process with SIGKILL and waits for its end.
func (s *Server) Kill() { s.signal(syscall.SIGKILL, true) }

// Terminate ends the process with SIGTERM, whereupon it saves as configured, and waits for its end.
func (s *Server) Terminate() { s.signal(syscall.SIGTERM, true) }

// Pause stops the process without ending it; Resume lets it go on.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP, false) }

// Resume lets a paused process go on.
func (s *Server) Resume() { s.signal(syscall.SIGCONT, false) }

func (s *Server) signal(sig syscall.Signal, isEnd bool) {
	if s.IsRunning() {
		_ = s.cmd.Process.Signal(sig) // It may have ended since.
	}
	if isEnd {
		<-s.done
	}
}
