package localcluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"example.com/redis-operator/test/localcluster/internal/space"
)

const (
	// stopGrace is how long a component has to end by itself.
	stopGrace = 5 * time.Second
	// restartDelay keeps a component that ends at once from using up the host.
	restartDelay = time.Second
)

// component is one program of Kubernetes. While it is wanted, it is started again when it ends.
type component struct {
	name  string // what the log calls it and its log file
	space *space.Space
	log   string
	args  []string // the program first
	say   func(string)

	mu      sync.Mutex // guards what follows; held while the program is started or stopped
	process *space.Process
	wanted  bool
}

// start starts the component; it does nothing when it is wanted already.
func (c *component) start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wanted {
		return nil
	}
	c.wanted = true
	return c.launch()
}

// launch is called with the lock held.
func (c *component) launch() error {
	process, err := c.space.Start(c.log, c.args[0], c.args[1:]...)
	if err != nil {
		return err
	}
	c.process = process
	go c.watch(process)
	return nil
}

// watch starts the component again when it has ended and is still wanted. It ends with the process
// or the space, at the latest.
func (c *component) watch(process *space.Process) {
	<-process.Done()
	if !c.isWanted(process) {
		return
	}
	timer := time.NewTimer(restartDelay)
	defer timer.Stop()
	select {
	case <-c.space.Closed():
		return
	case <-timer.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.wanted || c.process != process {
		return
	}
	select {
	case <-c.space.Closed():
		return
	default:
	}
	c.say(fmt.Sprintf("%s ended (%v), starting it again; see %s", c.name, process.Err(), c.log))
	if err := c.launch(); err != nil && !errors.Is(err, space.ErrClosed) {
		c.say(fmt.Sprintf("%s did not start: %v", c.name, err))
	}
}

func (c *component) isWanted(process *space.Process) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wanted && c.process == process
}

// stop ends the component and leaves it ended.
func (c *component) stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = false
	if c.process == nil {
		return nil
	}
	return c.process.Stop(stopGrace)
}

// signal sends a signal to the component.
func (c *component) signal(signal syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return fmt.Errorf("localcluster: %s does not run", c.name)
	}
	return c.process.Signal(signal)
}

// poll calls done every 50 ms until it says yes, and otherwise returns its last reason.
func poll(ctx context.Context, what string, done func(context.Context) (string, bool)) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		reason, ok := done(ctx)
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w (%s)", what, ctx.Err(), reason)
		case <-ticker.C:
		}
	}
}
