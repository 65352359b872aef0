package server

import (
	"fmt"
	"sync"
)

// How many may read events at once, and how many of them in one name. The operator reads
// with one stream, and with a few for a moment when it is replaced: nobody may keep it
// from that by reading too much.
const (
	maxStreams      = 32
	maxStreamsOfOne = 8
)

// readers counts who reads events.
type readers struct {
	mu  sync.Mutex
	all int
	of  map[string]int // by caller, where one is known
}

// enter lets a caller in, or says why not.
func (r *readers) enter(caller string) (full string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.all == maxStreams:
		return fmt.Sprintf("there are %d readers of events already", maxStreams)
	case caller != "" && r.of[caller] == maxStreamsOfOne:
		return fmt.Sprintf("%s reads events %d times already", caller, maxStreamsOfOne)
	}
	if r.of == nil {
		r.of = map[string]int{}
	}
	r.all++
	r.of[caller]++
	return ""
}

func (r *readers) leave(caller string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all--
	if r.of[caller]--; r.of[caller] == 0 {
		delete(r.of, caller)
	}
}
