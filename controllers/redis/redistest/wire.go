package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"example.com/redis-operator/controllers/redis"
	"example.com/redis-operator/controllers/topology"
)

// WireServer serves in-memory nodes over Redis's wire protocol (RESP2), with the commands that the operator sends.
// The zero value is usable, and safe for concurrent use.
type WireServer struct {
	mu          sync.Mutex // guards the fields below
	connections map[*wireConnection]struct{}
	lastID      int64
}

// wireConnection is one client's connection to one node.
type wireConnection struct {
	server *WireServer
	conn   net.Conn
	node   *Fake
	id     int64
	name   string // guarded by server.mu
	out    *bufio.Writer
}

// Serve answers on a listener until it is closed, whose error it returns. Find gives the node for the address at which
// a connection has arrived; without one, and while the node is not up, the connection is closed.
func (s *WireServer) Serve(listener net.Listener, find func(local net.Addr) *Fake) error {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		node := find(conn.LocalAddr())
		if node == nil {
			_ = conn.Close() // nobody is there
			continue
		}
		go s.serve(conn, node)
	}
}

func (s *WireServer) serve(conn net.Conn, node *Fake) {
	c := &wireConnection{server: s, conn: conn, node: node, out: bufio.NewWriterSize(conn, 512)}
	s.mu.Lock()
	if s.connections == nil {
		s.connections = map[*wireConnection]struct{}{}
	}
	s.lastID++
	c.id = s.lastID
	s.connections[c] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.connections, c)
		s.mu.Unlock()
		_ = conn.Close() // the other side may have closed it
	}()
	in := bufio.NewReaderSize(conn, 512)
	for {
		args, err := readCommand(in)
		if err != nil || c.answer(args) != nil {
			return
		}
		if in.Buffered() == 0 && c.out.Flush() != nil {
			return
		}
	}
}

// readCommand reads one array of bulk strings.
func readCommand(in *bufio.Reader) ([]string, error) {
	count, err := readLength(in, '*')
	if err != nil {
		return nil, err
	}
	args := make([]string, count)
	for i := range args {
		length, err := readLength(in, '$')
		if err != nil {
			return nil, err
		}
		text := make([]byte, length+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		args[i] = string(text[:length])
	}
	return args, nil
}

// maxLength bounds what a client may announce.
const maxLength = 1 << 20

func readLength(in *bufio.Reader, kind byte) (int, error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	text := strings.TrimRight(string(line), "\r\n")
	if text == "" || text[0] != kind {
		return 0, fmt.Errorf("reading a command: %q where %q begins", text, kind)
	}
	length, err := strconv.Atoi(text[1:])
	if err != nil || length < 0 || length > maxLength {
		return 0, fmt.Errorf("reading a command: length %q", text)
	}
	return length, nil
}

// errAnswered tells that an answer was written already.
var errAnswered = errors.New("answered")

// answer runs a command and writes its answer. An error means that the node is not up: the connection is to be closed.
func (c *wireConnection) answer(args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := c.run(append([]string{strings.ToUpper(args[0])}, args[1:]...))
	var refused refusal
	switch {
	case errors.Is(err, errAnswered):
		return nil
	case errors.As(err, &refused):
		c.write("-%s\r\n", refused)
	case err != nil:
		return err
	default:
		c.write("+OK\r\n")
	}
	return nil
}

func (c *wireConnection) write(format string, args ...any) { fmt.Fprintf(c.out, format, args...) }

// bulk answers with a text.
func (c *wireConnection) bulk(text string, err error) error {
	if err != nil {
		return err
	}
	c.write("$%d\r\n%s\r\n", len(text), text)
	return errAnswered
}

func (c *wireConnection) run(args []string) error {
	ctx := context.Background()
	switch args[0] {
	case "PING":
		c.write("+PONG\r\n")
		return errAnswered
	case "INFO":
		info, err := c.node.Info(ctx)
		return c.bulk(renderInfo(info), err)
	case "HELLO":
		return c.hello(args)
	}
	if len(args) < 2 {
		return refuse("unknown command '%s'", args[0])
	}
	switch args[0] + " " + strings.ToUpper(args[1]) {
	case "CONFIG GET":
		return c.configGet(ctx, args[2:])
	case "CONFIG SET":
		return c.configSet(ctx, args[2:])
	case "CLIENT SETNAME":
		return c.setName(args[2:])
	case "CLIENT LIST":
		return c.bulk(c.server.list(c.node), c.node.do(func() error { return nil }))
	case "CLIENT KILL":
		return c.kill(args[2:])
	}
	if args[0] != "CLUSTER" {
		return refuse("unknown command '%s'", args[0])
	}
	return c.runCluster(ctx, strings.ToUpper(args[1]), args[2:])
}

func (c *wireConnection) runCluster(ctx context.Context, name string, args []string) error {
	switch name {
	case "NODES":
		myself, peers, err := c.node.ClusterNodes(ctx)
		return c.bulk(renderNodes(myself, peers), err)
	case "INFO":
		info, err := c.node.ClusterInfo(ctx)
		return c.bulk(renderClusterInfo(info), err)
	case "FAILOVER":
		if len(args) > 0 && strings.EqualFold(args[0], "TAKEOVER") {
			return c.node.Takeover(ctx)
		}
		return c.node.Failover(ctx)
	}
	if len(args) == 0 {
		return refuse("unknown subcommand or wrong number of arguments for '%s'", name)
	}
	return c.changeCluster(ctx, name, args)
}

func (c *wireConnection) changeCluster(ctx context.Context, name string, args []string) error {
	numbers := make([]int, len(args))
	for i := range args {
		numbers[i], _ = strconv.Atoi(args[i]) // what is no number here is an address or an ID
	}
	switch name {
	case "MEET":
		if len(args) < 2 {
			break
		}
		address := topology.Address{IP: args[0], Port: numbers[1]}
		if len(args) > 2 {
			address.BusPort = numbers[2]
		}
		return c.node.Meet(ctx, address)
	case "FORGET":
		return c.node.Forget(ctx, args[0])
	case "REPLICATE":
		return c.node.Replicate(ctx, args[0])
	case "SET-CONFIG-EPOCH":
		return c.node.SetConfigEpoch(ctx, uint64(numbers[0]))
	case "ADDSLOTSRANGE":
		if len(args)%2 != 0 {
			break
		}
		var ranges []topology.SlotRange
		for pair := range slices.Chunk(numbers, 2) {
			ranges = append(ranges, topology.SlotRange{First: pair[0], Last: pair[1]})
		}
		return c.node.AddSlots(ctx, topology.Slots(ranges...))
	}
	return refuse("unknown subcommand or wrong number of arguments for '%s'", name)
}

// hello is the handshake of newer clients. The protocol stays the second version.
func (c *wireConnection) hello(args []string) error {
	if len(args) > 1 && args[1] != "2" {
		return refusal("NOPROTO unsupported protocol version")
	}
	for i, arg := range args {
		if strings.EqualFold(arg, "SETNAME") && i+1 < len(args) {
			if err := c.setName(args[i+1 : i+2]); err != nil {
				return err
			}
		}
	}
	c.write("*6\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:%d\r\n", c.id)
	return errAnswered
}

func (c *wireConnection) setName(args []string) error {
	if len(args) != 1 {
		return refuse("wrong number of arguments for 'client|setname' command")
	}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.name = args[0]
	return nil
}

// list is what CLIENT LIST says of a node's connections.
func (s *WireServer) list(node *Fake) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var text strings.Builder
	for c := range s.connections {
		if c.node == node {
			fmt.Fprintf(&text, "id=%d addr=%s name=%s\n", c.id, c.conn.RemoteAddr(), c.name)
		}
	}
	return text.String()
}

// kill is CLIENT KILL ID.
func (c *wireConnection) kill(args []string) error {
	if len(args) != 2 || !strings.EqualFold(args[0], "ID") {
		return refuse("syntax error")
	}
	id, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return refuse("client-id should be greater than 0")
	}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	killed := 0
	for other := range c.server.connections {
		if other.node == c.node && other.id == id {
			_ = other.conn.Close() // its own goroutine ends with it
			delete(c.server.connections, other)
			killed++
		}
	}
	c.write(":%d\r\n", killed)
	return errAnswered
}

func (c *wireConnection) configGet(ctx context.Context, names []string) error {
	values, err := c.node.ConfigGet(ctx, names...)
	if err != nil {
		return err
	}
	c.write("*%d\r\n", 2*len(values))
	for name, value := range values {
		c.write("$%d\r\n%s\r\n$%d\r\n%s\r\n", len(name), name, len(value), value)
	}
	return errAnswered
}

func (c *wireConnection) configSet(ctx context.Context, pairs []string) error {
	directives := map[string]string{}
	for pair := range slices.Chunk(pairs, 2) {
		if len(pair) < 2 {
			return refuse("wrong number of arguments for 'config|set' command")
		}
		directives[pair[0]] = pair[1]
	}
	return c.node.ConfigSet(ctx, directives)
}

func renderInfo(info redis.Info) string {
	role := "master"
	if info.Role == topology.RoleReplica {
		role = "slave"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "# Server\r\nredis_version:%s\r\nuptime_in_seconds:%d\r\nconfig_file:%s\r\n# Persistence\r\nloading:0\r\n",
		info.Version, int64(info.Uptime.Seconds()), info.ConfigFile)
	fmt.Fprintf(&text, "# Replication\r\nrole:%s\r\nmaster_repl_offset:%d\r\n", role, info.Offset)
	if info.Role == topology.RoleReplica {
		status := "up"
		if !info.LinkUp {
			status = "down"
			fmt.Fprintf(&text, "master_link_down_since_seconds:%d\r\n", int64(info.LinkDownFor.Seconds()))
		}
		fmt.Fprintf(&text, "master_host:%s\r\nmaster_port:%d\r\nmaster_link_status:%s\r\nslave_repl_offset:%d\r\n",
			info.PrimaryAddress.IP, info.PrimaryAddress.Port, status, info.Offset)
	}
	text.WriteString("# Keyspace\r\n")
	if info.Keys > 0 {
		fmt.Fprintf(&text, "db0:keys=%d,expires=0,avg_ttl=0\r\n", info.Keys)
	}
	return text.String()
}

func renderClusterInfo(info redis.ClusterInfo) string {
	state := "fail"
	if info.OK {
		state = "ok"
	}
	return fmt.Sprintf("cluster_state:%s\r\ncluster_known_nodes:%d\r\ncluster_current_epoch:%d\r\n",
		state, info.KnownNodes, info.CurrentEpoch)
}

func renderNodes(myself topology.Peer, peers []topology.Peer) string {
	var text strings.Builder
	renderNode(&text, myself, "myself,")
	for _, p := range peers {
		renderNode(&text, p, "")
	}
	return text.String()
}

func renderNode(text *strings.Builder, p topology.Peer, flags string) {
	switch {
	case p.Handshake:
		flags += "handshake"
	case p.Role == topology.RoleReplica:
		flags += "slave"
	default:
		flags += "master"
	}
	if p.Fail {
		flags += ",fail"
	}
	if p.MaybeFail {
		flags += ",fail?"
	}
	primary, link := "-", "disconnected"
	if p.PrimaryID != "" {
		primary = p.PrimaryID
	}
	if p.LinkUp {
		link = "connected"
	}
	fmt.Fprintf(text, "%s %s:%d@%d %s %s 0 0 %d %s", p.ID, p.Address.IP, p.Address.Port, p.Address.Bus(), flags, primary,
		p.ConfigEpoch, link)
	for _, r := range p.Slots.Ranges() {
		text.WriteString(" " + r.String())
	}
	text.WriteByte('\n')
}
