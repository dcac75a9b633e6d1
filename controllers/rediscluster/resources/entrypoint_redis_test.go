package resources

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	redisv1 "example.com/redis-operator/api/v1"
	goredis "github.com/redis/go-redis/v9"
)

// redisNode is a sandbox that starts a real server.
type redisNode struct {
	*sandbox
	port int
	env  []string
}

func newRedisNode(t *testing.T, s *sandbox, config map[string]redisv1.ConfigValue) *redisNode {
	t.Helper()
	server, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal("redis-server is missing: apt-get install redis-server")
	}
	n := &redisNode{sandbox: s, port: freePort(t)}
	n.env = []string{"REDIS_SERVER=" + server, "POD_IP=127.0.0.1"}
	cluster := testCluster()
	cluster.Spec.Storage, cluster.Spec.Port = nil, int32(n.port)
	s.write("config/redis.conf", ConfigMap(Input{Cluster: cluster, Config: config}).Data[keyConfig])
	return n
}

// freePort finds a port that is free together with its bus port.
func freePort(t *testing.T) int {
	t.Helper()
	for range 100 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := listener.Addr().(*net.TCPAddr).Port
		listener.Close()
		if port > 55535 {
			continue
		}
		if bus, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+redisv1.BusPortOffset)); err == nil {
			bus.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

func (n *redisNode) run(env ...string) *process { return n.start(append(n.env, env...)...) }

func (n *redisNode) client(password string) *goredis.Client {
	client := goredis.NewClient(&goredis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", n.port), Password: password, Protocol: 2, DisableIdentity: true})
	n.t.Cleanup(func() { client.Close() })
	return client
}

// do sends a command and insists on an answer that is no error.
func (n *redisNode) do(args ...any) string {
	n.t.Helper()
	answer, err := n.client("").Do(n.t.Context(), args...).Text()
	if err != nil {
		n.t.Fatalf("%v: %v", args, err)
	}
	return answer
}

// eventually waits for a condition that a real server reaches in its own time.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(20 * time.Second)
	for !condition() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("not after 20 s: %s", what)
		}
	}
}

const saysListening = "Ready to accept connections"

func TestAnyPasswordReachesTheServer(t *testing.T) {
	all := make([]byte, 0, 255)
	for b := 1; b < 256; b++ {
		if b != '\n' {
			all = append(all, byte(b))
		}
	}
	cases := map[string]string{
		"quotes": `'"$HOME # \x41 %s ` + "`id`", "blanks": "  two words\t", "every byte": string(all),
	}
	for name, password := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forEachShell(t, func(t *testing.T, s *sandbox) {
				n := newRedisNode(t, s, nil)
				s.write("secret/password", password)
				p := n.run("PASSWORD_SECRET=name")
				p.await(saysListening)
				got, err := n.client(password).ConfigGet(t.Context(), "masterauth").Result()
				if err != nil || got["masterauth"] != password {
					t.Errorf("masterauth %q, %v; want %q", got["masterauth"], err, password)
				}
				if err := n.client("wrong").Ping(t.Context()).Err(); err == nil {
					t.Error("a wrong password is accepted")
				}
				// A Secret that changes does not split the cluster when one container restarts.
				kill(t, p)
				s.write("secret/password", "another")
				n.run("PASSWORD_SECRET=name").await(saysListening)
				if err := n.client(password).Ping(t.Context()).Err(); err != nil {
					t.Errorf("after a restart in the same Pod: %v", err)
				}
			})
		})
	}
}

func kill(t *testing.T, p *process) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.done
}

func TestServerSaysWhatItRejects(t *testing.T) {
	forEachShell(t, func(t *testing.T, s *sandbox) {
		n := newRedisNode(t, s, map[string]redisv1.ConfigValue{"maxmemry": "100mb"})
		p := n.run()
		p.await("Bad directive")
		<-p.done
		if got := TerminationReason(p.output()); !strings.Contains(got, `maxmemry "100mb"`) || !strings.Contains(got, "Bad directive") {
			t.Errorf("TerminationReason = %q, want the directive and the server's complaint", got)
		}
	})
}

func TestServerReportsWhatItStartedWith(t *testing.T) {
	forEachShell(t, func(t *testing.T, s *sandbox) {
		config := map[string]redisv1.ConfigValue{"MaxMemory": "100mb", "save": "", "client-output-buffer-limit": "replica 1mb 1mb 60"}
		n := newRedisNode(t, s, config)
		n.run().await(saysListening)
		for line := range strings.Lines(n.do("INFO", "server")) {
			if file, found := strings.CutPrefix(strings.TrimSpace(line), "config_file:"); found {
				if got := StartedWith(file); got != ConfigHash(config) {
					t.Errorf("started with %q (%s), want %q", got, file, ConfigHash(config))
				}
				return
			}
		}
		t.Error("INFO names no configuration")
	})
}

// pair is a primary that owns all slots, with one key, and its replica.
func pair(t *testing.T, primary, replica *redisNode) *process {
	t.Helper()
	p, r := primary.run(), replica.run()
	p.await(saysListening)
	r.await(saysListening)
	primary.do("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	primary.do("CLUSTER", "SET-CONFIG-EPOCH", "1")
	replica.do("CLUSTER", "MEET", "127.0.0.1", primary.port)
	id := primary.do("CLUSTER", "MYID")
	// Once alone: each CLUSTER REPLICATE that is taken begins the synchronisation anew.
	eventually(t, "primary known", func() bool { return replica.client("").ClusterReplicate(t.Context(), id).Err() == nil })
	eventually(t, "replica linked", func() bool {
		return strings.Contains(replica.do("INFO", "replication"), "master_link_status:up")
	})
	eventually(t, "key written", func() bool {
		return primary.client("").Set(t.Context(), "key", "acknowledged", 0).Err() == nil
	})
	eventually(t, "key copied", func() bool { return replica.keys() == 1 })
	return p
}

func (n *redisNode) keys() int64 {
	size, err := n.client("").DBSize(context.Background()).Result()
	if err != nil {
		return -1
	}
	return size
}

// TestKilledPrimaryNeverWipesItsReplica is the data loss that the gate is there for: no snapshot, the
// primary is killed and back within its node timeout. With a snapshot older than the replica's data it
// would be the same with fewer keys.
func TestKilledPrimaryNeverWipesItsReplica(t *testing.T) {
	cases := map[string]struct{ snapshot bool }{"without a data set": {false}, "with an old snapshot": {true}}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forEachShell(t, func(t *testing.T, s *sandbox) {
				other := newSandbox(t, s.shell[0], len(s.shell) > 1)
				primary, replica := newRedisNode(t, s, nil), newRedisNode(t, other, nil)
				p := pair(t, primary, replica)
				if tc.snapshot {
					primary.do("SAVE")
				}
				primary.do("SET", "late", "acknowledged too")
				eventually(t, "second key copied", func() bool { return replica.keys() == 2 })
				id := primary.do("CLUSTER", "MYID")
				kill(t, p)

				p = primary.run()
				p.await(saysWaiting)
				replica.do("CLUSTER", "FAILOVER", "TAKEOVER")
				eventually(t, "replica promoted", func() bool { return isPrimary(replica) })
				primary.write("podinfo/start-gate", configEpoch(replica))
				p.await(saysListening)

				if changed := primary.do("CLUSTER", "MYID") != id; changed == tc.snapshot {
					t.Errorf("new id: %t, want it exactly without a data set", changed)
				}
				if !tc.snapshot {
					primary.do("CLUSTER", "MEET", "127.0.0.1", replica.port)
					promoted := replica.do("CLUSTER", "MYID")
					eventually(t, "known", func() bool {
						return primary.client("").ClusterReplicate(t.Context(), promoted).Err() == nil
					})
				}
				eventually(t, "old primary is a replica with both keys", func() bool {
					return !isPrimary(primary) && primary.keys() == 2
				})
				if got := replica.keys(); got != 2 {
					t.Errorf("%d keys on the promoted node, want 2", got)
				}
			})
		})
	}
}

func isPrimary(n *redisNode) bool {
	return strings.Contains(n.do("INFO", "replication"), "role:master")
}

// configEpoch is the node's own, from its own line.
func configEpoch(n *redisNode) string {
	for line := range strings.Lines(n.do("CLUSTER", "NODES")) {
		if fields := strings.Fields(line); strings.Contains(fields[2], "myself") {
			return fields[6]
		}
	}
	return ""
}
