package node

import (
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"

	"github.com/sei-operator/sei-operator/lab/kube"
)

// makeNetwork gives the new network namespace its one interface. Pods add theirs;
// there is none that leads out of here.
func makeNetwork(n *kube.Network) error {
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("cannot find the loopback interface: %w", err)
	}
	if err := netlink.LinkSetUp(loopback); err != nil {
		return fmt.Errorf("cannot bring the loopback interface up: %w", err)
	}
	node := n.Node(0)
	if err := netlink.AddrAdd(loopback, &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(node, node.BitLen()))}); err != nil {
		return fmt.Errorf("cannot give the node its address: %w", err)
	}
	// The daemons of the node reach Services too. Where a packet goes is decided before
	// kube-proxy's rules see it, so without a route it would not even begin.
	services := &netlink.Route{LinkIndex: loopback.Attrs().Index, Dst: ipNet(n.Services()), Src: net.IP(node.AsSlice()), Scope: netlink.SCOPE_LINK}
	if err := netlink.RouteAdd(services); err != nil {
		return fmt.Errorf("cannot add the route to Services: %w", err)
	}
	// It is this namespace's own setting.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("cannot let packets through: %w", err)
	}
	return nil
}

func ipNet(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: net.IP(prefix.Addr().AsSlice()), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}
}
