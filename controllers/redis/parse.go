package redis

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/redis-operator/controllers/topology"
)

// Info is what the operator reads from INFO.
type Info struct {
	Version    string
	ConfigFile string
	Uptime     time.Duration
	Loading    bool
	AOFEnabled bool
	Role       topology.Role
	// PrimaryAddress, LinkUp, Syncing and LinkDownFor are those of a replica; LinkDownFor is negative when
	// this process never had a link.
	PrimaryAddress topology.Address
	LinkUp         bool
	Syncing        bool
	LinkDownFor    time.Duration
	Offset         int64
	// Keys is the number of keys in database 0.
	Keys int64
}

// ParseClusterNodes reads the answer of CLUSTER NODES: the line of the node itself, and those of its
// peers ordered by ID.
func ParseClusterNodes(text string) (myself topology.Peer, peers []topology.Peer, err error) {
	found := false
	for _, line := range lines(text) {
		peer, isMyself, err := parseNodeLine(line)
		if err != nil {
			return topology.Peer{}, nil, fmt.Errorf("reading CLUSTER NODES line %q: %w", line, err)
		}
		if isMyself {
			myself, found = peer, true
			continue
		}
		peers = append(peers, peer)
	}
	if !found {
		return topology.Peer{}, nil, fmt.Errorf("reading CLUSTER NODES: no line is flagged myself")
	}
	slices.SortFunc(peers, func(a, b topology.Peer) int { return cmp.Compare(a.ID, b.ID) })
	return myself, peers, nil
}

// parseNodeLine reads one line:
//
//	id ip:port@busport[,hostname] flags primary ping pong epoch link-state slot ...
func parseNodeLine(line string) (peer topology.Peer, isMyself bool, err error) {
	fields := strings.Fields(line)
	if len(fields) < 8 {
		return peer, false, fmt.Errorf("%d fields, want at least 8", len(fields))
	}
	peer.ID = fields[0]
	if peer.Address, err = parseNodeAddress(fields[1]); err != nil {
		return peer, false, err
	}
	for _, flag := range strings.Split(fields[2], ",") {
		switch flag {
		case "myself":
			isMyself = true
		case "master":
			peer.Role = topology.RolePrimary
		case "slave":
			peer.Role = topology.RoleReplica
		case "fail":
			peer.Fail = true
		case "fail?":
			peer.MaybeFail = true
		case "handshake":
			peer.Handshake = true
		case "noaddr":
			peer.NoAddress = true
		}
	}
	if fields[3] != "-" {
		peer.PrimaryID = fields[3]
	}
	if peer.ConfigEpoch, err = strconv.ParseUint(fields[6], 10, 64); err != nil {
		return peer, false, fmt.Errorf("reading config epoch: %w", err)
	}
	peer.LinkUp = isMyself || fields[7] == "connected"
	peer.Slots, peer.OpenSlots, err = parseSlotFields(fields[8:])
	return peer, isMyself, err
}

// parseSlotFields reads "5", "0-5460", and the open slots "[5->-id]" and "[5-<-id]".
func parseSlotFields(fields []string) (slots topology.SlotSet, open bool, err error) {
	ranges := make([]topology.SlotRange, 0, len(fields))
	for _, field := range fields {
		if strings.HasPrefix(field, "[") {
			open = true
			continue
		}
		r, err := topology.ParseSlotRange(field)
		if err != nil {
			return topology.SlotSet{}, false, err
		}
		ranges = append(ranges, r)
	}
	return topology.Slots(ranges...), open, nil
}

// parseNodeAddress reads "ip:port@busport[,hostname[,name=value...]]". The IP may be an IPv6 address without brackets,
// and is empty while a node does not know its own.
func parseNodeAddress(text string) (topology.Address, error) {
	text, _, _ = strings.Cut(text, ",")
	hostPort, bus, hasBus := strings.Cut(text, "@")
	colon := strings.LastIndexByte(hostPort, ':')
	if colon < 0 {
		return topology.Address{}, fmt.Errorf("reading address %q: no port", text)
	}
	address := topology.Address{IP: strings.Trim(hostPort[:colon], "[]")}
	var err error
	if address.Port, err = parsePort(hostPort[colon+1:]); err != nil {
		return topology.Address{}, err
	}
	if hasBus {
		if address.BusPort, err = parsePort(bus); err != nil {
			return topology.Address{}, err
		}
	}
	return address, nil
}

func parsePort(text string) (int, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("reading port: %w", err)
	}
	return int(port), nil
}

// ParseClusterInfo reads the answer of CLUSTER INFO.
func ParseClusterInfo(text string) (ClusterInfo, error) {
	fields := infoFields(text)
	state, ok := fields["cluster_state"]
	if !ok {
		return ClusterInfo{}, fmt.Errorf("reading CLUSTER INFO: no cluster_state")
	}
	r := numberReader{fields: fields}
	info := ClusterInfo{
		OK:           state == "ok",
		CurrentEpoch: uint64(max(r.number("cluster_current_epoch"), 0)),
		KnownNodes:   int(r.number("cluster_known_nodes")),
	}
	if r.err != nil {
		return ClusterInfo{}, fmt.Errorf("reading CLUSTER INFO: %w", r.err)
	}
	return info, nil
}

// ParseInfo reads the answer of INFO. Sections that are missing leave their fields zero.
func ParseInfo(text string) (Info, error) {
	fields := infoFields(text)
	r := numberReader{fields: fields}
	info := Info{
		Version:    fields["redis_version"],
		ConfigFile: fields["config_file"],
		Uptime:     time.Duration(r.number("uptime_in_seconds")) * time.Second,
		Loading:    r.number("loading") != 0,
		AOFEnabled: r.number("aof_enabled") != 0,
		Offset:     r.number("master_repl_offset"),
	}
	if valkey := fields["valkey_version"]; valkey != "" {
		info.Version = valkey
	}
	switch fields["role"] {
	case "master":
		info.Role = topology.RolePrimary
	case "slave":
		info.Role = topology.RoleReplica
		info.PrimaryAddress = topology.Address{IP: fields["master_host"], Port: int(r.number("master_port"))}
		info.LinkUp = fields["master_link_status"] == "up"
		info.Syncing = r.number("master_sync_in_progress") != 0
		info.Offset = r.number("slave_repl_offset")
		info.LinkDownFor = time.Duration(r.number("master_link_down_since_seconds")) * time.Second
	}
	for _, pair := range strings.Split(fields["db0"], ",") {
		if count, ok := strings.CutPrefix(pair, "keys="); ok {
			r.fields["db0.keys"] = count
			info.Keys = r.number("db0.keys")
		}
	}
	if r.err != nil {
		return Info{}, fmt.Errorf("reading INFO: %w", r.err)
	}
	return info, nil
}

// ParseClientList reads the answer of CLIENT LIST.
func ParseClientList(text string) ([]Client, error) {
	var clients []Client
	for _, line := range lines(text) {
		r := numberReader{fields: map[string]string{}}
		for _, field := range strings.Fields(line) {
			key, value, _ := strings.Cut(field, "=")
			r.fields[key] = value
		}
		clients = append(clients, Client{ID: r.number("id"), Name: r.fields["name"], Addr: r.fields["addr"]})
		if r.err != nil || r.fields["id"] == "" {
			return nil, fmt.Errorf("reading CLIENT LIST line %q: no id", line)
		}
	}
	return clients, nil
}

// infoFields reads "key:value" lines and skips the headings.
func infoFields(text string) map[string]string {
	fields := map[string]string{}
	for _, line := range lines(text) {
		if key, value, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, "#") {
			fields[key] = value
		}
	}
	return fields
}

// lines splits a text and drops carriage returns and empty lines.
func lines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// numberReader reads numbers out of fields and keeps the first error. A missing field is zero.
type numberReader struct {
	fields map[string]string
	err    error
}

func (r *numberReader) number(key string) int64 {
	text, ok := r.fields[key]
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("reading %s: %w", key, err)
	}
	return n
}
