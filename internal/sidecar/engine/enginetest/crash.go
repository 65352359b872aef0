// Package enginetest stops an engine at every transition that survives a crash.
package enginetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	"github.com/sei-operator/sei-operator/internal/sidecar/store"
)

// ErrCrashed is what a store says after its process has died.
var ErrCrashed = fmt.Errorf("%w: the process has died", store.ErrUnavailable)

// Crash is a store whose process dies at its nth transition: before it is durable,
// or after it is and before anybody knows. From then on nothing is read or written,
// and what the handler does next does not count: it has to stop when a checkpoint
// fails.
type Crash struct {
	engine.Store
	at    int
	after bool

	mu    sync.Mutex
	count int
	died  chan struct{}
}

// NewCrash makes a store that dies at the nth transition, counted from 1. With 0 it
// never does.
func NewCrash(s engine.Store, at int, after bool) *Crash {
	return &Crash{Store: s, at: at, after: after, died: make(chan struct{})}
}

// Died is closed when the process has died.
func (c *Crash) Died() <-chan struct{} { return c.died }

// Transitions returns how many there were.
func (c *Crash) Transitions() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

func (c *Crash) dead() bool {
	select {
	case <-c.died:
		return true
	default:
		return false
	}
}

func (c *Crash) transition(fn func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead() {
		return ErrCrashed
	}
	c.count++
	if c.count != c.at {
		return fn()
	}
	var err error
	if c.after {
		err = fn()
	}
	close(c.died)
	return errors.Join(ErrCrashed, err)
}

// Get reads, while the process lives.
func (c *Crash) Get(id uuid.UUID) (store.Task, error) {
	if c.dead() {
		return store.Task{}, ErrCrashed
	}
	return c.Store.Get(id)
}

// Unfinished reads, while the process lives.
func (c *Crash) Unfinished() ([]store.Task, error) {
	if c.dead() {
		return nil, ErrCrashed
	}
	return c.Store.Unfinished()
}

// LoadCheckpoint reads, while the process lives.
func (c *Crash) LoadCheckpoint(id uuid.UUID, run int) (json.RawMessage, error) {
	if c.dead() {
		return nil, ErrCrashed
	}
	return c.Store.LoadCheckpoint(id, run)
}

// Put is a transition.
func (c *Crash) Put(t store.Task) (kept store.Task, err error) {
	err = c.transition(func() (err error) {
		kept, err = c.Store.Put(t)
		return err
	})
	return kept, err
}

// Delete is a transition.
func (c *Crash) Delete(id uuid.UUID) error {
	return c.transition(func() error { return c.Store.Delete(id) })
}

// SaveCheckpoint is a transition.
func (c *Crash) SaveCheckpoint(t store.Task, data json.RawMessage) error {
	return c.transition(func() error { return c.Store.SaveCheckpoint(t, data) })
}
