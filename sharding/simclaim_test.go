package sharding

import (
	"time"

	"example.com/redis-operator/sharding/claim"
)

// simClaim behaves as claim.Claim does, for one shard of one process. Its times are readings of the
// process's clock, but for sentAt.
type simClaim struct {
	p     *simProcess
	shard Shard
	told  func(ClaimChanged)

	started   bool
	releasing bool
	busy      bool // a write is on its way
	renewing  bool // so is a renewal
	renewSeq  int  // number of the renewal that is due next
	seen      simLease
	since     time.Duration

	epoch   claim.Epoch
	version string
	sent    time.Duration // when the last write was sent that the claim goes by
	sentAt  time.Duration // the true time of that
	phase   claim.EventType
	seq     int
	unsure  bool     // a write to acquire may have been carried out although its answer was lost
	tried   simFound // in which state that one found the Lease

	shown          string // version that the watch showed last
	oldest, latest simWrite
}

// simWrite is an own write that the watch has not shown; no version for none.
type simWrite struct {
	version string
	at      time.Duration
}

// simFound is the state in which a write finds the Lease.
type simFound struct{ unclean, again bool }

// simSent is when a request was sent, by the process's clock and in truth.
type simSent struct{ reading, at time.Duration }

func (c *simClaim) sends() simSent { return simSent{c.p.reading(), c.p.w.at} }

// wrote and watched follow own writes until they come back on the watch, as package claim does.
func (c *simClaim) wrote(version string) {
	if !isOlder(c.shown, version) && c.shown != "" {
		return
	}
	c.latest = simWrite{version, c.p.reading()}
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
	return c.p.reading() - c.oldest.at
}

func (c *simClaim) live() bool {
	return c.epoch != "" && c.p.reading() < c.sent+c.p.w.timings.LeaseDuration
}

// observe takes in what the watch or a read shows.
func (c *simClaim) observe(lease simLease) {
	if !isOlder(c.seen.version, lease.version) && c.seen.version != "" {
		return
	}
	if c.seen.missing && lease.missing {
		return
	}
	c.seen, c.since = lease, c.p.reading()
	if c.epoch != "" && !c.releasing && lease.holder != c.p.identity && isOlder(c.version, lease.version) {
		c.taken(lease)
	}
	c.decide()
}

// taken ends the claim on a Lease that another has, and takes back one that nobody can have had since.
func (c *simClaim) taken(lease simLease) {
	switch {
	case !lease.missing && !lease.unsettled:
		c.lose()
	case !c.renewing:
		c.renew(c.epoch)
	}
}

func (c *simClaim) emit(event ClaimChanged) {
	event.Shard = c.shard
	c.told(event)
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
	now := c.p.reading()
	ripe := c.since + c.p.w.timings.LeaseDuration
	isRipe := now >= ripe
	holder := c.seen.holder
	switch {
	case c.p.isRefused(c.seen):
		c.p.exit("a Lease has other settings")
	case c.seen.missing && c.p.w.off != ruleCreateEmpty:
		c.create()
	case (c.seen.unsettled || c.seen.missing) && !isRipe && c.p.w.off != ruleSettle:
		c.again(ripe - now)
	case holder == "", holder == c.p.identity:
		c.write(c.p.identity, ruleSwapAcquire)
	case holder.PodUID() == c.p.identity.PodUID(), c.p.confirmedDead(holder), isRipe:
		c.write("", ruleSwapEmpty)
	default:
		c.again(min(ripe-now, 500*time.Millisecond))
	}
}

func (c *simClaim) again(d time.Duration) {
	c.seq++
	seq := c.seq
	c.p.after(d, func() {
		if seq == c.seq {
			c.decide()
		}
	})
}

// create creates the missing Lease without a holder.
func (c *simClaim) create() {
	c.busy = true
	c.p.request(func() func() {
		stored, _ := c.put(simLease{unsettled: true}, "", false)
		return func() {
			c.busy = false
			c.observe(stored)
			c.decide()
			c.releaseIfAsked()
		}
	}, func() {
		c.busy = false
		c.again(time.Second)
		c.releaseIfAsked()
	})
}

// put stores the Lease over a version of it, or creates it where that is empty. It answers
// what is stored then. A rule that is switched off has it stored over any version.
func (c *simClaim) put(next simLease, over string, off bool) (simLease, bool) {
	w := c.p.w
	stored := w.leases[c.shard]
	fits := stored.version == over || off
	if over == "" || stored.missing {
		fits = over == "" && stored.missing
	}
	if fits {
		next.settings = c.p.settings.Shards
		w.changeLease(c.shard, next)
	}
	return w.leases[c.shard], fits
}

// write stores the Lease with a holder over the version seen.
func (c *simClaim) write(holder Identity, rule simRule) {
	c.busy = true
	seen, sent, off := c.seen, c.sends(), c.p.w.off == rule
	over, found := seen.version, c.finds(seen)
	if seen.missing {
		over = ""
	}
	c.p.request(func() func() {
		stored, ok := c.put(simLease{holder: holder, unclean: holder == ""}, over, off)
		return func() {
			c.busy = false
			switch {
			case !ok:
				c.observe(stored)
			case isOlder(stored.version, c.seen.version): // the watch was faster, and shows that it has gone on
			default:
				c.seen, c.since = stored, c.p.reading()
				c.wrote(stored.version)
				if holder == c.p.identity {
					c.unsure = false
					c.acquired(stored.version, sent, found)
				}
			}
			c.decide()
			c.releaseIfAsked()
		}
	}, func() {
		c.busy = false
		if holder == c.p.identity {
			c.unsure, c.tried = true, found
		}
		c.since = c.p.reading()
		c.again(time.Second)
		c.releaseIfAsked()
	})
}

// finds tells in which state a write finds the Lease: one that names this process because the answer to
// an earlier write was lost, in the state which that one found.
func (c *simClaim) finds(seen simLease) simFound {
	isOwn := seen.holder == c.p.identity
	if isOwn && c.unsure {
		return c.tried
	}
	return simFound{unclean: seen.unclean || seen.unsettled || seen.missing, again: isOwn}
}

// timed notes when a successful write was sent: from then on the claim counts.
func (c *simClaim) timed(sent simSent) {
	c.sent, c.sentAt = sent.reading, sent.at
	if c.p.w.off == ruleSent {
		c.sent = c.p.reading()
	}
}

func (c *simClaim) acquired(version string, sent simSent, found simFound) {
	c.epoch, c.version, c.phase = claim.Epoch(version), version, claim.Acquired
	c.timed(sent)
	if !c.live() {
		c.epoch = ""
		return
	}
	epoch := c.epoch
	if !c.releasing {
		c.emit(ClaimChanged{Type: claim.Acquired, Epoch: epoch, Unclean: found.unclean, Again: found.again})
	}
	c.renewLater(epoch)
	c.watchDeadline(epoch)
}

// watchDeadline announces that renewals do not come through, as a claim's timer does.
func (c *simClaim) watchDeadline(epoch claim.Epoch) {
	if c.epoch != epoch {
		return
	}
	t := c.p.w.timings
	next := t.LeaseDuration
	switch c.phase {
	case claim.Acquired:
		next = t.RenewDeadline
	case claim.Stalled:
		next = t.LeaseDuration - simCancelLead
	}
	if wait := c.sent + next - c.p.reading(); wait > 0 {
		c.p.after(wait, func() { c.watchDeadline(epoch) })
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

func (c *simClaim) renewLater(epoch claim.Epoch) {
	c.renewSeq++
	seq := c.renewSeq
	c.p.after(c.p.w.timings.RetryPeriod, func() {
		if seq == c.renewSeq {
			c.renew(epoch)
		}
	})
}

// renew writes the Lease over the last own version, or over the one seen where nobody has held it since.
func (c *simClaim) renew(epoch claim.Epoch) {
	switch {
	case c.epoch != epoch || c.releasing:
	case c.mayTakeBack(c.seen):
		c.renewOver(epoch, c.seen)
	default:
		c.renewOver(epoch, simLease{version: c.version})
	}
}

// mayTakeBack tells whether a Lease is one that nobody else may have before the deadline.
func (c *simClaim) mayTakeBack(lease simLease) bool {
	return (lease.missing || lease.unsettled) && c.live() && !c.releasing
}

// renewOver writes the Lease over what is known of it, and again where it was its own still, or may be
// taken back. One that is missing it creates first.
func (c *simClaim) renewOver(epoch claim.Epoch, known simLease) {
	w := c.p.w
	sent := c.sends()
	next, over := simLease{holder: c.p.identity}, known.version
	if known.missing {
		next, over = simLease{unsettled: true}, ""
		if w.off == ruleCreateEmpty {
			next = simLease{holder: c.p.identity}
		}
	}
	c.renewing = true
	c.p.request(func() func() {
		stored, ok := c.put(next, over, w.off == ruleSwapAcquire)
		return func() {
			c.renewing = false
			switch {
			case c.epoch != epoch:
			case ok && next.holder != "" && !isOlder(stored.version, c.seen.version):
				c.renewed(stored, sent)
				c.renewLater(epoch)
			case !ok && stored.holder == c.p.identity && !c.releasing, c.mayTakeBack(stored):
				c.renewing = true
				c.observe(stored)
				c.renewOver(epoch, stored)
			default:
				c.observe(stored)
				c.renewLater(epoch)
			}
		}
	}, func() {
		c.renewing = false
		c.renewLater(epoch)
	})
}

func (c *simClaim) renewed(stored simLease, sent simSent) {
	c.version, c.seen, c.since = stored.version, stored, c.p.reading()
	c.timed(sent)
	c.wrote(stored.version)
	if c.phase != claim.Acquired {
		epoch := c.epoch
		c.phase = claim.Acquired
		c.emit(ClaimChanged{Type: claim.Recovered, Epoch: epoch})
		c.watchDeadline(epoch)
	}
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

// releaseIfAsked empties the Lease over the last own write, while the claim is held; else it reads first.
func (c *simClaim) releaseIfAsked() {
	if !c.releasing || c.busy {
		return
	}
	c.busy = true
	if c.epoch != "" {
		c.empty(c.version)
	} else {
		c.readAndEmpty()
	}
}

func (c *simClaim) empty(over string) {
	c.p.request(func() func() {
		stored, ok := c.put(simLease{}, over, c.p.w.off == ruleRelease)
		return func() {
			if ok {
				c.released(stored)
			} else {
				c.readAndEmpty()
			}
		}
	}, c.retryRelease)
}

// readAndEmpty goes on only while the stored holder is this process.
func (c *simClaim) readAndEmpty() {
	c.p.request(func() func() {
		stored := c.p.w.leases[c.shard]
		return func() {
			if stored.holder == c.p.identity {
				c.empty(stored.version)
			} else {
				c.released(stored)
			}
		}
	}, c.retryRelease)
}

func (c *simClaim) retryRelease() {
	c.p.after(c.p.w.timings.RetryPeriod/4, func() {
		c.busy = false
		c.releaseIfAsked()
	})
}

func (c *simClaim) released(stored simLease) {
	c.busy, c.releasing, c.started, c.unsure, c.epoch = false, false, false, false, ""
	if !isOlder(stored.version, c.seen.version) {
		c.seen, c.since = stored, c.p.reading()
	}
	c.emit(ClaimChanged{Type: claim.Released})
}
