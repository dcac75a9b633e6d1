package localcluster

import (
	"fmt"
	"net/netip"
)

// blocks is the number of clusters that fit side by side.
const blocks = 8

// firstPort is the loopback port of block 1; block 2 has the next one, and so on. Holding the port
// is what claims a block.
const firstPort = 26441

// addresses is the use of one block of 198.18.0.0/15, a range that is neither routed nor private:
// benchmarking of network devices (RFC 2544). A block is a /18:
//
//	.0.0/24   the wire between the control plane (.0.1) and the Nodes (.0.11 to .0.13)
//	.16.0/20  the Pods, a /22 a Node
//	.32.0/20  the Services
type addresses struct{ base [2]byte }

// newAddresses takes a block from 1 to blocks.
func newAddresses(block int) addresses {
	offset := (block - 1) * 64
	return addresses{base: [2]byte{byte(18 + offset/256), byte(offset % 256)}}
}

func (a addresses) at(third, fourth byte) netip.Addr {
	return netip.AddrFrom4([4]byte{198, a.base[0], a.base[1] + third, fourth})
}

func (a addresses) block() netip.Prefix { return netip.PrefixFrom(a.at(0, 0), 18) }

// wire is the network between control plane and Nodes.
func (a addresses) wire() netip.Prefix { return netip.PrefixFrom(a.at(0, 0), 24) }

func (a addresses) apiServer() netip.Addr { return a.at(0, 1) }

// node takes the index of a Node, from 0.
func (a addresses) node(index int) netip.Addr { return a.at(0, byte(11+index)) }

// pods is the range of one Node's Pods.
func (a addresses) pods(index int) netip.Prefix {
	return netip.PrefixFrom(a.at(byte(16+4*index), 0), 22)
}

func (a addresses) allPods() netip.Prefix { return netip.PrefixFrom(a.at(16, 0), 20) }

func (a addresses) services() netip.Prefix { return netip.PrefixFrom(a.at(32, 0), 20) }

// kubernetes is the first Service's address, by which Pods reach the API server.
func (a addresses) kubernetes() netip.Addr { return a.at(32, 1) }

// dns is an address that no Service has.
func (a addresses) dns() netip.Addr { return a.at(32, 10) }

// server is the API server's URL inside the cluster.
func (a addresses) server() string { return fmt.Sprintf("https://%s:6443", a.apiServer()) }

// forwarder is the address on the host by which the API server is reached.
func forwarder(block int) string { return fmt.Sprintf("127.0.0.1:%d", firstPort+block-1) }
