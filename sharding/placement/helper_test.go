package placement

import (
	"fmt"
	"slices"
	"testing"
)

// operators returns redis-operator-0 to redis-operator-(n-1).
func operators(n int) []Member {
	members := make([]Member, n)
	for i := range members {
		members[i] = Member(fmt.Sprintf("redis-operator-%d", i))
	}
	return members
}

func settingsOf(shards int) Settings { return Settings{Shards: shards, Hash: HashFNV1aMix} }

func identityOf(member Member, podUID, nonce int) Identity {
	return Identity(fmt.Sprintf("%s_uid%d_n%d", member, podUID, nonce))
}

// cluster applies transitions one after the other and fails the test on an error.
type cluster struct {
	t       *testing.T
	p       Placement
	podUID  int
	current map[Member]Identity
}

func newCluster(t *testing.T, shards, members int) *cluster {
	c := &cluster{t: t, p: New(settingsOf(shards), Timings{}), current: make(map[Member]Identity)}
	c.scale(members)
	return c
}

func (c *cluster) must(p Placement, err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
	c.p = p
}

func (c *cluster) scale(members int) {
	c.t.Helper()
	version := "1"
	if c.p.StatefulSetVersion != "" {
		version = fmt.Sprint(1 + mustInt(c.t, c.p.StatefulSetVersion))
	}
	c.must(c.p.Expect(operators(members), version))
}

func mustInt(t *testing.T, text string) int {
	t.Helper()
	var n int
	if _, err := fmt.Sscan(text, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// join registers a new process in a new Pod of the member.
func (c *cluster) join(member Member) {
	c.t.Helper()
	c.podUID++
	c.current[member] = identityOf(member, c.podUID, 0)
	c.must(c.p.Record(c.current[member], Joining))
}

func (c *cluster) record(member Member, state State) {
	c.t.Helper()
	c.must(c.p.Record(c.current[member], state))
}

func (c *cluster) kill(member Member, cause DeathCause) {
	c.t.Helper()
	c.must(c.p.MarkDead(c.current[member], cause))
}

// start registers a new process of each member and lets it serve.
func (c *cluster) start(members ...Member) {
	c.t.Helper()
	for _, member := range members {
		c.join(member)
		c.record(member, Serving)
	}
}

// orderOf returns the indexes of all members of pref, most preferred first.
func orderOf(pref *preference, shard Shard) []int {
	order := make([]int, len(pref.members))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case a == b:
			return 0
		case pref.prefers(shard, a, b):
			return -1
		}
		return 1
	})
	return order
}

// acting lists who acts for each shard, empty where nobody does.
func acting(p Placement) []Member {
	members := make([]Member, p.Shards)
	for shard := range members {
		members[shard], _ = p.Acting(Shard(shard))
	}
	return members
}

// differences counts the positions at which the two differ.
func differences(a, b []Member) int {
	n := 0
	for i := range a {
		if a[i] != b[i] {
			n++
		}
	}
	return n
}

func homeCounts(p Placement) map[Member]int {
	counts := make(map[Member]int)
	for _, member := range p.Expected {
		counts[member] = 0
	}
	for _, home := range p.Homes {
		counts[home]++
	}
	return counts
}

// noLease names anybody.
func noLease(Identity) bool { return false }
