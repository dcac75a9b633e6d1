package sharding

import (
	"sync"
	"time"

	"example.com/redis-operator/sharding/placement"
)

const (
	// measurements is how often costs are measured between two changes of the weights.
	measurements = 5
	// meterDamping is the part of a new measurement of time that counts: one in so many. The pass
	// over all objects of a shard that was just taken over is no measure of what it costs.
	meterDamping = 5
)

// costMeter measures the time that is spent in reconciling each shard. It is safe for concurrent use.
type costMeter struct {
	every time.Duration // how long a measurement takes

	mu    sync.Mutex // guards everything below
	spent map[Shard]time.Duration
	rates map[Shard]float64 // milliseconds a minute, damped
	since time.Time
}

func newCostMeter(every time.Duration) *costMeter {
	return &costMeter{every: every, spent: map[Shard]time.Duration{}, rates: map[Shard]float64{}}
}

// reconciled adds the time of one request.
func (c *costMeter) reconciled(shard Shard, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spent[shard] += took
}

// isDue tells whether enough time has passed since the last measurement, or since the first question.
func (c *costMeter) isDue(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() {
		c.since = now
	}
	return now.Sub(c.since) >= c.every
}

// measure ends a measurement, and returns what all shards cost: the root objects that are in them,
// and the time that this process spends on them.
func (c *costMeter) measure(now time.Time, shards int, objects map[Shard]int) map[Shard]placement.Cost {
	c.mu.Lock()
	defer c.mu.Unlock()
	minutes := now.Sub(c.since).Minutes()
	c.since = now
	costs := make(map[Shard]placement.Cost, shards)
	for shard := range Shard(shards) {
		if minutes > 0 {
			rate := float64(c.spent[shard].Milliseconds()) / minutes
			c.rates[shard] += (rate - c.rates[shard]) / meterDamping
		}
		costs[shard] = placement.Cost{Objects: objects[shard], Milliseconds: int(c.rates[shard])}
	}
	clear(c.spent)
	return costs
}

// workObserver tells firstWork and the meter of what the guard lets through.
type workObserver struct {
	*firstWork
	costs *costMeter
}

// Reconciled implements guard.Observer together with the methods of firstWork and metrics.
func (o workObserver) Reconciled(shard Shard, took time.Duration) {
	o.costs.reconciled(shard, took)
}
