package resources

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	redisv1 "example.com/redis-operator/api/v1"
)

// The nodes.conf files of the tests: own id aaa.
const (
	primaryWithReplica = `bbb 10.0.0.2:6379@16379 slave aaa 0 1700000000000 7 connected
aaa 10.0.0.1:6379@16379 myself,master - 0 0 7 connected 0-5460
ccc 10.0.0.3:6379@16379 master - 0 1700000000000 2 connected 5461-16383
vars currentEpoch 9 lastVoteEpoch 0
`
	primaryAlone = `aaa 10.0.0.1:6379@16379 myself,master - 0 0 7 connected 0-16383
vars currentEpoch 9 lastVoteEpoch 0
`
	primaryWithoutSlots = `aaa 10.0.0.1:6379@16379 myself,master - 0 0 7 connected
bbb 10.0.0.2:6379@16379 slave aaa 0 1700000000000 7 connected
vars currentEpoch 9 lastVoteEpoch 0
`
	replica = `aaa 10.0.0.1:6379@16379 myself,slave bbb 0 0 7 connected
bbb 10.0.0.2:6379@16379 master - 0 1700000000000 7 connected 0-16383
vars currentEpoch 9 lastVoteEpoch 0
`
)

// tools is all that an image needs beside the server.
var tools = []string{"od", "sed", "cat", "mv", "rm", "sleep"}

// sandbox is one node's directories, with a PATH that holds nothing but the tools.
type sandbox struct {
	t     *testing.T
	dir   string
	shell []string
	env   []string
}

// forEachShell runs a test under the system's sh with the system's tools and under busybox with its own.
func forEachShell(t *testing.T, test func(t *testing.T, s *sandbox)) {
	t.Helper()
	for name, debian := range map[string]string{"sh": "dash", "busybox": "busybox-static"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, err := exec.LookPath(name)
			if err != nil {
				t.Fatalf("%s is missing: apt-get install %s", name, debian)
			}
			test(t, newSandbox(t, path, name == "busybox"))
		})
	}
}

func newSandbox(t *testing.T, shell string, isBusybox bool) *sandbox {
	t.Helper()
	s := &sandbox{t: t, dir: t.TempDir(), shell: []string{shell}}
	for _, name := range []string{"data", "run", "config", "podinfo", "secret", "bin"} {
		if err := os.Mkdir(filepath.Join(s.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, tool := range tools {
		target := shell
		if !isBusybox {
			found, err := exec.LookPath(tool)
			if err != nil {
				t.Fatal(err)
			}
			target = found
		}
		if err := os.Symlink(target, filepath.Join(s.dir, "bin", tool)); err != nil {
			t.Fatal(err)
		}
	}
	if isBusybox {
		s.shell = []string{shell, "sh"}
	}
	s.env = []string{
		"PATH=" + filepath.Join(s.dir, "bin"), "REDIS_SERVER=/bin/echo",
		"DATA_DIR=" + filepath.Join(s.dir, "data"), "RUN_DIR=" + filepath.Join(s.dir, "run"),
		"CONFIG_FILE=" + s.path("config/redis.conf"), "PASSWORD_FILE=" + s.path("secret/password"),
		"GATE_FILE=" + s.path("podinfo/start-gate"), "POD_UID=uid-1",
	}
	s.write("config/entrypoint.sh", entrypoint)
	s.write("podinfo/start-gate", "")
	s.configure(nil, false)
	return s
}

func (s *sandbox) path(name string) string { return filepath.Join(s.dir, name) }

func (s *sandbox) write(name, content string) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Dir(s.path(name)), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(s.path(name), []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// configure writes the redis.conf that the builder makes.
func (s *sandbox) configure(config map[string]redisv1.ConfigValue, hasStorage bool) {
	s.t.Helper()
	in := Input{Cluster: testCluster(), Config: config}
	if !hasStorage {
		in.Cluster.Spec.Storage = nil
	}
	s.write("config/redis.conf", ConfigMap(in).Data[keyConfig])
}

// start runs the entry program in the background; it is killed when the test ends.
func (s *sandbox) start(env ...string) *process {
	s.t.Helper()
	args := append(append([]string{}, s.shell[1:]...), s.path("config/entrypoint.sh"))
	cmd := exec.Command(s.shell[0], args...)
	cmd.Env = append(append([]string{}, s.env...), env...)
	p := &process{t: s.t, cmd: cmd, grown: make(chan struct{}, 1), done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p, p
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		p.err = cmd.Wait()
	}()
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.done
	})
	return p
}

// process is a running entry program, or what it has become.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	grown chan struct{}
	done  chan struct{}
	err   error

	mu      sync.Mutex // guards the fields below
	said    []byte
	awaited int // how much of it await has gone through
}

// Write takes in output. It never waits for a reader: a server whose log is not read stands still.
func (p *process) Write(output []byte) (int, error) {
	p.mu.Lock()
	p.said = append(p.said, output...)
	p.mu.Unlock()
	select {
	case p.grown <- struct{}{}:
	default:
	}
	return len(output), nil
}

// output is all that was said so far.
func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.said)
}

// await waits for a line that contains one of the texts, after the one that it found last, and returns which.
func (p *process) await(texts ...string) string {
	p.t.Helper()
	limit := time.After(20 * time.Second)
	for {
		if text := p.next(texts); text != "" {
			return text
		}
		select {
		case <-p.grown:
		case <-p.done: // with all that it said
			if text := p.next(texts); text != "" {
				return text
			}
			p.t.Fatalf("ended (%v) without saying any of %q; it said:\n%s", p.err, texts, p.output())
		case <-limit:
			p.t.Fatalf("nothing of %q after 20 s; it said:\n%s", texts, p.output())
		}
	}
}

// next goes on through the whole lines that were said, to one that contains one of the texts.
func (p *process) next(texts []string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		line, _, isWhole := bytes.Cut(p.said[p.awaited:], []byte("\n"))
		if !isWhole {
			return ""
		}
		p.awaited += len(line) + 1
		for _, text := range texts {
			if bytes.Contains(line, []byte(text)) {
				return text
			}
		}
	}
}

const (
	saysWaiting = "waiting at the start gate"
	saysStarted = "/run/" // the fake server prints the path of its configuration
)

func TestStartGate(t *testing.T) {
	noAOF := map[string]redisv1.ConfigValue{"appendonly": "no"}
	lazyAOF := map[string]redisv1.ConfigValue{"APPENDFSYNC": "no"}
	cases := map[string]struct {
		nodes   string
		config  map[string]redisv1.ConfigValue
		storage bool
		files   []string
		gate    string
		used    string
		want    string
		dropped bool
	}{
		"fresh":                                 {want: saysStarted},
		"replica":                               {nodes: replica, want: saysStarted},
		"primary without a replica":             {nodes: primaryAlone, want: saysStarted},
		"primary without slots":                 {nodes: primaryWithoutSlots, want: saysStarted},
		"primary with a replica":                {nodes: primaryWithReplica, want: saysWaiting},
		"primary with a replica and a snapshot": {nodes: primaryWithReplica, files: []string{"dump.rdb"}, want: saysWaiting},
		"append-only file, every second":        {nodes: primaryWithReplica, storage: true, files: []string{"appendonlydir/appendonly.aof.manifest"}, want: saysStarted},
		"append-only file, fsync left to the kernel": {nodes: primaryWithReplica, storage: true, config: lazyAOF,
			files: []string{"appendonlydir/appendonly.aof.manifest"}, want: saysWaiting},
		"append-only file, fsync LEFT to the kernel": {nodes: primaryWithReplica, storage: true,
			config: map[string]redisv1.ConfigValue{"appendfsync": "NO"},
			files:  []string{"appendonlydir/appendonly.aof.manifest"}, want: saysWaiting},
		"append-only file, switched on in capitals": {nodes: primaryWithReplica, config: map[string]redisv1.ConfigValue{"appendonly": "YES"},
			files: []string{"appendonlydir/appendonly.aof.manifest"}, want: saysStarted},
		"append-only file wanted and not there": {nodes: primaryWithReplica, storage: true, files: []string{"dump.rdb"}, want: saysWaiting},
		"append-only file there and switched off": {nodes: primaryWithReplica, storage: true, config: noAOF,
			files: []string{"appendonlydir/appendonly.aof.manifest"}, want: saysWaiting},
		"another primary, higher epoch": {nodes: primaryWithReplica, files: []string{"dump.rdb"}, gate: "8", want: saysStarted},
		"another primary, no data set":  {nodes: primaryWithReplica, gate: "8", want: saysStarted, dropped: true},
		"stale epoch":                   {nodes: primaryWithReplica, gate: "7", want: saysWaiting},
		"serve":                         {nodes: primaryWithReplica, gate: "serve:7", want: saysStarted},
		"serve, counted":                {nodes: primaryWithReplica, gate: "serve:7:3", want: saysStarted},
		"serve another epoch":           {nodes: primaryWithReplica, gate: "serve:6", want: saysWaiting},
		"serve, used before":            {nodes: primaryWithReplica, gate: "serve:7:3", used: "uid-1 serve:7:3", want: saysWaiting},
		"serve, used by an earlier Pod": {nodes: primaryWithReplica, gate: "serve:7:3", used: "uid-0 serve:7:3", want: saysStarted},
		"serve, used by another start":  {nodes: primaryWithReplica, gate: "serve:7:4", used: "uid-1 serve:7:3", want: saysStarted},
		"serve whatever the epoch":      {nodes: primaryWithReplica, gate: "serve:*:2", want: saysStarted},
		"nonsense":                      {nodes: primaryWithReplica, gate: "8x", want: saysWaiting},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forEachShell(t, func(t *testing.T, s *sandbox) {
				s.configure(tc.config, tc.storage)
				if tc.nodes != "" {
					s.write("data/nodes.conf", tc.nodes)
				}
				for _, file := range tc.files {
					s.write("data/"+file, "x")
				}
				if tc.used != "" {
					s.write("data/gate-used", tc.used+"\n")
				}
				s.write("podinfo/start-gate", tc.gate)
				p := s.start()
				// A value that opens the gate is seen after the line that says that it waits.
				got := p.await(saysWaiting, saysStarted)
				if got == saysWaiting && tc.want == saysStarted {
					got = p.await(saysStarted)
				}
				if got != tc.want {
					t.Fatalf("got %q, want %q; it said:\n%s", got, tc.want, p.output())
				}
				if tc.want == saysWaiting {
					s.staysShut(p)
					return
				}
				_, err := os.Stat(s.path("data/nodes.conf"))
				if dropped := tc.nodes != "" && os.IsNotExist(err); dropped != tc.dropped {
					t.Errorf("nodes.conf dropped: %t, want %t", dropped, tc.dropped)
				}
			})
		})
	}
}

// staysShut proves that the gate was tried and not opened: it opens for a value that must open it, and
// that one alone is spoken of.
func (s *sandbox) staysShut(p *process) {
	s.t.Helper()
	s.awaitRead("podinfo/start-gate")
	s.write("podinfo/start-gate", "1000")
	p.await(saysStarted)
	if !strings.Contains(p.output(), "start gate open (1000)") {
		s.t.Errorf("the gate was opened by another value:\n%s", p.output())
	}
}

// awaitRead waits until somebody who has read a file closes it.
func (s *sandbox) awaitRead(name string) {
	s.t.Helper()
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		s.t.Fatal(err)
	}
	events := os.NewFile(uintptr(fd), "inotify")
	defer events.Close()
	if _, err := syscall.InotifyAddWatch(fd, s.path(name), syscall.IN_CLOSE_NOWRITE); err != nil {
		s.t.Fatal(err)
	}
	if err := events.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		s.t.Fatal(err)
	}
	if _, err := events.Read(make([]byte, syscall.SizeofInotifyEvent+syscall.NAME_MAX+1)); err != nil {
		s.t.Fatalf("nobody reads %s: %v", name, err)
	}
}

func TestSignalEndsTheWaitAtOnce(t *testing.T) {
	forEachShell(t, func(t *testing.T, s *sandbox) {
		s.write("data/nodes.conf", primaryWithReplica)
		p := s.start()
		p.await(saysWaiting)
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		select {
		case <-p.done:
		case <-time.After(5 * time.Second):
			t.Fatal("still there 5 s after SIGTERM")
		}
		if code := p.cmd.ProcessState.ExitCode(); code != 143 {
			t.Errorf("exit code %d, want 143", code)
		}
	})
}

func TestPasswordRefused(t *testing.T) {
	cases := map[string]struct{ password, want string }{
		"empty":            {"", "the password is empty"},
		"newline":          {"secret\n", "holds a NUL or a newline"},
		"NUL":              {"a\x00b", "holds a NUL or a newline"},
		"newline, line 2":  {strings.Repeat("x", 16) + "\n", "holds a NUL or a newline"},
		"NUL, end of line": {strings.Repeat("x", 15) + "\x00", "holds a NUL or a newline"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forEachShell(t, func(t *testing.T, s *sandbox) {
				s.write("secret/password", tc.password)
				p := s.start("PASSWORD_SECRET=name")
				p.await(tc.want)
				<-p.done
				if p.err == nil {
					t.Error("ended well, want an error")
				}
				s.write("secret/password", "corrected")
				s.start("PASSWORD_SECRET=name").await(saysStarted)
			})
		})
	}
}
