// Package traffic writes to a Redis Cluster while something is done to it, remembers every write that was
// acknowledged, and checks afterwards that each is there.
package traffic

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Writer writes keys with sequence numbers, at an even pace, into slots that are spread over all 16,384. It is
// not safe for concurrent use.
type Writer struct {
	client *goredis.ClusterClient
	stop   context.CancelFunc
	done   sync.WaitGroup
	slots  []*slotWriter
}

// slotWriter writes into one slot.
type slotWriter struct {
	tag    string
	acked  []int
	failed int
	gap    time.Duration
	lastly error
}

// Result is what came of the writes.
type Result struct {
	// Acknowledged and Failed are numbers of writes; of those that failed it is not known whether they were done.
	Acknowledged, Failed int
	// Lost is how many acknowledged writes are not there.
	Lost int
	// MaxGap is the longest time between two acknowledged writes to one slot, of all slots. The pause that the
	// writer makes between two is part of it.
	MaxGap time.Duration
	// LastError is of a write that failed, nil when none did.
	LastError error
}

// readBatch is how many keys are read back at once.
const readBatch = 500

// dialTimeout is how soon the writer gives up an address at which nobody answers, as that of a Pod that is gone, and asks
// another node.
const dialTimeout = 300 * time.Millisecond

// Start begins to write so many times a second, into so many slots, as the client does but for its dialling: that
// gives up soon, and tries an address once.
func Start(ctx context.Context, as *goredis.ClusterClient, slots, perSecond int) *Writer {
	options := *as.Options()
	options.DialTimeout, options.DialerRetries = dialTimeout, 1
	client := goredis.NewClusterClient(&options)
	ctx, stop := context.WithCancel(ctx)
	w := &Writer{client: client, stop: stop}
	for i := range slots {
		s := &slotWriter{tag: tagIn(i*slotCount/slots, (i+1)*slotCount/slots)}
		w.slots = append(w.slots, s)
		w.done.Go(func() { s.run(ctx, client, time.Second*time.Duration(slots)/time.Duration(perSecond)) })
	}
	return w
}

func (s *slotWriter) run(ctx context.Context, client *goredis.ClusterClient, pause time.Duration) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	last := time.Now()
	for i := 0; ; i++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.gap = max(s.gap, time.Since(last))
			return
		}
		// What is on its way when the writer is stopped gets its answer.
		err := client.Set(context.WithoutCancel(ctx), s.key(i), i, 0).Err()
		if err != nil {
			s.failed++
			s.lastly = err
			continue
		}
		now := time.Now()
		s.gap, last = max(s.gap, now.Sub(last)), now
		s.acked = append(s.acked, i)
	}
}

func (s *slotWriter) key(i int) string { return fmt.Sprintf("{%s}%d", s.tag, i) }

// Stop ends the writing, and returns when the last write has its answer.
func (w *Writer) Stop() {
	w.stop()
	w.done.Wait()
}

// Check reads back every acknowledged write, and closes the writer's connections. The writer must have been stopped.
func (w *Writer) Check(ctx context.Context) (r Result, err error) {
	defer func() { err = errors.Join(err, w.client.Close()) }()
	for _, s := range w.slots {
		r.Acknowledged += len(s.acked)
		r.Failed += s.failed
		r.MaxGap = max(r.MaxGap, s.gap)
		if s.lastly != nil {
			r.LastError = s.lastly
		}
		lost, err := s.countLost(ctx, w.client)
		if err != nil {
			return r, err
		}
		r.Lost += lost
	}
	return r, nil
}

func (s *slotWriter) countLost(ctx context.Context, client *goredis.ClusterClient) (lost int, err error) {
	for first := 0; first < len(s.acked); first += readBatch {
		batch := s.acked[first:min(first+readBatch, len(s.acked))]
		names := make([]string, len(batch))
		for i, n := range batch {
			names[i] = s.key(n)
		}
		values, err := client.MGet(ctx, names...).Result()
		if err != nil {
			return lost, fmt.Errorf("reading keys of {%s}: %w", s.tag, err)
		}
		for i, value := range values {
			if value != strconv.Itoa(batch[i]) {
				lost++
			}
		}
	}
	return lost, nil
}
