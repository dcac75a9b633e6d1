package sharding

import (
	"time"

	"example.com/redis-operator/sharding/claim"
)

// claimState says how far a claim on one shard's Lease is.
type claimState int

const (
	claimNone claimState = iota
	claimContending
	claimHeld
	claimReleasing
)

// scopeState says whether the scopes of a shard are loaded.
type scopeState int

const (
	scopesNone scopeState = iota
	scopesWarming
	scopesWarm
)

// admissionState says whether work of a shard is admitted.
type admissionState int

const (
	notAdmitting admissionState = iota
	admitting
	draining
)

// shardState is one shard's life in one process; see the diagram in doc.go.
type shardState struct {
	claim     claimState
	scopes    scopeState
	admission admissionState
	epoch     claim.Epoch
	holder    Identity // who the Lease names as far as the claim has seen
	// holderSeen says that the claim has seen the Lease.
	holderSeen bool
	// suspended says that renewals of this claim do not come through.
	suspended bool
	// served says that work was admitted under the present epoch.
	served bool
	// settledAt is when the first write under this epoch may start.
	settledAt time.Time
	// drainAt is when a drain that overran may be tried again.
	drainAt time.Time
	// announced says that others may know that the shard is warm here.
	announced bool
	// handingSince is when a handover of this process began whose winner was not seen yet; zero for none.
	handingSince time.Time
	// warmSeq and drainSeq number the Warms and Drains, so that the answer to an earlier one is
	// recognised as such.
	warmSeq, drainSeq int
	// cause is why the shard is to be admitted next.
	cause Cause
}

// wants tells whether P names this process to act for a shard, and the process would.
func (m *Machine) wants(shard Shard) bool {
	return m.self != "" && m.stopAt.IsZero() && m.acting[shard] == m.self
}

// advance draws the conclusions for one shard from what is known at the moment.
func (m *Machine) advance(shard Shard, now time.Time) {
	s := &m.shards[shard]
	want := m.wants(shard)
	if want && s.claim == claimNone {
		// The claim waits until the Lease may be taken; meanwhile the scopes are loaded.
		s.claim = claimContending
		m.do(Contend{Shard: shard})
	}
	if s.scopes == scopesNone && (want || s.claim == claimHeld && m.keeps(shard)) {
		s.scopes = scopesWarming
		s.warmSeq++
		m.do(Warm{Shard: shard, Seq: s.warmSeq})
	}
	switch s.claim {
	case claimContending:
		if !want {
			s.claim = claimReleasing
			m.do(Release{Shard: shard})
		}
	case claimHeld:
		m.advanceHeld(shard, now)
	case claimNone:
		if !want && s.scopes != scopesNone && !m.mayReturn() {
			s.scopes = scopesNone
			m.do(Drop{Shard: shard})
		}
	case claimReleasing:
	}
}

// mayReturn tells whether the process is between two identities: what it has loaded it will
// probably need again.
func (m *Machine) mayReturn() bool {
	return m.stopAt.IsZero() && (!m.handOverBy.IsZero() || !m.registered)
}

// keeps tells whether a shard that is held stays with this process: it is to act, or nobody else
// is there to act.
func (m *Machine) keeps(shard Shard) bool {
	return m.acting[shard] == m.self || m.acting[shard] == ""
}

func (m *Machine) advanceHeld(shard Shard, now time.Time) {
	s := &m.shards[shard]
	lagging := m.claimsLagging || m.observer.Stalled(now)
	switch s.admission {
	case notAdmitting:
		if s.suspended || lagging && !m.isForced(now) {
			return
		}
		m.advanceClosed(shard, now)
	case admitting:
		switch {
		case s.suspended:
			m.stopAdmitting(shard, CauseStalled)
		case lagging:
			m.stopAdmitting(shard, CauseLagging)
		case m.isForced(now):
			m.startDrain(shard, CauseStop)
		case !m.keeps(shard) && m.isWarm(m.acting[shard], shard) && !now.Before(s.drainAt) && m.mayHandOver(now):
			s.handingSince = now
			m.startDrain(shard, CauseHandover)
		}
		m.wakeAt(s.drainAt, now)
	case draining:
	}
}

// advanceClosed decides what becomes of a shard that is held and not admitted: it is admitted once
// it is warm and settled, or given back if it never was admitted here and another is to act.
func (m *Machine) advanceClosed(shard Shard, now time.Time) {
	s := &m.shards[shard]
	if m.isForced(now) || !m.keeps(shard) && (!s.served || s.scopes != scopesWarm) {
		m.drain(shard)
		return
	}
	if s.scopes != scopesWarm {
		return
	}
	if now.Before(s.settledAt) {
		m.wakeAt(s.settledAt, now)
		return
	}
	s.admission, s.served, s.handingSince = admitting, true, time.Time{}
	m.do(Admit{Shard: shard, Epoch: s.epoch, Cause: s.cause}, Replay{Shard: shard})
	s.cause = CauseRecovered
}

// mayHandOver tells whether one more handover may begin. Shards are handed over a few at a time: each is
// unowned for as long as its own requests take, and not for as long as those of all shards that move. In the
// second half of a stop's time all may go, so that slow ones do not take the time of the rest.
func (m *Machine) mayHandOver(now time.Time) bool {
	if !m.stopAt.IsZero() {
		hurry := m.stopAt.Add(m.config.HandoverBound / 2)
		if !now.Before(hurry) {
			return true
		}
		m.wakeAt(hurry, now)
	}
	underway, atOnce := 0, max(handoversAtOnce, len(m.shards)/shardsPerHandover)
	for shard := range m.shards {
		since := m.shards[shard].handingSince
		if end := since.Add(handoverPatience); !since.IsZero() && now.Before(end) {
			underway++
			m.wakeAt(end, now)
		}
	}
	return underway < atOnce
}

func (m *Machine) stopAdmitting(shard Shard, cause Cause) {
	s := &m.shards[shard]
	s.admission, s.cause = notAdmitting, CauseRecovered
	m.do(StopAdmitting{Shard: shard, Epoch: s.epoch, Cause: cause})
}

func (m *Machine) startDrain(shard Shard, cause Cause) {
	m.stopAdmitting(shard, cause)
	m.drain(shard)
}

func (m *Machine) drain(shard Shard) {
	s := &m.shards[shard]
	s.admission = draining
	s.drainSeq++
	m.do(Drain{Shard: shard, Seq: s.drainSeq})
}

func (e Warmed) apply(m *Machine, _ time.Time) {
	if s := &m.shards[e.Shard]; s.scopes == scopesWarming && s.warmSeq == e.Seq {
		s.scopes = scopesWarm
	}
}

func (e Drained) apply(m *Machine, now time.Time) {
	s := &m.shards[e.Shard]
	if s.claim != claimHeld || s.admission != draining || s.drainSeq != e.Seq {
		return
	}
	s.admission = notAdmitting
	switch {
	case e.Overran:
		// The Lease is kept and renewed. A process that must end goes on waiting; any other
		// admits work again and tries later.
		s.cause, s.drainAt = CauseDrainOver, now.Add(m.config.DrainBound)
	case m.keeps(e.Shard) && !m.isForced(now):
		// Placement has changed its mind meanwhile.
		s.cause = CauseDrainOver
	default:
		s.claim = claimReleasing
		m.do(Release{Shard: e.Shard})
	}
}

func (e ClaimChanged) apply(m *Machine, now time.Time) {
	s := &m.shards[e.Shard]
	switch e.Type {
	case claim.Acquired:
		m.claimAcquired(e, now)
	case claim.Stalled:
		s.suspended = true
	case claim.Recovered:
		s.suspended = false
	case claim.Expiring:
		s.suspended = true
		m.closeAs(e.Shard, CauseStalled)
		m.do(CancelCalls{Shard: e.Shard})
	case claim.Lost:
		s.handingSince = time.Time{}
		m.closeAs(e.Shard, CauseLost)
		m.do(Revoke{Shard: e.Shard})
		m.claimEnded(e.Shard, claimContending)
	case claim.Released:
		m.do(Revoke{Shard: e.Shard})
		m.claimEnded(e.Shard, claimNone)
	case claim.Refused:
	}
}

// claimAcquired notes a new epoch. What was in flight under an older one is over.
func (m *Machine) claimAcquired(e ClaimChanged, now time.Time) {
	s := &m.shards[e.Shard]
	m.closeAs(e.Shard, CauseLost)
	if s.claim == claimContending || s.claim == claimNone {
		s.claim = claimHeld
	}
	s.epoch, s.holder, s.holderSeen = e.Epoch, m.self, true
	s.suspended, s.served = false, false
	s.cause, s.settledAt, s.drainAt, s.handingSince = CauseHandover, now, time.Time{}, time.Time{}
	if e.Again {
		s.cause = CauseRecovered
	}
	if e.Unclean {
		s.cause, s.settledAt = CauseFailover, now.Add(settleAfterUnclean)
	}
}

// claimEnded notes that the claim is over. A release that is on its way ends only with Released: the
// edge must not be asked to contend before.
func (m *Machine) claimEnded(shard Shard, next claimState) {
	s := &m.shards[shard]
	if s.claim != claimReleasing || next == claimNone {
		s.claim = next
	}
	s.admission, s.epoch = notAdmitting, ""
	s.suspended, s.served = false, false
	m.dirty = m.dirty || !m.stopAt.IsZero()
}

// closeAs stops admitting a shard whatever state it is in.
func (m *Machine) closeAs(shard Shard, cause Cause) {
	if m.shards[shard].admission == admitting {
		m.stopAdmitting(shard, cause)
	}
	m.shards[shard].admission = notAdmitting
}
