package localcluster

import (
	"net/netip"
	"testing"
)

func TestAddressesOfABlock(t *testing.T) {
	a := newAddresses(2)
	cases := map[string]struct{ got, want string }{
		"block":      {a.block().String(), "198.18.64.0/18"},
		"wire":       {a.wire().String(), "198.18.64.0/24"},
		"API server": {a.server(), "https://198.18.64.1:6443"},
		"last Node":  {a.node(2).String(), "198.18.64.13"},
		"first Pods": {a.pods(0).String(), "198.18.80.0/22"},
		"last Pods":  {a.pods(2).String(), "198.18.88.0/22"},
		"Services":   {a.services().String(), "198.18.96.0/20"},
		"Service":    {a.kubernetes().String(), "198.18.96.1"},
		"forwarder":  {forwarder(2), "127.0.0.1:26442"},
	}
	for name, tc := range cases {
		if tc.got != tc.want {
			t.Errorf("%s: %s, want %s", name, tc.got, tc.want)
		}
	}
}

func TestBlocksAreDisjointAndInsideTheBenchmarkRange(t *testing.T) {
	whole := netip.MustParsePrefix("198.18.0.0/15")
	for block := 1; block <= blocks; block++ {
		a := newAddresses(block)
		parts := []netip.Prefix{a.wire(), a.services()}
		for i := range maxNodes {
			parts = append(parts, a.pods(i))
			if !a.allPods().Contains(a.pods(i).Addr()) || !a.wire().Contains(a.node(i)) {
				t.Errorf("block %d: Node %d is outside the Pods' range or the wire", block, i+1)
			}
		}
		for i, part := range parts {
			if !a.block().Contains(part.Addr()) || !whole.Contains(part.Addr()) {
				t.Errorf("block %d: %s is outside %s", block, part, a.block())
			}
			for _, other := range parts[i+1:] {
				if part.Overlaps(other) {
					t.Errorf("block %d: %s overlaps %s", block, part, other)
				}
			}
		}
		for other := block + 1; other <= blocks; other++ {
			if a.block().Overlaps(newAddresses(other).block()) {
				t.Errorf("blocks %d and %d overlap", block, other)
			}
		}
	}
}
