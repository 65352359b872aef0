package supervisor

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sei-operator/sei-operator/internal/seid"
)

// drainLimit bounds what is read after seid's end. A pipe holds less.
const drainLimit = 2 << 20

// stream carries one of seid's outputs: it is watched, then passed on as it is.
type stream struct {
	from  *os.File
	to    io.Writer
	watch *seid.OutputWatcher
	done  chan struct{}
}

// newStream makes the pipe and returns the end that seid writes to.
func newStream(to io.Writer, watch *seid.OutputWatcher) (*stream, *os.File, error) {
	from, writer, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	return &stream{from: from, to: to, watch: watch, done: make(chan struct{})}, writer, nil
}

// carry copies until seid, and everybody who inherited the pipe from it, closed
// it, or until endStreams.
func (s *stream) carry() {
	defer close(s.done)
	defer s.from.Close() //nolint:errcheck // it was only read
	defer s.watch.Flush()
	buffer := make([]byte, 32<<10)
	for {
		n, err := s.from.Read(buffer)
		s.pass(buffer[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			s.drain(buffer)
			return
		}
		if err != nil {
			return
		}
	}
}

// pass watches first: a reader of our output that stands still must not hide what
// seid said.
func (s *stream) pass(text []byte) {
	if len(text) == 0 {
		return
	}
	_, _ = s.watch.Write(text)
	_, _ = s.to.Write(text) // Nobody to tell when our own output is closed.
}

// drain reads what is in the pipe, and waits for nothing. seid has ended, so all
// that it wrote is there; a process it left behind may keep the pipe open for
// ever.
func (s *stream) drain(buffer []byte) {
	if s.from.SetReadDeadline(time.Time{}) != nil {
		return
	}
	conn, err := s.from.SyscallConn()
	if err != nil {
		return
	}
	for total := 0; total < drainLimit; {
		n := 0
		err := conn.Read(func(fd uintptr) bool {
			n, _ = unix.Read(int(fd), buffer)
			return true // Nothing there is an answer too.
		})
		if err != nil || n <= 0 {
			return
		}
		s.pass(buffer[:n])
		total += n
	}
}

// endStreams ends both streams after seid's end: when all that it wrote has been
// passed on, or after the patience when our own output takes nothing.
func endStreams(streams []*stream, patience <-chan time.Time) {
	for _, s := range streams {
		_ = s.from.SetReadDeadline(time.Unix(1, 0))
	}
	for _, s := range streams {
		select {
		case <-s.done:
		case <-patience:
			return
		}
	}
}
