package redistest

import (
	"time"

	"example.com/redis-operator/controllers/topology"
)

// cron is what a node does every 100 ms. The caller holds the cluster's mutex, as for everything here.
func (f *Fake) cron() {
	f.shakeHands()
	for _, p := range f.sorted() {
		f.ping(p)
	}
	f.gossip()
	f.detectFailures()
	f.replicate()
	f.failOver()
	f.elect()
	f.updateState()
}

// shakeHands finishes handshakes that are a tick old, and gives up those that time out.
func (f *Fake) shakeHands() {
	var rest []handshake
	for _, h := range f.shakes {
		g := f.cluster.at(h.to)
		age := f.cluster.now - h.since
		switch {
		case g == f || age > max(f.cluster.timeout, time.Second):
		case g == nil || age <= tick:
			rest = append(rest, h)
		default:
			f.learn(g)
			g.learn(f)
		}
	}
	f.shakes = rest
}

// learn takes another node in, or its new address if it is known. The ban of a node that was forgotten stops gossip
// about it, not a MEET.
func (f *Fake) learn(g *Fake) {
	p, ok := f.peers[g.myself.ID]
	if !ok {
		p = &peer{Peer: topology.Peer{ID: g.myself.ID, Role: topology.RolePrimary}}
		f.peers[g.myself.ID] = p
	}
	f.hear(p, g)
}

// ping exchanges what two nodes that are in touch say of themselves.
func (f *Fake) ping(p *peer) {
	g := f.cluster.at(p.Address)
	if g == nil || g.myself.ID != p.ID {
		p.LinkUp = false
		return
	}
	f.hear(p, g)
	if q, ok := g.peers[f.myself.ID]; ok {
		g.hear(q, f)
	}
}

// hear takes over what g says of itself into f's entry of it.
func (f *Fake) hear(p *peer, g *Fake) {
	if !p.Address.Same(g.address) {
		p.Address = g.address
		if f.myself.PrimaryID == p.ID {
			f.followPrimary()
		}
	}
	p.LinkUp, p.heard, p.MaybeFail, p.Fail = true, f.cluster.now, false, false
	p.Role, p.PrimaryID, p.ConfigEpoch = g.myself.Role, g.myself.PrimaryID, g.myself.ConfigEpoch
	f.epoch = max(f.epoch, g.epoch, p.ConfigEpoch)
	if p.Role != topology.RolePrimary {
		p.Slots = topology.SlotSet{}
		return
	}
	f.claim(p, g.myself.Slots)
	isCollision := f.myself.Role == topology.RolePrimary && f.myself.ConfigEpoch == p.ConfigEpoch
	if isCollision && f.myself.ID < p.ID {
		f.epoch++
		f.myself.ConfigEpoch = f.epoch
	}
}

// claim gives to p what it claims of slots that nobody owns, or that somebody owns under a lower epoch.
func (f *Fake) claim(p *peer, claimed topology.SlotSet) {
	for _, q := range f.sorted() {
		if q.ID == p.ID {
			continue
		}
		if q.ConfigEpoch < p.ConfigEpoch {
			lost := q.Slots.Intersect(claimed)
			q.Slots = q.Slots.Minus(claimed)
			f.followWinner(q.ID, p.ID, !lost.IsEmpty() && q.Slots.IsEmpty())
		} else {
			claimed = claimed.Minus(q.Slots)
		}
	}
	if own := f.myself.Slots.Intersect(claimed); !own.IsEmpty() {
		if f.myself.ConfigEpoch < p.ConfigEpoch {
			f.myself.Slots = f.myself.Slots.Minus(own)
			f.followWinner(f.myself.ID, p.ID, f.myself.Slots.IsEmpty())
		} else {
			claimed = claimed.Minus(own)
		}
	}
	p.Slots = claimed
}

// followWinner makes f a replica of the node that took the last slot of f itself, or of its primary.
func (f *Fake) followWinner(loser, winner string, isLast bool) {
	if isLast && (loser == f.myself.ID || loser == f.myself.PrimaryID) {
		f.become(winner)
	}
}

// become makes f a replica.
func (f *Fake) become(primaryID string) {
	f.myself.Role, f.myself.PrimaryID, f.myself.Slots = topology.RoleReplica, primaryID, topology.SlotSet{}
	f.followPrimary()
}

// followPrimary begins to replicate from the address at which the primary is known now.
func (f *Fake) followPrimary() {
	f.repl.address, f.repl.up = f.peers[f.myself.PrimaryID].Address, false
	f.repl.downSince, f.repl.electionSince = f.cluster.now, 0
}

// gossip tells one peer, another each tick, of one node that it may not know.
func (f *Fake) gossip() {
	peers := f.sorted()
	if len(peers) < 2 {
		return
	}
	n := int(f.cluster.now / tick)
	to, about := peers[n%len(peers)], peers[n/len(peers)%len(peers)]
	g := f.cluster.at(to.Address)
	if g == nil || to == about || !about.LinkUp || g.peers[f.myself.ID] == nil {
		return
	}
	_, isKnown := g.peers[about.ID]
	until, isBanned := g.banned[about.ID]
	if !isKnown && (!isBanned || g.cluster.now >= until) && about.ID != g.myself.ID {
		g.shake(about.Address)
	}
}

// detectFailures marks who has not been heard of, and fails those that a majority marks.
func (f *Fake) detectFailures() {
	for _, p := range f.peers {
		if f.cluster.now-p.heard <= f.cluster.timeout {
			continue
		}
		p.MaybeFail = !p.Fail
		if 2*f.reportsOf(p.ID) > f.size() {
			p.Fail, p.MaybeFail = true, false
		}
	}
}

// reportsOf counts the slot owners in touch that take a node for dead, oneself among them.
func (f *Fake) reportsOf(id string) int {
	count := 0
	if f.isOwner() {
		count++
	}
	for _, p := range f.peers {
		g := f.cluster.at(p.Address)
		if g == nil || !p.LinkUp || !g.isOwner() {
			continue
		}
		if q, ok := g.peers[id]; ok && (q.Fail || q.MaybeFail) {
			count++
		}
	}
	return count
}

func (f *Fake) isOwner() bool {
	return f.myself.Role == topology.RolePrimary && !f.myself.Slots.IsEmpty()
}

// size is the number of slot owners that f knows, dead or alive.
func (f *Fake) size() int {
	count := 0
	if f.isOwner() {
		count++
	}
	for _, p := range f.peers {
		if !p.Slots.IsEmpty() {
			count++
		}
	}
	return count
}

// replicate keeps the link of a replica.
func (f *Fake) replicate() {
	if f.myself.Role != topology.RoleReplica {
		return
	}
	g := f.cluster.at(f.repl.address)
	isUp := g != nil && g.myself.ID == f.myself.PrimaryID && g.myself.Role == topology.RolePrimary
	switch {
	case isUp:
		f.repl.up, f.repl.hadLink = true, true
		f.keys, f.offset = g.keys, g.offset
	case f.repl.up:
		f.repl.up, f.repl.downSince = false, f.cluster.now
	}
}

// failOver finishes a graceful failover a tick after it was asked for: the replica has all by then, and needs the votes
// of a majority as for any election.
func (f *Fake) failOver() {
	age := f.cluster.now - f.repl.asked
	switch {
	case f.repl.asked == 0 || age <= tick:
	case age > failoverBound:
		f.repl.asked = 0
	case f.repl.up && 2*f.ownersInTouch() > f.size():
		f.promote()
	}
}

// ownersInTouch counts the slot owners that f reaches.
func (f *Fake) ownersInTouch() int {
	count := 0
	for _, p := range f.peers {
		if g := f.cluster.at(p.Address); g != nil && p.LinkUp && g.isOwner() {
			count++
		}
	}
	return count
}

// elect lets a replica of a failed slot owner become primary, half a second after the failure, by the votes of a
// majority of the slot owners.
func (f *Fake) elect() {
	p := f.peers[f.myself.PrimaryID]
	isValid := f.repl.hadLink && f.cluster.now-f.repl.downSince <= validity*f.cluster.timeout
	if f.myself.Role != topology.RoleReplica || p == nil || !p.Fail || p.Slots.IsEmpty() || f.repl.up || !isValid {
		f.repl.electionSince = 0
		return
	}
	if f.repl.electionSince == 0 {
		f.repl.electionSince = f.cluster.now + f.rank()*time.Second
	}
	if f.cluster.now-f.repl.electionSince >= 500*time.Millisecond && 2*f.reportsOf(p.ID) > f.size() {
		f.promote()
	}
}

// rank is the number of replicas of the same primary that are ahead.
func (f *Fake) rank() (rank time.Duration) {
	for _, p := range f.peers {
		g := f.cluster.at(p.Address)
		if g == nil || p.PrimaryID != f.myself.PrimaryID || g.myself.ID != p.ID {
			continue
		}
		if g.offset > f.offset || g.offset == f.offset && p.ID < f.myself.ID {
			rank++
		}
	}
	return rank
}

// promote makes f the primary in place of its own, under a new epoch.
func (f *Fake) promote() {
	p := f.peers[f.myself.PrimaryID]
	f.epoch++
	f.myself.Role, f.myself.PrimaryID, f.myself.ConfigEpoch, f.myself.Slots = topology.RolePrimary, "", f.epoch, p.Slots
	p.Slots = topology.SlotSet{}
	f.repl = replication{}
}

// serving is what the owners that have not failed cover, and how many owners f reaches, itself included.
func (f *Fake) serving() (covered topology.SlotSet, reachable int) {
	covered = f.myself.Slots
	if f.isOwner() {
		reachable++
	}
	for _, p := range f.peers {
		if !p.Fail {
			covered = covered.Union(p.Slots)
		}
		if !p.Slots.IsEmpty() && !p.Fail && !p.MaybeFail {
			reachable++
		}
	}
	return covered, reachable
}

// updateState computes cluster_state: every slot has an owner that has not failed, and a majority is there. A primary
// waits after its start, and after it was in a minority.
func (f *Fake) updateState() {
	isPrimary := f.myself.Role == topology.RolePrimary
	if isPrimary && !f.stateOK && f.cluster.now-f.started < writableDelay {
		return
	}
	covered, reachable := f.serving()
	hasMajority := 2*reachable > f.size()
	if !hasMajority {
		f.minority = f.cluster.now
	}
	isOK := hasMajority && covered.Len() == topology.SlotCount
	rejoin := min(max(f.cluster.timeout, minRejoin), maxRejoin)
	if isOK && isPrimary && f.minority > 0 && f.cluster.now-f.minority < rejoin {
		return
	}
	f.stateOK = isOK
}
