package search

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"
)

// wire is one end of a connection in memory. What is written is under way for a while,
// also when the writer is gone by then, as with a socket. All that waits waits for a
// channel or a timer, so the clock of the bubble moves on.
type wire struct {
	in, out net.Conn
	random  *rand.Rand
	// edit changes what is under way; nil for nothing.
	edit func([]byte) []byte

	mu     sync.Mutex
	queue  [][]byte
	closed bool
	// asks: it carries a request to do something.
	asks bool
	wake chan struct{}
}

// connect makes a connection.
func connect(random *rand.Rand, edit func([]byte) []byte) (caller, called *wire) {
	callerIn, calledOut := net.Pipe()
	calledIn, callerOut := net.Pipe()
	caller = newWire(callerIn, callerOut, random, edit)
	called = newWire(calledIn, calledOut, random, nil)
	return caller, called
}

func newWire(in, out net.Conn, random *rand.Rand, edit func([]byte) []byte) *wire {
	w := &wire{in: in, out: out, random: rand.New(rand.NewPCG(random.Uint64(), 0)), edit: edit, wake: make(chan struct{}, 1)}
	go w.carry()
	return w
}

// carry delivers what was written, each piece after its time.
func (w *wire) carry() {
	defer w.out.Close()
	for {
		w.mu.Lock()
		var next []byte
		closed := w.closed
		if len(w.queue) > 0 {
			next, w.queue, closed = w.queue[0], w.queue[1:], false
		}
		w.mu.Unlock()
		switch {
		case next != nil:
			pass(delay(w.random))
			if w.edit != nil {
				next = w.edit(next)
			}
			if _, err := w.out.Write(next); err != nil {
				return
			}
		case closed:
			pass(delay(w.random))
			return
		default:
			<-w.wake
		}
	}
}

// delay is how long something is under way: mostly next to nothing, at times seconds.
func delay(random *rand.Rand) time.Duration {
	switch random.IntN(20) {
	case 0:
		return time.Duration(random.Int64N(int64(9 * time.Second)))
	case 1, 2:
		return time.Duration(random.Int64N(int64(200 * time.Millisecond)))
	default:
		return time.Duration(random.Int64N(int64(2 * time.Millisecond)))
	}
}

func (w *wire) push(piece []byte, closed bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return net.ErrClosed
	}
	w.closed, w.asks = closed, w.asks || bytes.HasPrefix(piece, []byte("POST "))
	if len(piece) > 0 {
		w.queue = append(w.queue, append([]byte(nil), piece...))
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return nil
}

// is tells whether it is open, and whether it carries a request to do something.
func (w *wire) is() (open, asks bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.closed, w.asks
}

func (w *wire) Write(piece []byte) (int, error) { return len(piece), w.push(piece, false) }

func (w *wire) Read(into []byte) (int, error) { return w.in.Read(into) }

func (w *wire) Close() error { return errors.Join(w.in.Close(), w.push(nil, true)) }

func (w *wire) LocalAddr() net.Addr                { return w.in.LocalAddr() }
func (w *wire) RemoteAddr() net.Addr               { return w.in.RemoteAddr() }
func (w *wire) SetDeadline(t time.Time) error      { return w.in.SetReadDeadline(t) }
func (w *wire) SetReadDeadline(t time.Time) error  { return w.in.SetReadDeadline(t) }
func (w *wire) SetWriteDeadline(_ time.Time) error { return nil }

// socket is what a supervisor listens at.
type socket struct {
	mu       sync.Mutex
	waiting  []*wire
	accepted []*wire
	closed   bool
	wake     chan struct{}
	over     chan struct{}
}

func newSocket() *socket { return &socket{wake: make(chan struct{}, 1), over: make(chan struct{})} }

// arrive is a connection, which is accepted when the supervisor comes to it.
func (s *socket) arrive(called *wire, after time.Duration) {
	time.AfterFunc(after, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closed {
			_ = called.Close()
			return
		}
		s.waiting = append(s.waiting, called)
		select {
		case s.wake <- struct{}{}:
		default:
		}
	})
}

func (s *socket) Accept() (net.Conn, error) {
	for {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return nil, net.ErrClosed
		}
		if len(s.waiting) > 0 {
			next := s.waiting[0]
			s.waiting = s.waiting[1:]
			s.accepted = append(s.accepted, next)
			s.mu.Unlock()
			return next, nil
		}
		s.mu.Unlock()
		select {
		case <-s.wake:
		case <-s.over:
		}
	}
}

func (s *socket) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.over)
		for _, one := range s.waiting {
			_ = one.Close()
		}
	}
	return nil
}

// cut ends all connections, as the death of a process does.
func (s *socket) cut() {
	_ = s.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.accepted {
		_ = one.Close()
	}
}

func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

// refused is what a caller gets where nobody listens.
var refused = syscall.ECONNREFUSED

const status = `{"jsonrpc":"2.0","id":-1,"result":{"node_info":{"id":"aa","network":"sample-1"},"sync_info":{"latest_block_height":"7","latest_block_time":"2026-01-01T00:00:00Z","catching_up":false}}}`

// rpc is a request to the RPC of the seid that lives.
func (w *world) rpc(request *http.Request) (*http.Response, error) {
	if !w.answers() {
		return nil, refused
	}
	response := &http.Response{StatusCode: http.StatusNotFound, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody, Request: request}
	if request.URL.Path == "/status" {
		response.StatusCode, response.Body, response.ContentLength = http.StatusOK, io.NopCloser(strings.NewReader(status)), int64(len(status))
	}
	return response, nil
}

// dialSeid is how the supervisor probes seid.
func (w *world) dialSeid(_ context.Context, _, _ string) (net.Conn, error) {
	if !w.answers() {
		return nil, refused
	}
	ours, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		request, err := http.ReadRequest(bufio.NewReader(theirs))
		if err != nil {
			return
		}
		if response, err := w.rpc(request); err == nil { //nolint:bodyclose // it is in memory, and written out here
			response.Close = true
			_ = response.Write(theirs)
		}
	}()
	return ours, nil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }
