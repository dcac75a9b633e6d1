package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"example.com/redis-operator/controllers/redis/redistest"
	"example.com/redis-operator/controllers/topology"
)

// The form of every cluster of the scenario, and where its nodes are.
const (
	scaleoutPrimaries = 3
	scaleoutReplicas  = 1 // of each primary
	scaleoutNodes     = scaleoutPrimaries * (1 + scaleoutReplicas)

	redisChildVariable = "BENCH_SCALEOUT_REDIS"
	// simulatedTick is how often time passes for the clusters in which something goes on, and
	// simulatedRest after how long without a command that changes one it stands still there.
	simulatedTick = 100 * time.Millisecond
	simulatedRest = 15 * time.Second
)

// redisChild is what the process that simulates Redis is to do.
type redisChild struct {
	Clusters, Port int
}

// nodeAddress is where a node of a cluster listens: each has a loopback address of its own.
func nodeAddress(port, cluster, group, ordinal int) topology.Address {
	n := cluster*scaleoutNodes + group*(1+scaleoutReplicas) + ordinal
	return topology.Address{IP: fmt.Sprintf("127.%d.%d.%d", 64+n/62500, n/250%250, 1+n%250), Port: port}
}

// RunRedisChild simulates the Redis of Scaleout, if this process is the one that is to, and reports whether it was. The
// program that calls Scaleout calls this first.
func RunRedisChild(ctx context.Context) (bool, error) {
	encoded := os.Getenv(redisChildVariable)
	if encoded == "" {
		return false, nil
	}
	var settings redisChild
	if err := json.Unmarshal([]byte(encoded), &settings); err != nil {
		return true, fmt.Errorf("reading %s: %w", redisChildVariable, err)
	}
	return true, settings.run(ctx)
}

// run serves formed clusters until the input ends, each once its number has come in a line.
func (c redisChild) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	nodes := make([]map[string]*redistest.Fake, c.Clusters)
	clusters := make([]*redistest.Cluster, c.Clusters)
	err := inParallel(ctx, c.Clusters, func(ctx context.Context, i int) error {
		var err error
		clusters[i], nodes[i], err = c.form(ctx, i)
		return err
	})
	if err != nil {
		return fmt.Errorf("forming the simulated clusters: %w", err)
	}
	var byAddress sync.Map // address -> *redistest.Fake, of the clusters that have been let in
	listener, err := listenOnLoopback(ctx, c.Port)
	if err != nil {
		return err
	}
	defer listener.Close()
	served := make(chan error, 1)
	go func() {
		served <- new(redistest.WireServer).Serve(listener, func(local net.Addr) *redistest.Fake {
			node, _ := byAddress.Load(local.String())
			fake, _ := node.(*redistest.Fake)
			return fake
		})
	}()
	go passTime(ctx, clusters)
	fmt.Println("ready")
	ended := make(chan struct{})
	go func() {
		defer close(ended) // with the parent
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			index, err := strconv.Atoi(lines.Text())
			if err != nil || index < 0 || index >= len(nodes) {
				continue
			}
			for address, node := range nodes[index] {
				byAddress.Store(address, node)
			}
		}
	}()
	select {
	case err := <-served:
		return fmt.Errorf("serving: %w", err)
	case <-ended:
		return nil
	}
}

// listenOnLoopback listens on every address of the loopback interface and on no other interface.
func listenOnLoopback(ctx context.Context, port int) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var bound error
		err := raw.Control(func(fd uintptr) { bound = unix.BindToDevice(int(fd), "lo") })
		return errors.Join(err, bound)
	}}
	listener, err := config.Listen(ctx, "tcp4", fmt.Sprintf("0.0.0.0:%d", port))
	if err != nil {
		return nil, fmt.Errorf("listening for the simulated Redis: %w", err)
	}
	return listener, nil
}

// form makes one cluster as the operator would have it, and lets its time pass until all nodes agree.
func (c redisChild) form(ctx context.Context, index int) (*redistest.Cluster, map[string]*redistest.Fake, error) {
	cluster := redistest.NewCluster(topology.DefaultNodeTimeout)
	byAddress := map[string]*redistest.Fake{}
	var groups [scaleoutPrimaries][]*redistest.Fake
	var addresses []topology.Address
	for group := range groups {
		for ordinal := range 1 + scaleoutReplicas {
			address := nodeAddress(c.Port, index, group, ordinal)
			node := cluster.Start(address)
			groups[group], byAddress[address.String()] = append(groups[group], node), node
			addresses = append(addresses, address)
		}
		primary := groups[group][0]
		err := errors.Join(primary.SetConfigEpoch(ctx, uint64(group)+1), primary.AddSlots(ctx, topology.EvenShare(group, scaleoutPrimaries)))
		if err != nil {
			return nil, nil, err
		}
	}
	var met []error
	for _, node := range byAddress {
		for _, address := range addresses {
			met = append(met, node.Meet(ctx, address))
		}
	}
	if err := errors.Join(met...); err != nil {
		return nil, nil, err
	}
	cluster.Advance(time.Second)
	for _, nodes := range groups {
		if err := replicate(ctx, nodes); err != nil {
			return nil, nil, err
		}
	}
	cluster.Advance(simulatedRest)
	info, err := groups[0][0].ClusterInfo(ctx)
	if err == nil && !info.OK {
		err = fmt.Errorf("cluster %d has not formed", index)
	}
	return cluster, byAddress, err
}

// replicate makes all nodes but the first replicas of the first.
func replicate(ctx context.Context, nodes []*redistest.Fake) error {
	primary, _, err := nodes[0].ClusterNodes(ctx)
	if err != nil {
		return err
	}
	for _, node := range nodes[1:] {
		if err := node.Replicate(ctx, primary.ID); err != nil {
			return err
		}
	}
	return nil
}

// passTime lets time pass in the clusters in which something goes on.
func passTime(ctx context.Context, clusters []*redistest.Cluster) {
	ticker := time.NewTicker(simulatedTick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, cluster := range clusters {
			if cluster.Quiet() < simulatedRest {
				cluster.Advance(simulatedTick)
			}
		}
	}
}

// runningRedis is the process that simulates Redis.
type runningRedis struct {
	command *exec.Cmd
	ended   sync.Once

	mu    sync.Mutex // guards input
	input io.WriteCloser
}

// startRedis starts this program again as the simulated Redis, and waits until it serves.
func startRedis(ctx context.Context, settings redisChild) (*runningRedis, error) {
	self, err := startSelf(ctx, redisChildVariable, settings)
	if err != nil {
		return nil, fmt.Errorf("starting the simulated Redis: %w", err)
	}
	r := &runningRedis{command: self.command, input: self.input}
	if _, err := bufio.NewReader(self.output).ReadString('\n'); err != nil {
		r.end()
		return nil, fmt.Errorf("waiting for the simulated Redis: %w", err)
	}
	return r, nil
}

// serve lets the nodes of a cluster answer from now on.
func (r *runningRedis) serve(cluster int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err := fmt.Fprintln(r.input, cluster)
	return err
}

// end lets the process exit and waits for it.
func (r *runningRedis) end() {
	r.ended.Do(func() {
		_ = r.input.Close()
		_ = r.command.Wait() // nothing of it is needed any more
	})
}
