package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

func TestMain(m *testing.M) {
	if servesForABenchmark() {
		return
	}
	goleak.VerifyTestMain(m)
}

// patience is for what comes in milliseconds, on a machine that is busy.
const patience = time.Minute

var alpha = types.NamespacedName{Namespace: "sei", Name: "alpha"}

func target(node types.NamespacedName, address string) Target {
	return Target{Node: node, NodeUID: types.UID("uid-" + node.Name), PodUID: types.UID("pod-" + node.Name), Address: address}
}

// rig is a fleet whose wakes are noted.
type rig struct {
	*Fleet
	wakes chan types.NamespacedName
	end   func()
}

func newRig(tb testing.TB, transport *http.Transport, adapt ...func(*Options)) *rig {
	tb.Helper()
	r := &rig{wakes: make(chan types.NamespacedName, 10000)}
	options := Options{
		HTTPClient: &http.Client{Transport: transport},
		Wake:       func(node types.NamespacedName) { r.wakes <- node },
	}
	for _, change := range adapt {
		change(&options)
	}
	ctx, cancel := context.WithCancel(tb.Context())
	r.Fleet = New(ctx, options)
	r.end = func() {
		cancel()
		r.Wait()
	}
	return r
}

// woken returns how often somebody was woken since the last time.
func (r *rig) woken() (count int) {
	for {
		select {
		case <-r.wakes:
			count++
		default:
			return count
		}
	}
}

// until waits until the view of a node is as wanted, and looks only when it was
// woken: so a change that wakes nobody fails the test.
func (r *rig) until(tb testing.TB, node types.NamespacedName, what string, ok func(View) bool) View {
	tb.Helper()
	timeout := time.After(patience)
	for {
		if view := r.View(node); ok(view) {
			return view
		}
		select {
		case <-r.wakes:
		case <-timeout:
			tb.Fatalf("%s: waited for %s, the view is %+v", node, what, r.View(node))
		}
	}
}

func isConnected(v View) bool { return v.Connected }

// network connects by pipes in memory, so that a test with a clock of its own can
// use it.
type network struct {
	mu        sync.Mutex
	listeners map[string]*listener
}

func (n *network) transport() *http.Transport {
	transport := Transport()
	transport.DialContext = func(ctx context.Context, _, address string) (net.Conn, error) {
		n.mu.Lock()
		to := n.listeners[address]
		n.mu.Unlock()
		if to == nil {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		near, far := net.Pipe()
		select {
		case to.accepted <- far:
			return near, nil
		case <-to.closed:
			return nil, &net.OpError{Op: "dial", Err: fmt.Errorf("%s is closed", address)}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return transport
}

// serve answers at a host until the returned function is called.
func (n *network) serve(host string, handler http.Handler) (address string, end func()) {
	l := &listener{accepted: make(chan net.Conn), closed: make(chan struct{})}
	n.mu.Lock()
	if n.listeners == nil {
		n.listeners = map[string]*listener{}
	}
	n.listeners[host+":80"] = l
	n.mu.Unlock()
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Hour}
	go func() { _ = server.Serve(l) }()
	return "http://" + host, func() { _ = server.Close() }
}

type listener struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (*listener) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

// script is a sidecar that a test plays.
type script struct {
	mu      sync.Mutex
	status  api.Status
	reads   int
	streams int
	hangs   map[string]chan struct{} // path -> until when nothing is answered
	events  chan string
	broken  chan struct{} // ends the streams when it is closed
}

func newScript() *script {
	return &script{events: make(chan string), broken: make(chan struct{}), hangs: map[string]chan struct{}{}}
}

func (s *script) set(change func(*api.Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.status)
}

// hang makes a path answer nothing until the returned function is called.
func (s *script) hang(path string) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	until := make(chan struct{})
	s.hangs[path] = until
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(until)
		delete(s.hangs, path)
	}
}

// breakStreams ends the streams that are open.
func (s *script) breakStreams() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.broken)
	s.broken = make(chan struct{})
}

func (s *script) counts() (reads, streams int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads, s.streams
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	hanging, broken := s.hangs[r.URL.Path], s.broken
	switch r.URL.Path {
	case "/v0/status":
		s.reads++
	case "/v0/events":
		s.streams++
	}
	s.mu.Unlock()
	if hanging != nil {
		select {
		case <-hanging:
		case <-r.Context().Done():
			return
		}
	}
	switch r.URL.Path {
	case "/v0/status":
		s.mu.Lock()
		body, _ := json.Marshal(s.status)
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	case "/v0/events":
		s.stream(w, r, broken)
	default:
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "{}")
	}
}

func (s *script) stream(w http.ResponseWriter, r *http.Request, broken chan struct{}) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "event: reset\ndata: {}\n\n")
	beat := time.NewTicker(15 * time.Second)
	defer beat.Stop()
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case e := <-s.events:
			_, _ = fmt.Fprintf(w, "event: %s\ndata: {}\n\n", e)
		case <-beat.C:
			_, _ = io.WriteString(w, ":\n\n")
		case <-broken:
			return
		case <-r.Context().Done():
			return
		}
	}
}
