package chaos

import (
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	// namespaces is how many there are; most of them hold no RedisCluster at a time.
	namespaces = 40
	// maxNodes bounds the Redis nodes that are wanted at a time.
	maxNodes = 14
	// churnEvery is the time between two changes.
	churnEvery = 600 * time.Millisecond
)

// Verb is what is done to a RedisCluster.
type Verb string

// The verbs of a change.
const (
	Create    Verb = "create"
	Configure Verb = "configure" // a directive gets another value, so that there is a new generation
	Delete    Verb = "delete"
)

// Change is one step of the churn: each namespace has one RedisCluster or none.
type Change struct {
	At        time.Duration // since the beginning
	Verb      Verb
	Namespace string
	Replicas  int32 // of each primary; there is one
	Megabytes int   // the value of maxmemory
}

// Churn is the changes of a run of that length.
func Churn(seed uint64, length time.Duration) []Change {
	random := rand.New(rand.NewPCG(seed, 2))
	var changes []Change
	nodes := map[int]int32{} // by namespace that holds a RedisCluster
	wanted := int32(0)
	for at := time.Duration(0); at < length; at += churnEvery {
		change := Change{At: at, Megabytes: 10 + random.IntN(90)}
		n := random.IntN(namespaces)
		size, exists := nodes[n]
		switch isWithReplica := random.IntN(8) == 0; {
		case exists && random.IntN(5) == 0:
			change.Verb = Delete
			wanted -= size
			delete(nodes, n)
		case exists:
			change.Verb = Configure
		case wanted < maxNodes-1:
			change.Verb = Create
			if isWithReplica {
				change.Replicas = 1
			}
			nodes[n] = 1 + change.Replicas
			wanted += nodes[n]
		default:
			n = anyOf(random, nodes)
			change.Verb = Configure
		}
		change.Namespace = namespaceName(n)
		changes = append(changes, change)
	}
	return changes
}

// anyOf is one of the namespaces that hold a RedisCluster.
func anyOf(random *rand.Rand, nodes map[int]int32) int {
	for first := random.IntN(namespaces); ; first++ {
		if _, exists := nodes[first%namespaces]; exists {
			return first % namespaces
		}
	}
}

func namespaceName(n int) string { return fmt.Sprintf("chaos-%02d", n) }
