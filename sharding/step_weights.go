package sharding

import (
	"maps"
	"time"

	"example.com/redis-operator/sharding/placement"
)

// foldAgain is the pause after a folding that changed nothing, or was not written.
const foldAgain = time.Minute

// CostsMeasured shows what shards have cost this process of late; the edge measures once in a while.
// Shards that it does not hold are left out of account.
type CostsMeasured struct{ Costs map[Shard]placement.Cost }

// apply publishes what has changed: a cost that is near the published one leaves that as it is.
func (e CostsMeasured) apply(m *Machine, _ time.Time) {
	costs := make(map[Shard]placement.Cost)
	for shard := range m.shards {
		measured, ok := e.Costs[Shard(shard)]
		if !ok || m.shards[shard].claim != claimHeld {
			continue
		}
		if published, known := m.costs[Shard(shard)]; known && measured.IsNear(published) {
			measured = published
		}
		costs[Shard(shard)] = measured
	}
	m.costs = costs
}

// noteWeights times for how long P's weights have been what they are, as this process sees it.
func (m *Machine) noteWeights(p *placement.Placement, now time.Time) {
	if m.p == nil || !maps.Equal(m.p.Weights, p.Weights) {
		m.weightsSince = now
	}
}

// considerFolding has the weights of P computed anew when that is due and up to this process: it is
// the one that acts for shard 0. Everybody times P's weights, so that they change no more often
// than they may when that is another.
func (m *Machine) considerFolding(now time.Time) {
	m.folding = false
	if !m.isFolder() {
		return
	}
	due := m.weightsSince.Add(m.config.FoldEvery)
	if again := m.foldTriedAt.Add(min(foldAgain, m.config.FoldEvery)); again.After(due) {
		due = again
	}
	if now.Before(due) {
		m.wakeAt(due, now)
		return
	}
	m.folding, m.dirty = true, true
}

func (m *Machine) isFolder() bool {
	return m.self != "" && m.p != nil && m.stopAt.IsZero() && m.acting[0] == m.self
}

// foldWeights takes the published costs over into next.
func (m *Machine) foldWeights(next placement.Placement, now time.Time) placement.Placement {
	if !m.folding {
		return next
	}
	m.folding, m.foldTriedAt = false, now
	folded := next.Fold(m.publishedCosts())
	folded.Version = next.Version
	return folded
}

// publishedCosts takes each shard's cost from the process that is to act for it, and while that has
// not measured it yet, from whoever has: of several, the highest.
func (m *Machine) publishedCosts() map[Shard]placement.Cost {
	costs := make(map[Shard]placement.Cost)
	certain := make(map[Shard]bool)
	take := func(identity Identity, published map[Shard]placement.Cost) {
		for shard, cost := range published {
			if shard < 0 || int(shard) >= len(m.acting) || certain[shard] {
				continue
			}
			certain[shard] = m.acting[shard] == identity
			if known, ok := costs[shard]; certain[shard] || !ok || cost.Weight() > known.Weight() {
				costs[shard] = cost
			}
		}
	}
	take(m.self, m.costs)
	for identity, presence := range m.presences {
		take(identity, presence.Costs)
	}
	return costs
}
