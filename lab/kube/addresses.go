package kube

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"syscall"
)

// Every cluster has a /16 of the loopback network to itself. Linux answers on all
// of 127.0.0.0/8 without any set-up, so daemons keep their well-known ports, pods
// have addresses a test can really listen on, and nothing is reachable from outside.
const (
	firstNetwork = 16 // 127.0 to 127.15 stay with the machine: resolvers and the like live there.
	lastNetwork  = 250
)

// Ports of the daemons, all on the network's first address.
const (
	portReservation       = 1337
	portEtcd              = 2379
	portEtcdPeer          = 2380
	portAPIServer         = 6443
	portKwok              = 10247
	portControllerManager = 10257
	portScheduler         = 10259
)

// APIServerPort is where the API server listens.
const APIServerPort = portAPIServer

var daemonPorts = []int{portEtcd, portEtcdPeer, portAPIServer, portKwok, portControllerManager, portScheduler}

// What a cluster with a real node uses, in a network namespace of its own: the
// ranges that most clusters have, and one address for the node.
var (
	routedPods     = netip.MustParsePrefix("10.244.0.0/16")
	routedServices = netip.MustParsePrefix("10.96.0.0/16")
	routedNode     = netip.MustParseAddr("10.97.0.1")
)

// Network is the part of the loopback network that one cluster owns.
type Network struct {
	number byte
	// routed says that packets to pods and Services really go somewhere.
	routed bool
	// reservation is a listener nobody talks to. Binding it is atomic for the
	// whole machine, across users, and the kernel undoes it when we end.
	reservation net.Listener
}

// ReserveNetwork finds a network of which no address is in use. It starts
// anywhere, so that a client left over from an ended cluster seldom meets the next one.
func ReserveNetwork(ctx context.Context) (*Network, error) {
	return reserve(ctx, byte(firstNetwork+rand.IntN(lastNetwork-firstNetwork+1)), new(net.ListenConfig).Listen)
}

type listenFunc func(ctx context.Context, network, address string) (net.Listener, error)

func reserve(ctx context.Context, start byte, listen listenFunc) (*Network, error) {
	var cause error
	const count = lastNetwork - firstNetwork + 1
	for i := range count {
		n := &Network{number: byte(firstNetwork + (int(start)-firstNetwork+i)%count)}
		busy, err := n.take(ctx, listen)
		if err == nil {
			return n, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("cannot listen on the loopback network: %w: the lab needs Linux, where all of 127.0.0.0/8 belongs to the interface lo", err)
		}
		// Other clusters are to be expected; a program that has one of the daemons'
		// ports on every address is not.
		if cause == nil || busy != portReservation {
			cause = err
		}
	}
	return nil, fmt.Errorf("no network from 127.%d.0.0 to 127.%d.0.0 is free (%w): find with \"ss -ltnp\" who has this port, "+
		"a program that listens on all addresses or clusters that are no longer needed, and end it", firstNetwork, lastNetwork, cause)
}

// take reserves the network and makes sure that a daemon left over from another
// cluster does not still occupy one of the ports. If one is busy, it says which.
func (n *Network) take(ctx context.Context, listen listenFunc) (busy int, err error) {
	reservation, err := listen(ctx, "tcp4", n.Address(portReservation))
	if err != nil {
		return portReservation, err
	}
	for _, port := range daemonPorts {
		probe, err := listen(ctx, "tcp4", n.Address(port))
		if err != nil {
			reservation.Close()
			return port, err
		}
		probe.Close()
	}
	n.reservation = reservation
	return 0, nil
}

// Release gives the network back.
func (n *Network) Release() {
	if n.reservation != nil {
		n.reservation.Close()
	}
}

// RoutedNetwork is the network of a cluster with a real node, as seen in the node's
// network namespace. Its loopback addresses have the number of the one that was
// reserved outside.
func RoutedNetwork(number byte) *Network { return &Network{number: number, routed: true} }

// Number tells networks apart.
func (n *Network) Number() byte { return n.number }

// checkFree explains what is wrong when a port became busy after the network was
// reserved. The daemons themselves would only say "address already in use".
func (n *Network) checkFree(ctx context.Context, ports ...int) error {
	for _, port := range ports {
		probe, err := new(net.ListenConfig).Listen(ctx, "tcp4", n.Address(port))
		if err != nil {
			return fmt.Errorf("%s is taken by a program that is not part of this cluster (%w): find it with \"ss -ltnp\", end it, and start again", n.Address(port), err)
		}
		probe.Close()
	}
	return nil
}

func (n *Network) at(third, fourth byte) netip.Addr {
	return netip.AddrFrom4([4]byte{127, n.number, third, fourth})
}

// Host is the address of all daemons.
func (n *Network) Host() netip.Addr { return n.at(0, 1) }

// Address is where the daemon with this port listens.
func (n *Network) Address(port int) string {
	return net.JoinHostPort(n.Host().String(), strconv.Itoa(port))
}

// CIDR is the whole network.
func (n *Network) CIDR() netip.Prefix { return netip.PrefixFrom(n.at(0, 0), 16) }

// Pods is the upper half, unless packets are routed: 32766 pods.
func (n *Network) Pods() netip.Prefix {
	if n.routed {
		return routedPods
	}
	return netip.PrefixFrom(n.at(128, 0), 17)
}

// Services holds the cluster addresses of Services. No proxy forwards them unless
// packets are routed; being here, a connection to one is refused at once instead of
// leaving the machine.
func (n *Network) Services() netip.Prefix {
	if n.routed {
		return routedServices
	}
	return netip.PrefixFrom(n.at(64, 0), 18)
}

// Node is the address of a node. If packets are routed there is one node, and the
// API server has its address too.
func (n *Network) Node(index int) netip.Addr {
	if n.routed {
		return routedNode
	}
	return n.at(1, byte(index+1))
}

// APIServer is the URL clients use.
func (n *Network) APIServer() string { return "https://" + n.Address(portAPIServer) }
