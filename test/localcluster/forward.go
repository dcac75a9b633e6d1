package localcluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"

	"example.com/redis-operator/test/localcluster/internal/space"
	"golang.org/x/sys/unix"
)

// claimBlock takes the wanted block, or the first free one, by listening on its loopback port.
func (s *supervisor) claimBlock() error {
	first, last := s.options.Block, s.options.Block
	if s.options.Block == 0 {
		first, last = 1, blocks
	}
	var problems error
	for block := first; block <= last; block++ {
		if err := checkUnused(newAddresses(block).block()); err != nil {
			problems = errors.Join(problems, err)
			continue
		}
		listener, err := net.Listen("tcp4", forwarder(block))
		if err != nil {
			problems = errors.Join(problems, fmt.Errorf("localcluster: address range %s is in use: %w",
				newAddresses(block).block(), err))
			continue
		}
		s.listener, s.forwarder, s.addresses, s.options.Block = listener, forwarder(block), newAddresses(block), block
		return nil
	}
	return problems
}

// checkUnused fails when the host itself has an address in the range.
func checkUnused(block netip.Prefix) error {
	used, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("reading the host's addresses: %w", err)
	}
	for _, address := range used {
		prefix, err := netip.ParsePrefix(address.String())
		if err == nil && prefix.Overlaps(block) {
			return &MissingError{fmt.Sprintf("address range %s is in use: the host has %s", block, prefix)}
		}
	}
	return nil
}

// forward passes connections on to the API server until the listener is closed, and returns when the
// last has ended.
func (s *supervisor) forward() {
	var connections sync.WaitGroup
	defer connections.Wait()
	for {
		outer, err := s.listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				s.say(fmt.Sprintf("the forwarder to the API server ended: %v", err))
			}
			return
		}
		connections.Go(func() { s.forwardOne(outer) })
	}
}

func (s *supervisor) forwardOne(outer net.Conn) {
	defer outer.Close()
	server := netip.AddrPortFrom(s.addresses.apiServer(), 6443)
	inner, err := dialInside(s.ctx, s.plane.space.Pid(), "tcp4", server.String())
	if err != nil {
		return // the client sees a closed connection, as when the API server is away
	}
	defer inner.Close()
	end := context.AfterFunc(s.ctx, func() { outer.Close(); inner.Close() })
	defer end()
	var back sync.WaitGroup
	back.Go(func() { pass(outer, inner) })
	pass(inner, outer)
	back.Wait()
}

// pass copies one direction and tells the receiver when it is over.
func pass(to, from net.Conn) {
	io.Copy(to, from) //nolint:errcheck // either side may break the connection at any time
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		half.CloseWrite() //nolint:errcheck // it may be gone already
	}
}

// dialInside connects from the network namespace of a process. A socket stays in the namespace in
// which it was created, so only this goroutine's thread has to go there.
func dialInside(ctx context.Context, pid int, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("dialling %s: %w", addr, err)
	}
	if _, err := netip.ParseAddr(host); err != nil {
		// A name would be looked up by other goroutines, on threads of the host's namespace.
		return nil, fmt.Errorf("dialling %s: only IP addresses are known inside: %w", addr, err)
	}
	inside, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, fmt.Errorf("dialling %s: %w", addr, err)
	}
	defer inside.Close()
	type result struct {
		conn net.Conn
		err  error
	}
	results := make(chan result, 1)
	space.OnThread(func() {
		if err := unix.Setns(int(inside.Fd()), unix.CLONE_NEWNET); err != nil {
			results <- result{nil, fmt.Errorf("dialling %s: entering the cluster's network: %w", addr, err)}
			return
		}
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		results <- result{conn, err}
	})
	dialled := <-results
	return dialled.conn, dialled.err
}
