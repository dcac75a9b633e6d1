package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// replicaProcess is one process of the operator, as its Pod would run it.
type replicaProcess struct {
	command *exec.Cmd
	group   *cpuGroup
	link    *countingLink
	metrics string // address
	files   []string
	exited  chan struct{}
}

// replicaSettings are what the Pod would give to the process.
type replicaSettings struct {
	Program, Kubeconfig, Server string // Server is the API server's host and port in Kubeconfig
	Namespace, Pod, UID, Log    string
	Arguments                   []string
}

// startReplica starts a replica that is not limited yet.
func startReplica(ctx context.Context, settings replicaSettings) (*replicaProcess, error) {
	link, err := startCountingLink(settings.Server)
	if err != nil {
		return nil, err
	}
	r := &replicaProcess{link: link, exited: make(chan struct{})}
	if err := r.start(ctx, settings); err != nil {
		r.stop()
		return nil, fmt.Errorf("starting replica %s: %w", settings.Pod, err)
	}
	return r, nil
}

func (r *replicaProcess) start(ctx context.Context, settings replicaSettings) error {
	content, err := os.ReadFile(settings.Kubeconfig)
	if err != nil {
		return err
	}
	if !bytes.Contains(content, []byte(settings.Server)) {
		return fmt.Errorf("the kubeconfig does not name the server %s", settings.Server)
	}
	kubeconfig, err := writeTemporary("bench-replica-", bytes.ReplaceAll(content, []byte(settings.Server), []byte(r.link.address())))
	if err != nil {
		return err
	}
	r.files = append(r.files, kubeconfig)
	port, err := freePort()
	if err != nil {
		return err
	}
	r.metrics = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	log, err := os.OpenFile(settings.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	if r.group, err = newCPUGroup("bench-" + settings.Namespace + "-" + settings.Pod); err != nil {
		return err
	}
	arguments := append([]string{"--metrics-bind-address=" + r.metrics, "--health-probe-bind-address=0"}, settings.Arguments...)
	command := exec.CommandContext(ctx, settings.Program, arguments...)
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "POD_NAME="+settings.Pod, "POD_UID="+settings.UID,
		"POD_NAMESPACE="+settings.Namespace)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		return err
	}
	r.command = command
	go func() {
		_ = command.Wait() // it is killed in the end
		close(r.exited)
	}()
	return r.group.add(command.Process.Pid)
}

// stop kills the replica, as nobody is to take over, and removes what was made for it.
func (r *replicaProcess) stop() {
	if r.command != nil {
		_ = r.command.Process.Kill() // it may have ended by itself
		<-r.exited
	}
	if r.group != nil {
		_ = r.group.remove() // an empty one that stays does no harm
	}
	r.link.close()
	for _, file := range r.files {
		_ = os.Remove(file) // in the temporary folder anyway
	}
}

// err says that the replica has ended, if it has.
func (r *replicaProcess) err() error {
	select {
	case <-r.exited:
		return fmt.Errorf("a replica has ended: %s", r.command.ProcessState)
	default:
		return nil
	}
}

// figures reads sums over all labels of the process's metrics, by name.
func (r *replicaProcess) figures(ctx context.Context, names ...string) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.metrics+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, errors.Join(err, r.err())
	}
	defer response.Body.Close()
	sums := map[string]float64{}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, value, err := parseMetric(lines.Text())
		if err != nil {
			return nil, err
		}
		if slices.Contains(names, name) {
			sums[name] += value
		}
	}
	return sums, lines.Err()
}

// parseMetric reads one line of a process's metrics. A comment has no name.
func parseMetric(line string) (name string, value float64, err error) {
	space := strings.LastIndexByte(line, ' ')
	if space < 0 || line[0] == '#' {
		return "", 0, nil
	}
	name, _, _ = strings.Cut(line[:space], "{")
	if value, err = strconv.ParseFloat(line[space+1:], 64); err != nil {
		return "", 0, fmt.Errorf("reading the metric %q: %w", line, err)
	}
	return name, value, nil
}

// countingLink passes bytes between a replica and the API server, as they are on the wire, and counts those that the
// replica receives.
type countingLink struct {
	listener net.Listener
	received atomic.Int64
}

func startCountingLink(server string) (*countingLink, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &countingLink{listener: listener}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go l.pass(client, server)
		}
	}()
	return l, nil
}

func (l *countingLink) address() string { return l.listener.Addr().String() }

func (l *countingLink) pass(client net.Conn, address string) {
	defer client.Close()
	server, err := net.Dial("tcp4", address)
	if err != nil {
		return // the replica sees a closed connection
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client) // either end may close it
		_ = server.Close()
	}()
	_, _ = io.Copy(client, countingBody{ReadCloser: server, into: &l.received})
}

func (l *countingLink) close() { _ = l.listener.Close() }

// managerPath is the operator's program.
func managerPath(root string) (string, error) {
	path, err := filepath.Abs(filepath.Join(root, "bin", "manager"))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("finding the operator's program, which make build makes: %w", err)
	}
	return path, nil
}
