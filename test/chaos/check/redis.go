package check

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Command is one command that a Redis server has executed, from its SLOWLOG.
type Command struct {
	// Node is one run of one server. Within it ID gives the order.
	Node, Namespace string
	ID              int64
	// At is when it was executed, by the server's clock, in whole seconds.
	At time.Time
	// Connection is the name of the connection that it came on.
	Connection string
	Words      []string
}

func (c Command) String() string {
	return fmt.Sprintf("%s executed %d: %s at %s for %s", c.Node, c.ID, strings.Join(c.Words[:min(2, len(c.Words))], " "),
		c.At.Format(clock), c.Connection)
}

// redisReads are commands that change nothing, by their first word or first two.
var redisReads = map[string]bool{
	"PING": true, "INFO": true, "HELLO": true, "AUTH": true, "SELECT": true, "ROLE": true, "DBSIZE": true, "LASTSAVE": true,
	"READONLY": true, "COMMAND": true, "CONFIG GET": true,
	"CLIENT LIST": true, "CLIENT ID": true, "CLIENT INFO": true, "CLIENT SETNAME": true, "CLIENT GETNAME": true, "CLIENT SETINFO": true,
	"CLUSTER NODES": true, "CLUSTER INFO": true, "CLUSTER MYID": true, "CLUSTER SHARDS": true, "CLUSTER SLOTS": true,
	"CLUSTER LINKS": true, "CLUSTER COUNTKEYSINSLOT": true, "CLUSTER GETKEYSINSLOT": true,
	"CLUSTER COUNT-FAILURE-REPORTS": true, "CLUSTER REPLICAS": true,
}

func (c Command) isRead() bool {
	if len(c.Words) == 0 {
		return true
	}
	first := strings.ToUpper(c.Words[0])
	return redisReads[first] || len(c.Words) > 1 && redisReads[first+" "+strings.ToUpper(c.Words[1])]
}

// RedisOverlaps finds changing commands of the operator that a server executed for an older epoch after
// one for a newer, for an epoch that its process never had, or a second and more after the shard had
// gone to another. Commands of others are left out, by the names of their connections.
func (h *History) RedisOverlaps(commands []Command) []Violation {
	commands = slices.Clone(commands)
	slices.SortFunc(commands, func(a, b Command) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.ID, b.ID)) })
	var violations []Violation
	newest := map[string]uint64{} // by node
	for _, c := range commands {
		name, isOperator := strings.CutPrefix(c.Connection, h.o.ConnectionPrefix)
		if !isOperator || c.isRead() {
			continue
		}
		identity, number, _ := strings.Cut(name, ":")
		epoch, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			violations = append(violations, found(Unknown, "%s, whose name has no epoch", c))
			continue
		}
		if problem := h.judgeCommand(c, identity, epoch); problem != nil {
			violations = append(violations, *problem)
		}
		if epoch < newest[c.Node] {
			violations = append(violations, found(Overlap, "%s, after commands for epoch %d", c, newest[c.Node]))
		}
		newest[c.Node] = max(newest[c.Node], epoch)
	}
	return violations
}

func (h *History) judgeCommand(c Command, identity string, epoch uint64) *Violation {
	l := h.lease(h.o.shardOf(c.Namespace))
	t := l.of(epoch)
	var v Violation
	switch {
	case t == nil:
		v = found(Unknown, "%s, an epoch that no holder of shard %d has written", c, l.shard)
	case t.holder != identity:
		v = found(Overlap, "%s, the epoch of %s", c, t.holder)
	case t.to != 0 && c.At.After(t.ended):
		v = found(Overlap, "%s, %.1f s and more after its tenure had ended (%s)", c, c.At.Sub(t.ended).Seconds(), t.how)
	default:
		return nil
	}
	return &v
}
