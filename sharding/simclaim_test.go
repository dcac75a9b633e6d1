package sharding

import (
	"time"

	"example.com/redis-operator/sharding/claim"
)

// simClaim behaves as claim.Claim does, for one shard of one process.
type simClaim struct {
	p     *simProcess
	shard Shard

	started   bool
	releasing bool
	busy      bool // a write is on its way
	seen      simLease
	since     time.Time

	epoch   claim.Epoch
	version string
	sent    time.Time
	phase   claim.EventType
	seq     int

	shown          string // version that the watch showed last
	oldest, latest simWrite
}

// simWrite is an own write that the watch has not shown; no version for none.
type simWrite struct {
	version string
	at      time.Time
}

// wrote and watched follow own writes until they come back on the watch, as package claim does.
func (c *simClaim) wrote(version string) {
	if !isOlder(c.shown, version) && c.shown != "" {
		return
	}
	c.latest = simWrite{version, c.p.w.now}
	if c.oldest.version == "" {
		c.oldest = c.latest
	}
}

func (c *simClaim) watched(lease simLease) {
	c.shown = lease.version
	switch {
	case c.oldest.version == "" || isOlder(lease.version, c.oldest.version):
	case isOlder(lease.version, c.latest.version):
		c.oldest = c.latest
	default:
		c.oldest, c.latest = simWrite{}, simWrite{}
	}
	c.observe(lease)
}

func (c *simClaim) lag() time.Duration {
	if c.oldest.version == "" {
		return 0
	}
	return c.p.w.now.Sub(c.oldest.at)
}

func (c *simClaim) live() bool {
	return c.epoch != "" && c.p.w.now.Before(c.sent.Add(c.p.w.timings.LeaseDuration))
}

// observe takes in what the watch shows.
func (c *simClaim) observe(lease simLease) {
	if !isOlder(c.seen.version, lease.version) && c.seen.version != "" {
		return
	}
	if c.seen.missing && lease.missing {
		return
	}
	c.seen, c.since = lease, c.p.w.now
	if c.epoch != "" && !c.releasing && lease.holder != c.p.identity && isOlder(c.version, lease.version) && !lease.missing {
		c.lose()
	}
	c.decide()
}

func (c *simClaim) emit(event ClaimChanged) {
	event.Shard = c.shard
	c.p.step(event)
}

func (c *simClaim) start() {
	c.started = true
	c.decide()
}

// decide contends.
func (c *simClaim) decide() {
	if !c.started || c.releasing || c.busy || c.epoch != "" || c.p.gone() {
		return
	}
	ripe := c.since.Add(c.p.w.timings.LeaseDuration)
	isRipe := !c.p.w.now.Before(ripe)
	holder := c.seen.holder
	switch {
	case c.seen.missing && !isRipe:
		c.again(ripe.Sub(c.p.w.now))
	case c.seen.missing, holder == "", holder == c.p.identity:
		c.write(c.p.identity, c.seen.unclean || c.seen.missing)
	case holder.PodUID() == c.p.identity.PodUID(), c.p.confirmedDead(holder), isRipe:
		c.write("", true)
	default:
		c.again(min(ripe.Sub(c.p.w.now), 500*time.Millisecond))
	}
}

func (c *simClaim) again(d time.Duration) {
	c.seq++
	seq := c.seq
	c.p.w.after(d, func() {
		c.p.run(func() {
			if seq == c.seq {
				c.decide()
			}
		})
	})
}

// write stores the Lease with a holder over the version seen.
func (c *simClaim) write(holder Identity, unclean bool) {
	c.busy = true
	sent, over, again := c.p.w.now, c.seen.version, c.seen.holder == c.p.identity
	reached := func() {
		if c.p.w.leases[c.shard].version != over {
			current := c.p.w.leases[c.shard]
			c.p.answer(func() { c.busy = false; c.observe(current); c.decide(); c.releaseIfAsked() })
			return
		}
		c.p.w.changeLease(c.shard, simLease{holder: holder, unclean: holder == "" && unclean})
		stored := c.p.w.leases[c.shard]
		c.p.answer(func() {
			c.busy = false
			c.seen, c.since = stored, c.p.w.now
			c.wrote(stored.version)
			if holder == c.p.identity {
				c.acquired(stored.version, sent, unclean, again)
			}
			c.decide()
			c.releaseIfAsked()
		})
	}
	c.p.request(reached, func() { c.busy = false; c.since = c.p.w.now; c.again(time.Second); c.releaseIfAsked() })
}

func (c *simClaim) acquired(version string, sent time.Time, unclean, again bool) {
	c.epoch, c.version, c.sent, c.phase = claim.Epoch(version), version, sent, claim.Acquired
	if !c.live() {
		c.epoch = ""
		return
	}
	epoch := c.epoch
	if !c.releasing {
		c.emit(ClaimChanged{Type: claim.Acquired, Epoch: epoch, Unclean: unclean, Again: again})
	}
	c.p.w.after(c.p.w.timings.RetryPeriod, func() { c.p.run(func() { c.renew(epoch) }) })
	c.watchDeadline(epoch)
}

// watchDeadline announces that renewals do not come through, as a claim's timer does.
func (c *simClaim) watchDeadline(epoch claim.Epoch) {
	t := c.p.w.timings
	next := map[claim.EventType]time.Duration{
		claim.Acquired: t.RenewDeadline, claim.Stalled: t.LeaseDuration - simCancelLead, claim.Expiring: t.LeaseDuration,
	}
	if c.epoch != epoch {
		return
	}
	at := c.sent.Add(next[c.phase])
	if wait := at.Sub(c.p.w.now); wait > 0 {
		c.p.w.after(wait, func() { c.p.run(func() { c.watchDeadline(epoch) }) })
		return
	}
	switch c.phase {
	case claim.Acquired:
		c.phase = claim.Stalled
		c.emit(ClaimChanged{Type: claim.Stalled, Epoch: epoch})
	case claim.Stalled:
		c.phase = claim.Expiring
		c.emit(ClaimChanged{Type: claim.Expiring, Epoch: epoch})
	default:
		c.lose()
		return
	}
	c.watchDeadline(epoch)
}

func (c *simClaim) renew(epoch claim.Epoch) {
	if c.epoch != epoch {
		return
	}
	sent, over := c.p.w.now, c.version
	again := func() { c.p.w.after(c.p.w.timings.RetryPeriod, func() { c.p.run(func() { c.renew(epoch) }) }) }
	c.p.request(func() {
		lease := c.p.w.leases[c.shard]
		recreates := lease.missing && c.live()
		if lease.version != over && !recreates {
			c.p.answer(func() { c.observe(lease); again() })
			return
		}
		c.p.w.changeLease(c.shard, simLease{holder: c.p.identity})
		stored := c.p.w.leases[c.shard]
		c.p.answer(func() {
			if c.epoch != epoch {
				return
			}
			c.version, c.sent, c.seen, c.since = stored.version, sent, stored, c.p.w.now
			c.wrote(stored.version)
			if c.phase != claim.Acquired {
				c.phase = claim.Acquired
				c.emit(ClaimChanged{Type: claim.Recovered, Epoch: epoch})
				c.watchDeadline(epoch)
			}
			again()
		})
	}, again)
}

func (c *simClaim) lose() {
	epoch := c.epoch
	c.epoch = ""
	c.emit(ClaimChanged{Type: claim.Lost, Epoch: epoch})
	c.decide()
}

// release gives the Lease back, again and again until that is certain.
func (c *simClaim) release() {
	c.releasing = true
	c.releaseIfAsked()
}

func (c *simClaim) releaseIfAsked() {
	if !c.releasing || c.busy {
		return
	}
	c.busy = true
	c.p.request(func() {
		if c.p.w.leases[c.shard].holder == c.p.identity {
			c.p.w.changeLease(c.shard, simLease{})
		}
		stored := c.p.w.leases[c.shard]
		c.p.answer(func() {
			c.busy, c.releasing, c.started, c.epoch = false, false, false, ""
			c.seen, c.since = stored, c.p.w.now
			c.emit(ClaimChanged{Type: claim.Released})
		})
	}, func() { c.busy = false; c.again(time.Second); c.releaseIfAsked() })
}
