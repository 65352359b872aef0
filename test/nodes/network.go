package nodes

import (
	"encoding/json"
	"net"
	"net/http"
	"sync"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// gatedListener accepts connections over which nothing comes or goes while the node
// is wedged, as with a process that was stopped.
type gatedListener struct {
	net.Listener
	node *Node
}

func (l *gatedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &gatedConn{Conn: conn, node: l.node, closed: make(chan struct{})}, nil
}

type gatedConn struct {
	net.Conn
	node   *Node
	once   sync.Once
	closed chan struct{}
}

// Read passes on what came only when the gate is open, also if it came before.
func (c *gatedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.wait()
	return n, err
}

func (c *gatedConn) Write(p []byte) (int, error) {
	c.wait()
	return c.Conn.Write(p)
}

func (c *gatedConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

func (c *gatedConn) wait() {
	for gate := c.node.gate(); gate != nil; gate = c.node.gate() {
		select {
		case <-gate:
		case <-c.closed:
			return
		}
	}
}

// nobody is a listener to which nobody ever connects.
type nobody struct {
	once   sync.Once
	closed chan struct{}
}

func newNobody() *nobody { return &nobody{closed: make(chan struct{})} }

func (n *nobody) Accept() (net.Conn, error) {
	<-n.closed
	return nil, net.ErrClosed
}

func (n *nobody) Close() error {
	n.once.Do(func() { close(n.closed) })
	return nil
}

func (n *nobody) Addr() net.Addr { return &net.TCPAddr{} }

// refusal is an answer in place of all others.
type refusal struct {
	status int
	reason string
}

func (r *refusal) answer(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.status)
	_ = json.NewEncoder(w).Encode(api.Error{
		Error: "refused by the test", Reason: r.reason,
		Retryable: r.status >= http.StatusInternalServerError || r.status == http.StatusTooManyRequests,
	})
}
