package localcluster

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

// onNode makes a table entry of a fault on one Node.
func onNode(fault func(*supervisor, context.Context, *node) error) func(*supervisor, context.Context, []string) error {
	return func(s *supervisor, ctx context.Context, args []string) error {
		n, err := s.findNode(args[0])
		if err != nil {
			return err
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		return fault(s, ctx, n)
	}
}

func (s *supervisor) findNode(name string) (*node, error) {
	for _, n := range s.nodes {
		if n.name == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("localcluster: no Node is called %q", name)
}

func (s *supervisor) cutNode(_ context.Context, n *node) error { return s.changeCable(n, false) }

func (s *supervisor) reconnectNode(_ context.Context, n *node) error { return s.changeCable(n, true) }

func (s *supervisor) changeCable(n *node, up bool) error {
	if n.space == nil {
		return fmt.Errorf("localcluster: %s is lost", n.name)
	}
	return s.setCable(n, up)
}

// loseNode kills the Node's init process, and the kernel everything that it was the init of. The
// Node's network goes with it, its end of the cable included.
func (s *supervisor) loseNode(ctx context.Context, n *node) error {
	if n.space == nil {
		return nil
	}
	n.space.Kill()
	n.space = nil
	// The kernel tears a network namespace down in the background.
	return poll(ctx, "the end of the cable of "+n.name, func(context.Context) (string, bool) {
		return "it is still there", !s.hasCable(n)
	})
}

func (s *supervisor) restoreNode(ctx context.Context, n *node) error {
	if n.space != nil {
		return nil
	}
	if err := s.ctx.Err(); err != nil {
		return fmt.Errorf("localcluster: the cluster is stopped: %w", err)
	}
	if err := emptyCgroup(ctx, s.cgroup()+"/"+n.name); err != nil {
		return err
	}
	err := s.startNode(ctx, n)
	if err != nil && n.space != nil {
		n.space.Kill()
		n.space = nil
	}
	return err
}

// onPlane makes a table entry of a fault on the control plane: one runs at a time.
func onPlane(fault func(*supervisor, context.Context) error) func(*supervisor, context.Context, []string) error {
	return func(s *supervisor, ctx context.Context, _ []string) error {
		s.faultLock.Lock()
		defer s.faultLock.Unlock()
		return fault(s, ctx)
	}
}

func (s *supervisor) stopAPIServer(context.Context) error { return s.plane.apiServer.stop() }

func (s *supervisor) startAPIServer(ctx context.Context) error {
	if err := s.plane.apiServer.start(); err != nil {
		return err
	}
	return s.waitForAPIServer(ctx)
}

func (s *supervisor) restartAPIServer(ctx context.Context) error {
	return errors.Join(s.stopAPIServer(ctx), s.startAPIServer(ctx))
}

func (s *supervisor) pauseAPIServer(context.Context) error {
	return s.plane.apiServer.signal(syscall.SIGSTOP)
}

func (s *supervisor) resumeAPIServer(context.Context) error {
	return s.plane.apiServer.signal(syscall.SIGCONT)
}

func (s *supervisor) restartEtcd(ctx context.Context) error {
	if err := errors.Join(s.plane.etcd.stop(), s.plane.etcd.start()); err != nil {
		return err
	}
	return s.waitForAPIServer(ctx)
}
