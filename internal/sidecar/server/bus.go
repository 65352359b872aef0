package server

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
)

// defaultRing is how many events a reader may be behind.
const defaultRing = 1024

// Bus keeps the last events for those who read them. Publishing never waits for a
// reader: readers keep a place in the ring, and one that is overtaken has lost it.
type Bus struct {
	boot string

	mu      sync.Mutex
	ring    []event // the event with number n is at n % len
	last    uint64  // number of the newest; they count from 1
	changed chan struct{}
}

type event struct {
	kind api.EventKind
	data []byte
}

// NewBus makes a bus that remembers so many events; 0 is a good number of them.
func NewBus(ring int) *Bus {
	if ring <= 0 {
		ring = defaultRing
	}
	return &Bus{
		// Numbers start again with every process, so they are told apart by it.
		boot:    strings.ReplaceAll(uuid.NewString(), "-", ""),
		ring:    make([]event, ring),
		changed: make(chan struct{}),
	}
}

// Task publishes a change of a task; it is what an engine notifies.
func (b *Bus) Task(c engine.Change) {
	b.publish(api.EventTask, encode(api.TaskEvent{
		ID: c.Task.ID, Type: c.Task.Type, Status: api.TaskStatus(c.Task.Status), Run: c.Task.Run,
		Reason: c.Task.Reason, Deleted: c.Deleted,
	}))
}

func (b *Bus) publish(kind api.EventKind, data []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	b.ring[b.last%uint64(len(b.ring))] = event{kind: kind, data: data}
	close(b.changed)
	b.changed = make(chan struct{})
}

// resume finds the place of a reader. Where its last id says nothing about this
// bus, or the events behind it are gone, it is told to begin at the newest, afresh.
func (b *Bus) resume(lastID string) (place uint64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	boot, number, found := strings.Cut(lastID, "-")
	place, err := strconv.ParseUint(number, 10, 64)
	if !found || err != nil || boot != b.boot || place > b.last || place < b.oldest() {
		return b.last, false
	}
	return place, true
}

// oldest is the lowest place from which nothing is missed.
func (b *Bus) oldest() uint64 {
	return b.last - min(b.last, uint64(len(b.ring)))
}

// after returns the events behind a place, and a channel that is closed when there
// are more. A reader that was overtaken gets false.
func (b *Bus) after(place uint64) ([]event, <-chan struct{}, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if place < b.oldest() {
		return nil, nil, false
	}
	events := make([]event, 0, b.last-place)
	for n := place + 1; n <= b.last; n++ {
		events = append(events, b.ring[n%uint64(len(b.ring))])
	}
	return events, b.changed, true
}

func (b *Bus) id(place uint64) string {
	return fmt.Sprintf("%s-%d", b.boot, place)
}

// encode makes JSON of one of our own types, which always can be.
func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}
