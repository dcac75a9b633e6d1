package chaos

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Kind is what is done to the installation.
type Kind string

// The kinds of disturbances.
const (
	Kill        Kind = "kill"           // SIGKILL to an operator's container
	Pause       Kind = "pause"          // SIGSTOP, and SIGCONT later
	Cut         Kind = "cut off"        // no packet from or to an operator's Pod
	ForceDelete Kind = "force delete"   // an operator's Pod, while it runs
	Scale       Kind = "scale"          // the operator's StatefulSet
	Roll        Kind = "roll"           // restart all of its Pods, one after the other
	LoseNode    Kind = "lose Node"      // a power cut, and a reboot later
	SlowAPI     Kind = "slow API"       // the API server stops for moments, again and again
	RestartAPI  Kind = "restart API"    // the API server is away for a time
	RestartEtcd Kind = "restart etcd"   // etcd ends and starts again
	DeleteLease Kind = "delete a Lease" // of a shard, while it is held
)

// Disturbance is one line of the schedule.
type Disturbance struct {
	At   time.Duration // since the beginning
	Kind Kind
	// Pick is counted out among what there is of its kind at that moment: Pods, Nodes, shards.
	Pick int
	// For is how long it lasts, 0 for what is done at once.
	For time.Duration
	// Replicas are those to scale to.
	Replicas int32
}

func (d Disturbance) String() string {
	text := fmt.Sprintf("%6.1f s  %s", d.At.Seconds(), d.Kind)
	if d.Kind == Scale {
		text += fmt.Sprintf(" to %d", d.Replicas)
	}
	if d.For > 0 {
		text += fmt.Sprintf(" for %.1f s", d.For.Seconds())
	}
	return text
}

// trait says how a kind is scheduled.
type trait struct {
	// class: only one of a class at a time.
	class string
	// min and max bound how long it lasts, rest is how long its class is left alone after that.
	min, max, rest time.Duration
	// copies is how often it is in a deck.
	copies int
}

var traits = map[Kind]trait{
	Kill:        {class: "blow", copies: 3, rest: 2 * time.Second},
	ForceDelete: {class: "blow", copies: 1, rest: 2 * time.Second},
	Pause:       {class: "hold", copies: 2, min: 3 * time.Second, max: 25 * time.Second, rest: 2 * time.Second},
	Cut:         {class: "hold", copies: 2, min: 3 * time.Second, max: 25 * time.Second, rest: 2 * time.Second},
	Scale:       {class: "members", copies: 2, rest: 15 * time.Second},
	Roll:        {class: "members", copies: 1, rest: 30 * time.Second},
	LoseNode:    {class: "node", copies: 1, min: 20 * time.Second, max: 45 * time.Second, rest: 60 * time.Second},
	SlowAPI:     {class: "plane", copies: 1, min: 4 * time.Second, max: 12 * time.Second, rest: 10 * time.Second},
	RestartAPI:  {class: "plane", copies: 1, min: time.Second, max: 12 * time.Second, rest: 10 * time.Second},
	RestartEtcd: {class: "plane", copies: 1, rest: 15 * time.Second},
	// Rare, so that a takeover from a deleted Lease, which takes a Lease duration, is seen to its end.
	DeleteLease: {class: "lease", copies: 2, rest: 30 * time.Second},
}

// order is that in which a deck is laid out before it is shuffled: a map has none.
var order = []Kind{
	Kill, ForceDelete, Pause, Cut, Scale, Roll, LoseNode, SlowAPI, RestartAPI, RestartEtcd, DeleteLease,
}

const (
	// firstAt leaves the churn time to begin.
	firstAt = 4 * time.Second
	// minPause and maxPause are between the beginnings of two disturbances.
	minPause, maxPause = 2 * time.Second, 8 * time.Second
)

// Schedule is the disturbances of a run of that length, all of them over by its end.
func Schedule(seed uint64, length time.Duration) []Disturbance {
	random := rand.New(rand.NewPCG(seed, 1))
	var disturbances []Disturbance
	var deck []Kind
	freeAt := map[string]time.Duration{}
	for at := firstAt; at < length; at += between(random, minPause, maxPause) {
		if len(deck) == 0 {
			deck = shuffled(random)
		}
		for i, kind := range deck {
			t := traits[kind]
			d := Disturbance{
				At: at, Kind: kind, Pick: int(random.Uint32()), For: between(random, t.min, t.max), //nolint:gosec // G115: 32 bits fit
				Replicas: 1 + random.Int32N(6),
			}
			if at < freeAt[t.class] || at+d.For > length {
				continue
			}
			freeAt[t.class] = at + d.For + t.rest
			disturbances = append(disturbances, d)
			deck = append(deck[:i:i], deck[i+1:]...)
			break
		}
	}
	return disturbances
}

// shuffled is a deck in which every kind is as often as its trait says.
func shuffled(random *rand.Rand) []Kind {
	var deck []Kind
	for _, kind := range order {
		for range traits[kind].copies {
			deck = append(deck, kind)
		}
	}
	random.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	return deck
}

func between(random *rand.Rand, low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + time.Duration(random.Int64N(int64(high-low))).Round(100*time.Millisecond)
}
