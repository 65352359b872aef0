package nodes

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	"github.com/sei-operator/sei-operator/internal/sidecar/store"
)

// memory is a store of tasks that lives as long as the volume it stands for. Hundreds
// of real ones would keep the disk busy and prove nothing more.
type memory struct {
	mu          sync.Mutex
	tasks       map[uuid.UUID]store.Task
	checkpoints map[uuid.UUID]savedCheckpoint
	last        uint64
}

type savedCheckpoint struct {
	run  int
	data json.RawMessage
}

var _ engine.Store = (*memory)(nil)

func newMemory() *memory {
	return &memory{tasks: map[uuid.UUID]store.Task{}, checkpoints: map[uuid.UUID]savedCheckpoint{}}
}

func (m *memory) Get(id uuid.UUID) (store.Task, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, ok := m.tasks[id]
	if !ok {
		return store.Task{}, store.ErrNotFound
	}
	return t, nil
}

func (m *memory) List(limit int) ([]store.Task, error) {
	found := m.inOrder()
	slices.Reverse(found)
	return found[:min(limit, len(found))], nil
}

func (m *memory) Unfinished() ([]store.Task, error) {
	return slices.DeleteFunc(m.inOrder(), func(t store.Task) bool { return t.Status != store.Running }), nil
}

func (m *memory) inOrder() []store.Task {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.tasks), func(a, b store.Task) int { return cmp.Compare(a.Seq, b.Seq) })
}

func (m *memory) Put(t store.Task) (store.Task, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.Seq == 0 {
		t.Seq = m.place()
	}
	if old := m.tasks[t.ID]; old.Run != t.Run || t.Status != store.Running {
		delete(m.checkpoints, t.ID)
	}
	m.tasks[t.ID] = t
	return t, nil
}

// next is a place in the order for what is asked of the node beside its tasks.
func (m *memory) next() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.place()
}

func (m *memory) place() uint64 {
	m.last++
	return m.last
}

func (m *memory) Delete(id uuid.UUID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.tasks[id]; !ok {
		return store.ErrNotFound
	}
	delete(m.tasks, id)
	delete(m.checkpoints, id)
	return nil
}

func (m *memory) SaveCheckpoint(t store.Task, data json.RawMessage) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.checkpoints[t.ID] = savedCheckpoint{run: t.Run, data: data}
	return nil
}

func (m *memory) LoadCheckpoint(id uuid.UUID, run int) (json.RawMessage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	saved, ok := m.checkpoints[id]
	if !ok || saved.run != run {
		return nil, store.ErrNotFound
	}
	return saved.data, nil
}
