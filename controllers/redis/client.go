package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"example.com/redis-operator/controllers/topology"
)

// node is a Node over a Dialer's connections.
type node struct {
	dialer *Dialer
	target Target
}

// read sends a command that changes nothing and returns its text.
func (n *node) read(ctx context.Context, args ...any) (string, error) {
	client, err := n.dialer.client(ctx, n.target)
	if err != nil {
		return "", n.wrap(err, args)
	}
	text, err := client.Do(ctx, args...).Text()
	return text, n.wrap(err, args)
}

// change asks Begin or Check and sends a command.
func (n *node) change(ctx context.Context, args ...any) error {
	done, err := n.dialer.options.Begin(ctx)
	if err != nil {
		return n.wrap(err, args)
	}
	defer done()
	client, err := n.dialer.client(ctx, n.target)
	if err != nil {
		return n.wrap(err, args)
	}
	return n.wrap(client.Do(ctx, args...).Err(), args)
}

// wrap names the command's words and the node, never a command's values: they may be secret.
func (n *node) wrap(err error, args []any) error {
	if err == nil {
		return nil
	}
	words := []string{fmt.Sprint(args[0])}
	if len(args) > 1 && words[0] != "INFO" {
		words = append(words, fmt.Sprint(args[1]))
	}
	return fmt.Errorf("sending %s to %s: %w", strings.Join(words, " "), n.target.Address, err)
}

func (n *node) ClusterNodes(ctx context.Context) (topology.Peer, []topology.Peer, error) {
	text, err := n.read(ctx, "CLUSTER", "NODES")
	if err != nil {
		return topology.Peer{}, nil, err
	}
	return ParseClusterNodes(text)
}

func (n *node) ClusterInfo(ctx context.Context) (ClusterInfo, error) {
	text, err := n.read(ctx, "CLUSTER", "INFO")
	if err != nil {
		return ClusterInfo{}, err
	}
	return ParseClusterInfo(text)
}

func (n *node) Info(ctx context.Context) (Info, error) {
	text, err := n.read(ctx, "INFO", "server", "persistence", "replication", "keyspace")
	if err != nil {
		return Info{}, err
	}
	return ParseInfo(text)
}

func (n *node) ConfigGet(ctx context.Context, names ...string) (map[string]string, error) {
	args := []any{"CONFIG", "GET"}
	for _, name := range names {
		args = append(args, name)
	}
	client, err := n.dialer.client(ctx, n.target)
	if err != nil {
		return nil, n.wrap(err, args)
	}
	words, err := client.Do(ctx, args...).StringSlice()
	if err != nil {
		return nil, n.wrap(err, args)
	}
	values := map[string]string{}
	for pair := range slices.Chunk(words, 2) {
		if len(pair) == 2 {
			values[pair[0]] = pair[1]
		}
	}
	return values, nil
}

func (n *node) ClientList(ctx context.Context) ([]Client, error) {
	text, err := n.read(ctx, "CLIENT", "LIST")
	if err != nil {
		return nil, err
	}
	return ParseClientList(text)
}

func (n *node) Meet(ctx context.Context, peer topology.Address) error {
	return n.change(ctx, "CLUSTER", "MEET", peer.IP, peer.Port, peer.Bus())
}

func (n *node) Forget(ctx context.Context, id string) error {
	err := n.change(ctx, "CLUSTER", "FORGET", id)
	if err != nil && strings.Contains(err.Error(), "Unknown node") {
		return nil
	}
	return err
}

func (n *node) SetConfigEpoch(ctx context.Context, epoch uint64) error {
	return n.change(ctx, "CLUSTER", "SET-CONFIG-EPOCH", strconv.FormatUint(epoch, 10))
}

func (n *node) AddSlots(ctx context.Context, slots topology.SlotSet) error {
	if slots.IsEmpty() {
		return nil
	}
	args := []any{"CLUSTER", "ADDSLOTSRANGE"}
	for _, r := range slots.Ranges() {
		args = append(args, r.First, r.Last)
	}
	return n.change(ctx, args...)
}

func (n *node) Replicate(ctx context.Context, primaryID string) error {
	return n.change(ctx, "CLUSTER", "REPLICATE", primaryID)
}

func (n *node) Takeover(ctx context.Context) error {
	return n.change(ctx, "CLUSTER", "FAILOVER", "TAKEOVER")
}

func (n *node) Failover(ctx context.Context) error {
	return n.change(ctx, "CLUSTER", "FAILOVER")
}

func (n *node) ConfigSet(ctx context.Context, directives map[string]string) error {
	if len(directives) == 0 {
		return nil
	}
	args := []any{"CONFIG", "SET"}
	for _, name := range sortedKeys(directives) {
		args = append(args, name, directives[name])
	}
	return n.change(ctx, args...)
}

func (n *node) ClientKill(ctx context.Context, id int64) error {
	return n.change(ctx, "CLIENT", "KILL", "ID", id)
}

// sortedKeys makes the order of directives, and with it error messages, the same every time.
func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
