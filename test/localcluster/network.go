package localcluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	bridgeName = "wire"
	cableName  = "eth0" // the Node's end; the other end has the Node's name
)

// setUpPlaneNetwork gives the control plane the bridge that the Nodes' cables go to.
func (s *supervisor) setUpPlaneNetwork() error {
	err := s.plane.space.Do(func() error {
		handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer handle.Close()
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridgeName}}
		if err := handle.LinkAdd(bridge); err != nil {
			return err
		}
		if err := s.setUpHost(handle, bridgeName, s.addresses.apiServer(), -1); err != nil {
			return err
		}
		return checkLocal(handle, s.addresses.apiServer())
	})
	if err != nil {
		return fmt.Errorf("setting up the control plane's network: %w", err)
	}
	return nil
}

// setUpHost gives one host of the cluster its address on the wire and the routes to the Pods of the
// Nodes, but for its own. A ClusterIP that no kube-proxy rule catches goes to the wire, where nobody
// answers.
func (s *supervisor) setUpHost(handle *netlink.Handle, device string, address netip.Addr, own int) error {
	lo, err := handle.LinkByName("lo")
	if err != nil {
		return err
	}
	link, err := handle.LinkByName(device)
	if err != nil {
		return err
	}
	wire := netip.PrefixFrom(address, s.addresses.wire().Bits())
	if err := handle.AddrAdd(link, &netlink.Addr{IPNet: ipNet(wire)}); err != nil {
		return err
	}
	if err := errors.Join(handle.LinkSetUp(lo), handle.LinkSetUp(link)); err != nil {
		return err
	}
	routes := []netlink.Route{{LinkIndex: link.Attrs().Index, Dst: ipNet(s.addresses.services()), Scope: netlink.SCOPE_LINK}}
	for i := range s.nodes {
		if i != own {
			routes = append(routes, netlink.Route{Dst: ipNet(s.addresses.pods(i)), Gw: s.addresses.node(i).AsSlice()})
		}
	}
	for _, route := range routes {
		if err := handle.RouteAdd(&route); err != nil {
			return fmt.Errorf("adding a route to %s: %w", route.Dst, err)
		}
	}
	return nil
}

// checkLocal fails when packets to an address of the cluster would leave the namespace.
func checkLocal(handle *netlink.Handle, address netip.Addr) error {
	routes, err := handle.RouteGet(address.AsSlice())
	if err != nil {
		return err
	}
	if len(routes) != 1 || routes[0].Type != unix.RTN_LOCAL {
		return fmt.Errorf("%s is not local: %v", address, routes)
	}
	return nil
}

// connectNode lays the cable between the control plane and a new Node.
func (s *supervisor) connectNode(n *node) error {
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", n.space.Pid()))
	if err != nil {
		return fmt.Errorf("opening the network of %s: %w", n.name, err)
	}
	defer namespace.Close()
	err = s.plane.space.Do(func() error {
		handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer handle.Close()
		bridge, err := handle.LinkByName(bridgeName)
		if err != nil {
			return err
		}
		cable := &netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: n.name, MasterIndex: bridge.Attrs().Index},
			PeerName:  cableName, PeerNamespace: netlink.NsFd(namespace.Fd()),
		}
		if err := handle.LinkAdd(cable); err != nil {
			return err
		}
		return handle.LinkSetUp(cable)
	})
	if err != nil {
		return fmt.Errorf("connecting %s: %w", n.name, err)
	}
	err = n.space.Do(func() error {
		handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer handle.Close()
		return s.setUpHost(handle, cableName, s.addresses.node(n.index), n.index)
	})
	if err != nil {
		return fmt.Errorf("setting up the network of %s: %w", n.name, err)
	}
	_, err = n.space.Run(context.Background(), mustRead("cut.nft"), "nft", "-f", "-")
	return err
}

// setCable takes the control plane's end of a Node's cable up or down.
func (s *supervisor) setCable(n *node, up bool) error {
	return s.plane.space.Do(func() error {
		handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer handle.Close()
		link, err := handle.LinkByName(n.name)
		if err != nil {
			return fmt.Errorf("finding the cable of %s: %w", n.name, err)
		}
		if up {
			return handle.LinkSetUp(link)
		}
		return handle.LinkSetDown(link)
	})
}

func ipNet(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), 32)}
}

// hasCable says whether the control plane's end of a Node's cable exists.
func (s *supervisor) hasCable(n *node) bool {
	err := s.plane.space.Do(func() error {
		handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer handle.Close()
		_, err = handle.LinkByName(n.name)
		return err
	})
	return err == nil
}
