package search

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/sei-operator/sei-operator/internal/sidecar/store"
)

// memory is a task store that outlives sidecars. At a transition that a test chooses the
// sidecar dies, before or after it.
type memory struct {
	mu          sync.Mutex
	tasks       map[uuid.UUID]store.Task
	checkpoints map[uuid.UUID]json.RawMessage
	last        uint64
	// fatal is how many transitions are left, and dies what happens then.
	fatal int
	after bool
	dies  func()
}

func newMemory() *memory {
	return &memory{tasks: map[uuid.UUID]store.Task{}, checkpoints: map[uuid.UUID]json.RawMessage{}}
}

// transition does it, unless the sidecar dies of it. The lock is held.
func (m *memory) transition(do func()) error {
	if m.fatal--; m.fatal != 0 {
		do()
		return nil
	}
	if m.after {
		do()
	}
	m.dies()
	return store.ErrUnavailable
}

// dieAt chooses the transition.
func (m *memory) dieAt(left int, after bool, dies func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fatal, m.after, m.dies = left, after, dies
}

func (m *memory) Get(id uuid.UUID) (store.Task, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if task, ok := m.tasks[id]; ok {
		return task, nil
	}
	return store.Task{}, store.ErrNotFound
}

func (m *memory) List(int) ([]store.Task, error) {
	return m.sorted(func(store.Task) bool { return true }), nil
}

func (m *memory) Unfinished() ([]store.Task, error) {
	return m.sorted(func(t store.Task) bool { return t.Status == store.Running }), nil
}

// waiting is how many tasks have not ended.
func (m *memory) waiting() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	waiting := 0
	for task := range maps.Values(m.tasks) {
		if task.Status == store.Running {
			waiting++
		}
	}
	return waiting
}

func (m *memory) sorted(is func(store.Task) bool) []store.Task {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []store.Task
	for task := range maps.Values(m.tasks) {
		if is(task) {
			found = append(found, task)
		}
	}
	slices.SortFunc(found, func(a, b store.Task) int { return cmp.Compare(a.Seq, b.Seq) })
	return found
}

func (m *memory) Put(task store.Task) (store.Task, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if task.Seq == 0 {
		m.last++
		task.Seq = m.last
	}
	return task, m.transition(func() {
		m.tasks[task.ID] = task
		if len(m.tasks) > 200 {
			m.forget()
		}
	})
}

// forget drops tasks that have ended, so that a long search stays quick. The lock is
// held.
func (m *memory) forget() {
	maps.DeleteFunc(m.tasks, func(_ uuid.UUID, t store.Task) bool { return t.Status != store.Running })
	maps.DeleteFunc(m.checkpoints, func(id uuid.UUID, _ json.RawMessage) bool { return m.tasks[id].Seq == 0 })
}

func (m *memory) Delete(id uuid.UUID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.tasks, id)
	return nil
}

func (m *memory) SaveCheckpoint(task store.Task, data json.RawMessage) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.transition(func() { m.checkpoints[task.ID] = data })
}

func (m *memory) LoadCheckpoint(id uuid.UUID, _ int) (json.RawMessage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if data, ok := m.checkpoints[id]; ok {
		return data, nil
	}
	return nil, store.ErrNotFound
}
