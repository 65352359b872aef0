package fakeseid

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Control is the test's side: every fake seid with its environment reports here.
type Control struct {
	path          string
	seids         chan *Process
	grandchildren chan *Process
}

// Process is a fake seid that a test controls.
type Process struct {
	PID int
	// Args are its arguments, the program first.
	Args []string

	conn    net.Conn
	answers chan event
	signals chan string
	gone    chan struct{}
}

// NewControl listens for fake seids until the test ends. They end with it.
func NewControl(tb testing.TB) *Control {
	tb.Helper()
	//nolint:usetesting // the path of a unix socket has room for a hundred characters
	dir, err := os.MkdirTemp("", "fakeseid")
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	var config net.ListenConfig
	listener, err := config.Listen(tb.Context(), "unix", path)
	if err != nil {
		tb.Fatal(err)
	}
	c := &Control{path: path, seids: make(chan *Process, 64), grandchildren: make(chan *Process, 64)}
	var work sync.WaitGroup
	var conns sync.Map
	work.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Store(conn, nil)
			work.Go(func() { c.listen(conn) })
		}
	})
	tb.Cleanup(func() {
		_ = listener.Close()
		conns.Range(func(conn, _ any) bool { return conn.(net.Conn).Close() == nil || true })
		work.Wait()
		_ = os.RemoveAll(dir)
	})
	return c
}

// Env is the environment of a fake seid that follows these steps and then does
// what the test says.
func (c *Control) Env(steps ...Step) []string {
	return environment(roleSeid, c.path, steps)
}

// Next is the next fake seid that has carried out its script.
func (c *Control) Next(tb testing.TB) *Process {
	tb.Helper()
	return receive(tb, c.seids, "no seid started")
}

// Grandchild is the next process that a fake seid left behind.
func (c *Control) Grandchild(tb testing.TB) *Process {
	tb.Helper()
	return receive(tb, c.grandchildren, "no grandchild started")
}

func (c *Control) listen(conn net.Conn) {
	p := &Process{conn: conn, answers: make(chan event, 1), signals: make(chan string, 64), gone: make(chan struct{})}
	defer close(p.gone)
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			return
		}
		switch {
		case e.Role == roleSeid:
			p.PID, p.Args = e.PID, e.Args
			c.seids <- p
		case e.Role == roleGrandchild:
			p.PID = e.PID
			c.grandchildren <- p
		case e.Done:
			p.answers <- e
		default:
			p.signals <- e.Signal
		}
	}
}

// Do carries out steps, one after the other. A step that ends the process is
// done when the process is gone.
func (p *Process) Do(tb testing.TB, steps ...Step) {
	tb.Helper()
	for _, step := range steps {
		p.do(tb, step)
	}
}

// Open opens an endpoint and tells its address.
func (p *Process) Open(tb testing.TB, endpoint Endpoint, address string) string {
	tb.Helper()
	return p.do(tb, Open(endpoint, address))
}

func (p *Process) do(tb testing.TB, step Step) string {
	tb.Helper()
	if err := json.NewEncoder(p.conn).Encode(step); err != nil {
		tb.Fatalf("seid %d is gone, it cannot %s: %v", p.PID, step.Do, err)
	}
	select {
	case answer := <-p.answers:
		if answer.Error != "" {
			tb.Fatalf("seid %d: %s: %s", p.PID, step.Do, answer.Error)
		}
		return answer.Address
	case <-p.gone:
		return ""
	case <-time.After(patience):
		tb.Fatalf("seid %d did not %s", p.PID, step.Do)
		return ""
	}
}

// Signal is the next signal that the process handled, like "SIGTERM".
func (p *Process) Signal(tb testing.TB) string {
	tb.Helper()
	return receive(tb, p.signals, "no signal came")
}

// AwaitExit returns when the process is gone.
func (p *Process) AwaitExit(tb testing.TB) {
	tb.Helper()
	receive(tb, p.gone, "seid did not end")
}

// Gone is closed when the process is.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// patience ends a test that would otherwise hang; no test waits for it to pass.
const patience = time.Minute

func receive[T any](tb testing.TB, from <-chan T, otherwise string) T {
	tb.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(patience):
		tb.Fatal(otherwise)
		panic("unreachable")
	}
}

// hosts numbers the addresses of this process's tests.
var hosts atomic.Uint32

// guardPort is held open on an address for as long as a test owns it.
const guardPort = "26600"

// Host gives the test a loopback address of its own, so that many nodes keep
// their usual ports side by side.
func Host(tb testing.TB) string {
	tb.Helper()
	var config net.ListenConfig
	for range 1 << 16 {
		number := hosts.Add(1) + uint32(os.Getpid())*31
		host := fmt.Sprintf("127.253.%d.%d", number>>8&0xff, number&0xff)
		guard, err := config.Listen(tb.Context(), "tcp", net.JoinHostPort(host, guardPort))
		if err != nil {
			continue
		}
		tb.Cleanup(func() { _ = guard.Close() })
		return host
	}
	tb.Fatal("no free address in 127.253.0.0/16")
	return ""
}

// Addresses are the endpoints of a node on one host, at their usual ports.
func Addresses(host string) map[Endpoint]string {
	addresses := map[Endpoint]string{}
	for _, endpoint := range []Endpoint{RPC, P2P, Metrics, REST, GRPC, GRPCWeb} {
		addresses[endpoint] = net.JoinHostPort(host, endpoint.Port())
	}
	return addresses
}
