package sharding

import "sync"

// eventQueue is an unbounded queue: whoever reports to the coordinator never waits for it.
type eventQueue struct {
	mu     sync.Mutex // guards events
	events []Event
	filled chan struct{} // holds one token while there are events
}

func newEventQueue() *eventQueue { return &eventQueue{filled: make(chan struct{}, 1)} }

func (q *eventQueue) put(event Event) {
	q.mu.Lock()
	q.events = append(q.events, event)
	q.mu.Unlock()
	select {
	case q.filled <- struct{}{}:
	default:
	}
}

// take returns all events in the order in which they were put.
func (q *eventQueue) take() []Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	events := q.events
	q.events = nil
	return events
}
