package sharding

import (
	"slices"
	"time"

	"example.com/redis-operator/sharding/placement"
)

// disturb lets one random thing happen.
func (w *simWorld) disturb() {
	if len(w.processes) == 0 {
		w.fill()
		return
	}
	p := w.processes[w.rng.IntN(len(w.processes))]
	if len(w.costs) > 0 {
		w.shift()
	}
	disturbances[w.rng.IntN(len(disturbances))](w, p)
}

// seconds is a time shorter than so many seconds, in milliseconds.
func (w *simWorld) seconds(most int) time.Duration {
	return time.Duration(w.rng.IntN(most*1000)) * time.Millisecond
}

// disturbances are what can happen, to a process or to all.
var disturbances = []func(*simWorld, *simProcess){
	func(w *simWorld, _ *simProcess) { w.scaleAny() },
	func(_ *simWorld, p *simProcess) { p.crash(true) },
	func(_ *simWorld, p *simProcess) { p.crash(false) },
	func(w *simWorld, p *simProcess) { p.pause(w.seconds(30)) },
	func(_ *simWorld, p *simProcess) { p.nearlyExpires(p.pause) },
	func(w *simWorld, p *simProcess) { p.net.lag = w.seconds(6) },
	func(w *simWorld, _ *simProcess) { w.outage(time.Duration(w.rng.IntN(25)) * time.Second) },
	func(w *simWorld, _ *simProcess) { w.deleteP() },
	func(w *simWorld, _ *simProcess) { w.deleteLeases() },
	func(w *simWorld, p *simProcess) { w.deleteTwice(p) },
	func(_ *simWorld, p *simProcess) { p.stop() },
	func(_ *simWorld, p *simProcess) { p.forceDelete() },
	func(w *simWorld, _ *simProcess) { w.garbleP() },
	func(_ *simWorld, p *simProcess) { p.setClock() },
	func(w *simWorld, p *simProcess) { p.losesMessages(time.Duration(w.rng.IntN(20)) * time.Second) },
	func(_ *simWorld, p *simProcess) { p.nearlyExpires(p.cut) },
	func(w *simWorld, p *simProcess) { w.hideP(p) },
	func(w *simWorld, _ *simProcess) { w.disturbAll() },
	func(w *simWorld, p *simProcess) { w.install(p) },
}

// nearLeaseDuration is a time in which Leases nearly run out, or just have.
func (w *simWorld) nearLeaseDuration() time.Duration {
	return w.timings.LeaseDuration + time.Duration(w.rng.IntN(8000)-5000)*time.Millisecond
}

// nearlyExpires stops a process for so long that its Leases nearly run out, or just have, while the
// watches of the others get slower.
func (p *simProcess) nearlyExpires(stop func(time.Duration)) {
	w, d := p.w, p.w.nearLeaseDuration()
	stop(d)
	w.after(d-time.Second, func() {
		for _, other := range w.processes {
			if other != p && w.rng.IntN(2) == 0 {
				other.net.lag = time.Duration(w.rng.IntN(3500)) * time.Millisecond
			}
		}
	})
}

// disturbAll has messages of all get lost and their clocks jump, and the members change meanwhile.
func (w *simWorld) disturbAll() {
	for _, p := range w.processes {
		p.losesMessages(15 * time.Second)
		p.setClock()
	}
	w.after(time.Second, w.scaleAny)
}

func (w *simWorld) scaleAny() {
	w.scale(1 + w.rng.IntN(5))
	w.fill()
}

func (p *simProcess) losesMessages(d time.Duration) {
	p.w.logf("%s: messages are lost or late for %s", p.identity, d)
	p.net.badUntil = p.w.at + d
}

// cut has nothing of a process get through, while it runs on.
func (p *simProcess) cut(d time.Duration) {
	p.w.logf("%s is cut off for %s", p.identity, d)
	p.net.cutUntil = p.w.at + d
}

// deleteLeases deletes one shard Lease, or all of them while some are handed over.
func (w *simWorld) deleteLeases() {
	if w.rng.IntN(2) == 0 {
		w.deleteLease(Shard(w.rng.IntN(len(w.leases))))
		return
	}
	w.scaleAny()
	w.after(time.Duration(w.rng.IntN(1000))*time.Millisecond, w.deleteAllLeases)
}

func (w *simWorld) deleteAllLeases() {
	for shard := range w.leases {
		w.deleteLease(Shard(shard))
	}
}

// deleteTwice deletes all shard Leases, and again soon after those of a process that has crashed were taken by
// the next. With the second deletion all are cut off but one whose watch was late, and the member goes, so that
// its shards get other homes: the one may learn that it is to act, and not have seen the Leases between.
func (w *simWorld) deleteTwice(late *simProcess) {
	w.deleteAllLeases()
	for _, other := range w.processes {
		if other != late && other.member == w.members[len(w.members)-1] {
			other.crash(true)
			break
		}
	}
	w.after(w.timings.LeaseDuration-time.Second, func() { late.net.lag = 6 * time.Second })
	w.after(w.timings.LeaseDuration+2*time.Second+w.seconds(3), func() {
		late.net.lag = 0 // it learns who is to act before it learns of the Leases
		for _, other := range w.processes {
			if other != late {
				other.cut(3 * time.Second)
			}
		}
		w.deleteAllLeases()
		w.scale(max(1, w.replicas-1))
	})
}

func (w *simWorld) deleteLease(shard Shard) {
	if !w.leases[shard].missing {
		w.logf("Lease %d deleted", shard)
		w.changeLease(shard, simLease{missing: true, settings: w.settings.Shards})
	}
}

// hideP deletes P while those who know it are cut off, and one is started anew that does not.
func (w *simWorld) hideP(p *simProcess) {
	for _, other := range w.processes {
		if other != p {
			other.cut(time.Duration(w.rng.IntN(7000)) * time.Millisecond)
		}
	}
	p.crash(true)
	w.deleteP()
	w.after(500*time.Millisecond, w.fill)
}

// install has somebody install the operator anew with half the shards, P deleted and all Pods with it but
// one on a Node that is cut off; and put that right after half a minute.
func (w *simWorld) install(survivor *simProcess) {
	isOther := func(p *simProcess) bool { return p.settings != w.settings }
	if w.rng.IntN(3) > 0 || slices.ContainsFunc(w.processes, isOther) {
		return // seldom enough for the rest
	}
	w.logf("installed anew with half the shards")
	for _, p := range w.processes {
		if p != survivor && p.settings == w.settings {
			p.crash(false)
		}
	}
	survivor.cut(w.nearLeaseDuration() + 4*time.Second)
	survivor.net.lag = time.Duration(w.rng.IntN(4000)) * time.Millisecond
	w.deleteP()
	halved := Settings{Shards: w.settings.Shards / 2, Hash: placement.HashFNV1aMix}
	for _, member := range w.members {
		if member != survivor.member {
			w.startWith(member, halved)
		}
	}
	w.after(30*time.Second, w.restore)
}

// restore ends the processes with other settings, and what they have written.
func (w *simWorld) restore() {
	for _, p := range w.processes {
		if p.settings != w.settings {
			p.crash(false)
		}
	}
	if w.p != nil && w.p.Settings != w.settings {
		w.deleteP()
	}
	for shard, lease := range w.leases {
		if lease.settings != w.settings.Shards {
			lease.settings = w.settings.Shards
			w.changeLease(Shard(shard), lease)
		}
	}
}

// fill starts a process for every expected member that has none.
func (w *simWorld) fill() {
	for _, member := range w.members {
		if member == w.absent {
			continue
		}
		isThere := func(p *simProcess) bool { return !p.gone() && p.member == member && p.podUID == w.pods[member] }
		if !slices.ContainsFunc(w.processes, isThere) {
			w.start(member)
		}
	}
}

// crash kills a process; the kubelet restarts its container and reports, or its Node is lost and a
// new Pod takes its name.
func (p *simProcess) crash(confirmed bool) {
	if p.gone() {
		return
	}
	p.w.logf("%s crashes, confirmed=%v", p.identity, confirmed)
	p.dead, p.w.someGone = true, true
	identity := p.identity
	if confirmed {
		p.w.after(time.Second, func() { p.w.confirm(identity) })
	} else {
		p.losePod()
	}
	p.w.after(p.w.restartAfter(), p.w.fill)
}

// losePod removes the Pod object, whether or not its process runs.
func (p *simProcess) losePod() {
	if p.w.pods[p.member] == p.podUID {
		p.w.pods[p.member] = ""
	}
	if p.w.off == rulePodGone {
		p.w.confirm(p.identity)
	}
}

// restartAfter is mostly short; sometimes a Pod stays away for long.
func (w *simWorld) restartAfter() time.Duration {
	if w.rng.IntN(3) == 0 {
		return 40 * time.Second
	}
	return 2 * time.Second
}

func (p *simProcess) pause(d time.Duration) {
	if p.gone() || p.paused {
		return
	}
	p.w.logf("%s pauses for %s", p.identity, d)
	p.paused = true
	p.w.after(d, p.resume)
}

func (p *simProcess) resume() {
	if !p.paused {
		return
	}
	p.w.logf("%s resumes", p.identity)
	p.paused = false
	held := p.held
	p.held = nil
	for _, work := range held {
		p.run(work)
	}
}

// stop ends a process as a rolling restart does: a new Pod follows.
func (p *simProcess) stop() {
	p.w.logf("%s is told to stop", p.identity)
	p.run(func() { p.step(Stopping{}) })
	p.w.after(30*time.Second, func() {
		p.dead, p.w.someGone = true, true
		p.losePod()
		p.w.fill()
	})
}

// forceDelete removes the Pod object while the process runs on; a new Pod takes its name.
func (p *simProcess) forceDelete() {
	if p.w.pods[p.member] != p.podUID {
		return
	}
	p.w.logf("Pod of %s is force-deleted", p.identity)
	p.losePod()
	p.w.fill()
}

func (w *simWorld) outage(d time.Duration) {
	w.logf("the API is away for %s", d)
	w.down = true
	w.after(d, func() { w.down = false; w.logf("the API is back") })
}

// calm ends all disturbances.
func (w *simWorld) calm() {
	w.logf("calm")
	w.down = false
	w.restore()
	for _, p := range w.processes {
		p.net = simNet{}
		p.resume()
	}
	w.fill()
}
