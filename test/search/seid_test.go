package search

import (
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
)

// node is a seid in memory: it takes a while to come up, has its signal handler only
// then, closes slowly, and has no handler any more after the first signal.
type node struct {
	pid     int
	answers time.Time
	closing time.Duration
	ended   chan struct{}

	mu        sync.Mutex
	signalled bool
	over      bool
	code      int
	signal    string
}

func (n *node) PID() int { return n.pid }

func (n *node) Signal(sig syscall.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case sig == syscall.SIGKILL:
		n.end(128+int(sig), "SIGKILL")
	case n.signalled || time.Now().Before(n.answers):
		n.end(128+int(sig), "SIGTERM")
	default:
		n.signalled = true
		time.AfterFunc(n.closing, func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.end(0, "")
		})
	}
}

// end is the end of the process. The lock is held.
func (n *node) end(code int, signal string) {
	if !n.over {
		n.over, n.code, n.signal = true, code, signal
		close(n.ended)
	}
}

func (n *node) lives() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.over
}

func (n *node) Wait() (code int, signal string) {
	<-n.ended
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.code, n.signal
}

func (*node) Drain(<-chan time.Time) {}

// container is one life of a supervisor. When it is killed, all in its container dies.
type container struct {
	*world
	number int
	socket *socket

	mu     sync.Mutex
	killed bool
	nodes  []*node
}

var errKilled = errors.New("this supervisor is dead")

// Launch starts a seid, unless the supervisor was killed: what a dead process would have
// done next does not happen.
func (c *container) Launch([]string, func(seid.OutputFinding)) (supervisor.Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.killed {
		return nil, errKilled
	}
	n := c.newNode()
	c.nodes = append(c.nodes, n)
	return n, nil
}

// kill ends seid; with all also the supervisor.
func (c *container) kill(all bool) {
	c.mu.Lock()
	c.killed = c.killed || all
	nodes := c.nodes
	c.mu.Unlock()
	if all {
		c.socket.cut()
	}
	for _, n := range nodes {
		n.Signal(syscall.SIGKILL)
	}
}
