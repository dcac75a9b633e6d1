package sharding

import (
	"time"
)

// simClientTimeout is after how long a request that has no answer counts as failed.
const simClientTimeout = DefaultRenewDeadline / 2

// simNet is one process's way to the API.
type simNet struct {
	lag      time.Duration // of its watches
	badUntil time.Duration // until when requests and answers are lost or late
	cutUntil time.Duration // until when nothing gets through
	loseNext bool          // the next answer is lost
}

// latency is what one way of a request takes.
func (w *simWorld) latency() time.Duration {
	return time.Duration(1+w.rng.IntN(8)) * time.Millisecond
}

// request reaches the API after a latency, also if the process dies or pauses meanwhile; reach returns
// what the process does with the answer, or nil. Either way may lose it or take so long that the
// process has given up before; fail is then what it does.
func (p *simProcess) request(reach func() func(), fail func()) {
	w := p.w
	there, back, lost := p.fate()
	if lost || there+back > simClientTimeout {
		p.after(simClientTimeout, fail)
		if !lost {
			w.after(there, func() {
				if !w.down {
					reach()
				}
			})
		}
		return
	}
	w.after(there, func() {
		if w.down {
			p.after(back, fail)
			return
		}
		if answer := reach(); answer != nil {
			p.after(back, answer)
		}
	})
}

// fate is how long a request and its answer take, and whether the request gets lost.
func (p *simProcess) fate() (there, back time.Duration, lost bool) {
	w := p.w
	there, back, lost = w.latency(), w.latency(), w.at < p.net.cutUntil
	if p.net.loseNext {
		p.net.loseNext = false
		back += simClientTimeout
	}
	if w.at >= p.net.badUntil {
		return there, back, lost
	}
	switch w.rng.IntN(8) {
	case 0:
		lost = true
	case 1:
		back += simClientTimeout // the answer is lost
	case 2:
		there += w.seconds(8)
	case 3:
		back += w.seconds(3)
	}
	return there, back, lost
}

// later delivers what a watch shows: in order, after its lag.
func (p *simProcess) later(last *time.Duration, work func()) {
	*last = max(*last, max(p.w.at, p.net.cutUntil)+p.w.latency()+p.net.lag)
	p.after(*last-p.w.at, work)
}

func (p *simProcess) deliver(last *time.Duration, event Event) {
	p.later(last, func() { p.step(event) })
}

// simEvent is something that happens at a time.
type simEvent struct {
	at   time.Duration
	seq  int
	in   *simProcess // nil: in the world
	work func()
}

func (e simEvent) isBefore(other simEvent) bool {
	return e.at < other.at || e.at == other.at && e.seq < other.seq
}

// simQueue is a heap: the next event is the first.
type simQueue []simEvent

func (q *simQueue) push(e simEvent) {
	*q = append(*q, e)
	h := *q
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !e.isBefore(h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
}

func (q *simQueue) pop() simEvent {
	h := *q
	first, last := h[0], h[len(h)-1]
	h[len(h)-1] = simEvent{}
	h = h[:len(h)-1]
	*q = h
	i := 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].isBefore(h[child]) {
			child++
		}
		if !h[child].isBefore(last) {
			break
		}
		h[i] = h[child]
		i = child
	}
	if len(h) > 0 {
		h[i] = last
	}
	return first
}
