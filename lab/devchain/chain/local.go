package chain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/sei-operator/sei-operator/lab/devchain/home"
)

// Local is a chain whose nodes are processes on this machine. Each has a loopback
// address of its own, with the usual ports.
type Local struct {
	Network *Network
	// Nodes are in the order in which they were added, the validators first. Who reads
	// them while some are added uses All.
	Nodes []*Node

	dir    string
	guards []net.Listener
	mu     sync.Mutex
}

// All is the nodes that there are now.
func (l *Local) All() []*Node {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.Nodes)
}

// Node is a node of a local chain.
type Node struct {
	Name string
	Mode home.Mode
	Home home.Dir
	Host string
	// ID is what peers know it by, Address what it signs as.
	ID      string
	Address string

	log string
	mu  sync.Mutex
	run *Process
}

// RPC is where the node answers.
func (n *Node) RPC() string { return "http://" + net.JoinHostPort(n.Host, "26657") }

// Metrics is where its metrics are.
func (n *Node) Metrics() string { return "http://" + net.JoinHostPort(n.Host, "26660") + "/metrics" }

// Peer is what other nodes write down to find it.
func (n *Node) Peer() string { return n.ID + "@" + net.JoinHostPort(n.Host, "26656") }

// Process is the last one that was started, or nil.
func (n *Node) Process() *Process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.run
}

// NewLocal makes the homes of all validators of a network. Close must be called.
func NewLocal(dir string, network *Network) (*Local, error) {
	l := &Local{Network: network, dir: dir}
	for _, validator := range network.Validators {
		if _, err := l.Add(validator, home.Validator, nil); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	return l, l.connect()
}

// connect makes every node dial every validator.
func (l *Local) connect() error {
	for _, node := range l.Nodes {
		if err := node.Configure(map[string]string{"p2p.persistent-peers": quote(strings.Join(l.peers(node), ","))}); err != nil {
			return err
		}
	}
	return nil
}

func (l *Local) peers(of *Node) []string {
	var peers []string
	for _, other := range l.Nodes {
		if other != of && other.Mode == home.Validator {
			peers = append(peers, other.Peer())
		}
	}
	return peers
}

// AddNode adds one that does not validate and dials all validators. The changes are
// made to its config.toml.
func (l *Local) AddNode(name string, mode home.Mode, changes map[string]string) (*Node, error) {
	return l.Add(NewIdentity(name), mode, changes)
}

// Add adds a node with these keys.
func (l *Local) Add(id Identity, mode home.Mode, changes map[string]string) (*Node, error) {
	host, guard, err := loopback()
	if err != nil {
		return nil, err
	}
	l.guards = append(l.guards, guard)
	node := &Node{
		Name: id.Name, Mode: mode, Home: home.Dir(filepath.Join(l.dir, id.Name)), Host: host,
		ID: string(id.NodeKey.ID), Address: id.Address(), log: filepath.Join(l.dir, id.Name+".log"),
	}
	if err := id.write(node.Home.Config("")); err != nil {
		return nil, err
	}
	if _, err := node.Home.Init(id.Name, l.Network.ChainID, mode, true); err != nil {
		return nil, err
	}
	if err := os.WriteFile(node.Home.Genesis(), l.Network.Genesis, 0o644); err != nil {
		return nil, err
	}
	config := map[string]string{
		"rpc.laddr": quote("tcp://" + net.JoinHostPort(host, "26657")),
		"p2p.laddr": quote("tcp://" + net.JoinHostPort(host, "26656")),
		// Nodes on one machine tell each other where they are.
		"p2p.external-address":                   quote(net.JoinHostPort(host, "26656")),
		"p2p.persistent-peers":                   quote(strings.Join(l.peers(node), ",")),
		"instrumentation.prometheus":             "true",
		"instrumentation.prometheus-listen-addr": quote(net.JoinHostPort(host, "26660")),
	}
	maps.Copy(config, changes)
	if err := node.Configure(config); err != nil {
		return nil, err
	}
	if err := node.ConfigureApp(map[string]string{
		"api.address":      quote("tcp://" + net.JoinHostPort(host, "1317")),
		"grpc.address":     quote(net.JoinHostPort(host, "9090")),
		"grpc-web.address": quote(net.JoinHostPort(host, "9091")),
		// These two cannot be told an address; on one machine they would all be one.
		"evm.http_enabled": "false",
		"evm.ws_enabled":   "false",
	}); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Nodes = append(l.Nodes, node)
	return node, nil
}

func quote(text string) string { return strconv.Quote(text) }

// Configure changes config.toml. Values are written as they are in TOML.
func (n *Node) Configure(changes map[string]string) error {
	return edit(n.Home.Config("config.toml"), changes)
}

// ConfigureApp changes app.toml.
func (n *Node) ConfigureApp(changes map[string]string) error {
	return edit(n.Home.Config("app.toml"), changes)
}

// Start starts the node with a binary. Its output is added to that of earlier ones.
func (n *Node) Start(binary string, args ...string) (*Process, error) {
	command := exec.Command(binary, append([]string{"start", "--home", string(n.Home)}, args...)...) //nolint:noctx // it ends with its chain
	started, err := Spawn(command, n.log)
	if err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", n.Name, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.run = started
	return started, nil
}

// Start starts all nodes: the validators at once, each other node when those before it
// listen. A node that dials too early may never dial again: the engine draws the pause until
// its next attempt twice, to wake up and to see whether the pause is over, and goes back to
// sleep if the second is longer. Validators dial each other, so one of two gets through.
func (l *Local) Start(ctx context.Context, binary string) error {
	for i, node := range l.Nodes {
		if node.Mode != home.Validator {
			for _, peer := range l.Nodes[:i] {
				if err := peer.Process().listens(ctx); err != nil {
					return fmt.Errorf("%s does not listen: %w", peer.Name, err)
				}
			}
		}
		if _, err := node.Start(binary); err != nil {
			return err
		}
	}
	return nil
}

// Stop tells all nodes to stop and waits until they have. Those that have not when the
// context is done are named; Close kills them.
func (l *Local) Stop(ctx context.Context) error {
	var failed error
	for _, node := range l.Nodes {
		if running := node.Process(); running != nil {
			failed = errors.Join(failed, running.Signal(syscall.SIGTERM))
		}
	}
	for _, node := range l.Nodes {
		if running := node.Process(); running != nil {
			select {
			case <-running.Done():
			case <-ctx.Done():
				failed = errors.Join(failed, fmt.Errorf("%s did not stop", node.Name))
			}
		}
	}
	return failed
}

// Close kills what still runs and gives the addresses back. The directory stays.
func (l *Local) Close() error {
	var failed error
	for _, node := range l.Nodes {
		if running := node.Process(); running != nil {
			failed = errors.Join(failed, running.Signal(syscall.SIGKILL))
			<-running.Done()
		}
	}
	for _, guard := range l.guards {
		failed = errors.Join(failed, guard.Close())
	}
	l.guards = nil
	return failed
}

// hosts numbers the addresses of this process.
var hosts atomic.Uint32

// guardPort is held open on an address for as long as a node owns it.
const guardPort = "26600"

// loopback is an address that nobody else uses.
func loopback() (string, net.Listener, error) {
	for range 1 << 16 {
		number := hosts.Add(1) + uint32(os.Getpid())*31
		host := fmt.Sprintf("127.252.%d.%d", number>>8&0xff, number&0xff)
		guard, err := net.Listen("tcp", net.JoinHostPort(host, guardPort)) //nolint:noctx // it is never connected to
		if err == nil {
			return host, guard, nil
		}
	}
	return "", nil, errors.New("no free address in 127.252.0.0/16")
}
