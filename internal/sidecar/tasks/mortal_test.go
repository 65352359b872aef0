package tasks

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	"github.com/sei-operator/sei-operator/internal/sidecar/store"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
)

var errDead = fmt.Errorf("%w: the sidecar has died", store.ErrUnavailable)

// mortal is a sidecar that dies at the nth point of its life: before or after
// something that outlives it. The dead do and learn nothing.
type mortal struct {
	at int

	mu     sync.Mutex
	points []string
	died   chan struct{}
}

func newMortal(at int) *mortal { return &mortal{at: at, died: make(chan struct{})} }

func (m *mortal) dead() bool {
	select {
	case <-m.died:
		return true
	default:
		return false
	}
}

func (m *mortal) point(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead() {
		return errDead
	}
	m.points = append(m.points, name)
	if len(m.points) == m.at {
		close(m.died)
		return errDead
	}
	return nil
}

func (m *mortal) seen() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.points)
}

// around is a transition with a point on either side.
func (m *mortal) around(name string, fn func() error) error {
	if err := m.point("before " + name); err != nil {
		return err
	}
	if err := fn(); err != nil {
		return err
	}
	return m.point("after " + name)
}

// mortalStore is the store of a sidecar that may die.
type mortalStore struct {
	engine.Store
	m *mortal
}

func (s *mortalStore) alive() error {
	if s.m.dead() {
		return errDead
	}
	return nil
}

func (s *mortalStore) Get(id uuid.UUID) (store.Task, error) {
	if err := s.alive(); err != nil {
		return store.Task{}, err
	}
	return s.Store.Get(id)
}

func (s *mortalStore) Put(t store.Task) (kept store.Task, err error) {
	err = s.m.around("put "+string(t.Status), func() (err error) {
		kept, err = s.Store.Put(t)
		return err
	})
	return kept, err
}

func (s *mortalStore) SaveCheckpoint(t store.Task, data json.RawMessage) error {
	return s.m.around("checkpoint", func() error { return s.Store.SaveCheckpoint(t, data) })
}

func (s *mortalStore) LoadCheckpoint(id uuid.UUID, run int) (json.RawMessage, error) {
	if err := s.alive(); err != nil {
		return nil, err
	}
	return s.Store.LoadCheckpoint(id, run)
}

// mortalSupervisor is the supervisor as such a sidecar reaches it.
type mortalSupervisor struct {
	*supervisor.Client
	m *mortal
}

func (s *mortalSupervisor) State(ctx context.Context) (supervisor.State, error) {
	if s.m.dead() {
		return supervisor.State{}, errDead
	}
	return s.Client.State(ctx)
}

func (s *mortalSupervisor) Watch(ctx context.Context) iter.Seq2[supervisor.State, error] {
	return s.Client.Watch(ctx)
}

func (s *mortalSupervisor) request(name string, fn func() (supervisor.State, error)) (state supervisor.State, err error) {
	err = s.m.around(name, func() (err error) {
		state, err = fn()
		return err
	})
	return state, err
}

func (s *mortalSupervisor) Start(ctx context.Context, r supervisor.StartRequest) (supervisor.State, error) {
	return s.request("start", func() (supervisor.State, error) { return s.Client.Start(ctx, r) })
}

func (s *mortalSupervisor) Stop(ctx context.Context, r supervisor.StopRequest) (supervisor.State, error) {
	return s.request("stop", func() (supervisor.State, error) { return s.Client.Stop(ctx, r) })
}

func (s *mortalSupervisor) Restart(ctx context.Context, r supervisor.RestartRequest) (supervisor.State, error) {
	return s.request("restart", func() (supervisor.State, error) { return s.Client.Restart(ctx, r) })
}
