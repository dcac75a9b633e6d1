package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// bareCluster is Redis processes on loopback without any operator, and redis-cli to form them: what
// a user would do by hand.
type bareCluster struct {
	dir       string
	addresses []string
	processes []*exec.Cmd
}

const redisPollInterval = 20 * time.Millisecond

// formBare starts that many nodes with the given configuration, forms a cluster with one replica a
// primary by redis-cli, and returns the time from the last process's start until every replica is
// linked and every node says that the cluster is ok. Nothing of it is left.
func formBare(ctx context.Context, conf string, nodes int) (time.Duration, error) {
	dir, err := os.MkdirTemp("", "redis-bare-")
	if err != nil {
		return 0, err
	}
	b := &bareCluster{dir: dir}
	defer b.end()
	var last time.Duration
	for i := range nodes {
		if last, err = b.start(ctx, conf, i); err != nil {
			return 0, err
		}
	}
	if err := b.waitAll(ctx, "PING", "PONG"); err != nil {
		return 0, err
	}
	args := append([]string{"--cluster", "create"}, b.addresses...)
	args = append(args, "--cluster-replicas", "1", "--cluster-yes")
	if out, err := exec.CommandContext(ctx, "redis-cli", args...).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("running redis-cli --cluster create: %w: %s", err, out)
	}
	if err := b.waitLinked(ctx); err != nil {
		return 0, err
	}
	now, err := sinceBoot()
	return now - last, err
}

func (b *bareCluster) start(ctx context.Context, conf string, i int) (time.Duration, error) {
	port, err := freePort()
	if err != nil {
		return 0, err
	}
	dir := filepath.Join(b.dir, strconv.Itoa(port))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return 0, err
	}
	// The last of two equal directives counts.
	own := fmt.Sprintf("%s\nport %d\nbind 127.0.0.1\ndir %s\nlogfile %s/log\n", conf, port, dir, dir)
	file := filepath.Join(dir, "redis.conf")
	if err := os.WriteFile(file, []byte(own), 0o600); err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, "redis-server", file)
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("starting redis-server %d: %w", i, err)
	}
	b.processes = append(b.processes, cmd)
	b.addresses = append(b.addresses, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	return processStart(cmd.Process.Pid)
}

// freePort finds a port whose bus port, 10000 above it, is free too.
func freePort() (int, error) {
	for range 100 {
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		port := listener.Addr().(*net.TCPAddr).Port
		listener.Close()
		if port+10000 > 65535 {
			continue
		}
		bus, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+10000)))
		if err != nil {
			continue
		}
		bus.Close()
		return port, nil
	}
	return 0, fmt.Errorf("finding a free port: none of 100 has a free bus port")
}

func (b *bareCluster) cli(ctx context.Context, address string, args ...string) string {
	host, port, _ := net.SplitHostPort(address)
	out, _ := exec.CommandContext(ctx, "redis-cli", append([]string{"-h", host, "-p", port}, args...)...).CombinedOutput()
	return string(out)
}

func (b *bareCluster) waitAll(ctx context.Context, command, want string) error {
	return b.until(ctx, command, func() bool {
		for _, address := range b.addresses {
			if !strings.Contains(b.cli(ctx, address, command), want) {
				return false
			}
		}
		return true
	})
}

// waitLinked waits until all nodes agree that the cluster is ok and every replica is linked: what
// the operator checks before it says Ready.
func (b *bareCluster) waitLinked(ctx context.Context) error {
	return b.until(ctx, "linked replicas", func() bool {
		for _, address := range b.addresses {
			if !strings.Contains(b.cli(ctx, address, "CLUSTER", "INFO"), "cluster_state:ok") {
				return false
			}
			info := b.cli(ctx, address, "INFO", "replication")
			if strings.Contains(info, "role:slave") && !strings.Contains(info, "master_link_status:up") {
				return false
			}
		}
		return true
	})
}

func (b *bareCluster) until(ctx context.Context, what string, reached func() bool) error {
	ticker := time.NewTicker(redisPollInterval)
	defer ticker.Stop()
	for !reached() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case <-ticker.C:
		}
	}
	return nil
}

func (b *bareCluster) end() {
	for _, process := range b.processes {
		_ = process.Process.Kill() // it may have ended by itself
		_ = process.Wait()         // and always ends with an error, being killed
	}
	_ = os.RemoveAll(b.dir) // in the temporary folder anyway
}
