package sharding

import (
	"slices"
	"strconv"
	"time"

	"example.com/redis-operator/sharding/claim"
	"example.com/redis-operator/sharding/membership"
	"example.com/redis-operator/sharding/placement"
)

// simCancelLead is how long before a claim's deadline its calls are cancelled.
const simCancelLead = 2 * time.Second

// simProcess is one process: a machine, its claims, and the edge between them and the world.
type simProcess struct {
	w        *simWorld
	clock    simClock
	net      simNet
	settings Settings
	member   Member
	podUID   string
	nonce    int
	identity Identity
	machine  *Machine
	claims   []*simClaim
	shards   []simShard

	dead     bool
	finished bool
	paused   bool
	held     []func() // what waits for the end of a pause
	lagging  bool     // own writes of Leases do not come back on the watch

	placementAt, expectedAt, podAt, leaseAt, presenceAt time.Duration // order of the watches

	publish  Publish
	renewal  int                // number of the last renewal that was sent
	stored   int                // number of the last that got there
	holders  map[Shard]Identity // as the machine was told
	wakeAt   time.Duration      // when the machine wants a Tick; 0 for never
	nextWake time.Duration      // when the next event for that is due; 0 for none
	awaiting int                // admissions of this step that were not replayed
}

// simShard is what the guard and the scopes of a process know of a shard.
type simShard struct {
	admitted  bool
	inFlight  claim.Epoch // of calls that a drain waits for; empty for none
	draining  bool
	grants    int // how often what was admitted has been cancelled
	warm      bool
	wasWarm   bool // at some time: a view that lags may rest on that
	replayDue bool // admitted in this step, and not replayed
}

func (w *simWorld) start(member Member) *simProcess { return w.startWith(member, w.settings) }

func (w *simWorld) startWith(member Member, settings Settings) *simProcess {
	if w.pods[member] == "" {
		w.nextPod++
		w.pods[member] = "uid" + strconv.Itoa(w.nextPod)
	}
	for _, other := range w.processes {
		if other.podUID == w.pods[member] && !other.gone() {
			w.fail("simulation", "two processes run in the Pod of %s", other.identity)
		}
	}
	p := &simProcess{
		w: w, member: member, podUID: w.pods[member], settings: settings, clock: w.newClock(),
		shards: make([]simShard, settings.Shards),
	}
	p.machine = NewMachine(MachineConfig{
		Member: member, Settings: settings, Timings: w.timings,
		HandoverBound: DefaultHandoverBound, DrainBound: DefaultDrainBound, FoldEvery: simFoldEvery,
	}, p.now())
	w.processes = append(w.processes, p)
	p.join()
	p.lookAtClaims()
	w.logf("start %s with %d shards", p.identity, settings.Shards)
	p.step(w.storedP(p))
	p.step(w.expected())
	p.ensureLeases()
	for _, identity := range w.identities() {
		p.step(w.presences[identity])
	}
	for _, terminated := range w.terminated {
		p.step(terminated)
	}
	p.after(20*time.Millisecond, func() { p.step(DirectorySynced{}) })
	p.measure()
	p.work()
	return p
}

// identities are those that have a presence Lease, in the order that makes a run repeatable.
func (w *simWorld) identities() []Identity {
	identities := make([]Identity, 0, len(w.presences))
	for identity := range w.presences {
		identities = append(identities, identity)
	}
	slices.Sort(identities)
	return identities
}

// ensureLeases refuses to go on with shard Leases of other settings.
func (p *simProcess) ensureLeases() {
	for _, lease := range p.w.leases {
		if p.isRefused(lease) {
			p.exit("the Leases have other settings")
			return
		}
	}
	p.request(func() func() {
		for shard, lease := range p.w.leases {
			if lease.missing && shard < p.settings.Shards {
				p.claims[shard].put(simLease{unsettled: true}, "", false)
			}
		}
		return func() { p.step(LeasesEnsured{}) }
	}, p.ensureLeases)
}

func (p *simProcess) isRefused(lease simLease) bool {
	return lease.settings != p.settings.Shards && p.w.off != ruleSettings
}

// join takes a new identity and renews the presence of it for as long as it lasts.
func (p *simProcess) join() {
	p.nonce++
	if p.nonce > 40 {
		p.w.fail("I2", "%s joins again and again", p.identity)
	}
	nonce := "n"
	if p.w.off != ruleNonce {
		p.w.seq++
		nonce += strconv.Itoa(p.w.seq) + "x" + strconv.Itoa(p.nonce)
	}
	p.identity = Identity(string(p.member) + "_" + p.podUID + "_" + nonce)
	p.w.silences[p.identity] = &simSilence{since: p.w.at}
	p.claims = nil
	for shard := range p.settings.Shards {
		c := &simClaim{p: p, shard: Shard(shard), told: p.claimChanged}
		p.claims = append(p.claims, c)
		c.observe(p.w.leases[shard])
	}
	p.publish, p.holders = Publish{}, map[Shard]Identity{}
	p.step(Joined{Identity: p.identity})
	p.renewAgain(p.identity)
}

func (p *simProcess) renewAgain(identity Identity) {
	if p.gone() || p.identity != identity {
		return
	}
	p.after(p.w.timings.RetryPeriod, func() { p.renewAgain(identity) })
	p.renew()
}

// renew writes the presence Lease. The versions that it goes by let no earlier renewal follow a later.
func (p *simProcess) renew() {
	content, identity := p.publish, p.identity
	p.renewal++
	number := p.renewal
	p.request(func() func() {
		if number < p.stored {
			return nil
		}
		p.stored = number
		p.w.changePresence(PresenceSeen{
			Identity: identity, Version: "new", Placement: content.Placement, Warmed: content.Warmed, Costs: content.Costs,
		})
		version := p.w.presences[identity].Version
		return func() {
			if p.identity != identity {
				return
			}
			p.step(PresenceRenewed{Version: version})
			if p.w.off == ruleEcho {
				p.step(PresenceSeen{Identity: identity, Version: version})
			}
		}
	}, func() {})
}

func (p *simProcess) gone() bool { return p.dead || p.finished }

// exit ends the process.
func (p *simProcess) exit(why string) {
	p.w.logf("%s exits: %s", p.identity, why)
	p.dead, p.w.someGone = true, true
}

// run does something in the process, at the end of the pause if there is one.
func (p *simProcess) run(work func()) {
	switch {
	case p.gone():
	case p.paused:
		p.held = append(p.held, work)
	default:
		work()
	}
}

func (p *simProcess) claimChanged(event ClaimChanged) { p.step(event) }

func (p *simProcess) step(event Event) {
	if p.gone() {
		return
	}
	p.breakMachine()
	for _, action := range p.machine.Step(event, p.now()) {
		p.do(action)
	}
	if p.awaiting > 0 {
		p.awaiting = 0
		p.checkReplays()
	}
}

func (p *simProcess) checkReplays() {
	for shard := range p.shards {
		if p.shards[shard].replayDue {
			p.w.fail("I5", "%s admits shard %d without a replay", p.identity, shard)
		}
	}
}

// lookAtClaims tells the machine what its claims have seen of the Leases, now and then, as the
// coordinator does.
func (p *simProcess) lookAtClaims() {
	p.after(p.w.timings.RetryPeriod/2, p.lookAtClaims)
	bound := membership.BreakAfter(p.w.timings.LeaseDuration, p.w.timings.RetryPeriod)
	isBehind := func(c *simClaim) bool { return c.lag() > bound }
	if lagging := slices.ContainsFunc(p.claims, isBehind); lagging != p.lagging {
		p.lagging = lagging
		if p.w.off != ruleEcho {
			p.step(ClaimsLagging{Lagging: lagging})
		}
	}
	for shard, c := range p.claims {
		if before, told := p.holders[Shard(shard)]; !told || before != c.seen.holder {
			p.holders[Shard(shard)] = c.seen.holder
			p.step(HolderSeen{Shard: Shard(shard), Holder: c.seen.holder})
		}
	}
}

// canAct tells whether a call could start now that the guard lets through, or one is in flight.
func (p *simProcess) canAct(shard Shard) bool {
	s := &p.shards[shard]
	if !s.admitted && s.inFlight == "" || p.gone() {
		return false
	}
	c := p.claims[shard]
	return c.live() && (s.admitted || s.inFlight == c.epoch)
}

func (p *simProcess) holdsAny() bool {
	return slices.ContainsFunc(p.claims, func(c *simClaim) bool { return c.live() && !c.releasing })
}

// simWork is a reconcile that was admitted and makes a call that changes something later.
type simWork struct {
	shard  Shard
	epoch  claim.Epoch
	grants int
	owner  int
}

// work begins to reconcile something, again and again. Some of it takes long.
func (p *simProcess) work() {
	if p.gone() {
		return
	}
	w := p.w
	w.after(time.Duration(300+w.rng.IntN(700))*time.Millisecond, p.work)
	shard, takes := Shard(w.rng.IntN(p.settings.Shards)), time.Duration(w.rng.IntN(2000))*time.Millisecond
	if w.rng.IntN(4) == 0 {
		takes *= 20
	}
	s := &p.shards[shard]
	if p.paused || !s.admitted {
		return
	}
	work := simWork{shard: shard, epoch: p.claims[shard].epoch, grants: s.grants, owner: w.owners[shard].count}
	w.after(takes, func() { p.call(work) })
}

// call makes a call, if the guard lets it. At the end of a pause it comes before any timer.
func (p *simProcess) call(work simWork) {
	if p.gone() {
		return
	}
	if p.paused {
		p.held = slices.Insert(p.held, 0, func() { p.call(work) })
		return
	}
	if !p.lets(work) {
		return
	}
	if owner := p.w.owners[work.shard]; owner.count != work.owner {
		p.w.fail("I6", "%s starts a call of shard %d that was admitted under epoch %s, and %s has owned it since",
			p.identity, work.shard, work.epoch, owner.identity)
	}
}

// lets tells what the guard answers.
func (p *simProcess) lets(work simWork) bool {
	s, c := &p.shards[work.shard], p.claims[work.shard]
	isOpen := s.admitted || s.inFlight != "" && !s.draining
	isInTime := c.epoch != "" && p.reading() < c.sent+p.w.timings.LeaseDuration-simCancelLead || p.w.off == ruleDeadline
	isSame := c.epoch == work.epoch && s.grants == work.grants || p.w.off == ruleEpoch
	return isOpen && isInTime && isSame
}

// confirmedDead is what claims ask before they empty another's Lease.
func (p *simProcess) confirmedDead(identity Identity) bool {
	if p.machine.p == nil {
		return false
	}
	process, ok := p.machine.p.Process(identity)
	return ok && (process.Cause == placement.Confirmed || p.w.off == ruleConfirmed && process.State == placement.Dead)
}
