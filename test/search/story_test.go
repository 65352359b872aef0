package search

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"time"
)

// kept is how much of what happened is kept.
const kept = 40

// story is the last of what happened, for whoever has to understand a violation.
type story struct {
	mu    sync.Mutex
	lines []string
}

func (s *story) add(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lines) == kept {
		s.lines = append(s.lines[:0], s.lines[1:]...)
	}
	s.lines = append(s.lines, time.Now().Format("15:04:05.000000 ")+fmt.Sprintf(format, args...))
}

func (s *story) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

// listen notes the requests that arrive at a container.
func (c *container) listen(edit func([]byte) []byte) func([]byte) []byte {
	return func(piece []byte) []byte {
		if edit != nil {
			piece = edit(piece)
		}
		if bytes.HasPrefix(piece, []byte("POST ")) {
			line, _, _ := bytes.Cut(piece, []byte(" HTTP"))
			_, body, _ := bytes.Cut(piece, []byte("\r\n\r\n"))
			c.story.add("supervisor %d: %s %s", c.number, line, bytes.TrimSpace(body))
		}
		return piece
	}
}
