package store

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Status is where a task is in its life.
type Status string

// A task runs, or waits for its turn, until it has ended one way or the other.
const (
	Running   Status = "running"
	Completed Status = "completed"
	Failed    Status = "failed"
)

// Task is one task and what became of it. Params and Result are never decoded, so
// numbers of any size stay exact.
type Task struct {
	ID          uuid.UUID       `json:"id"`
	Type        string          `json:"type"`
	Status      Status          `json:"status"`
	Run         int             `json:"run"`
	Params      json.RawMessage `json:"params,omitempty"`
	Result      json.RawMessage `json:"result,omitempty"`
	Error       string          `json:"error,omitempty"`
	Reason      string          `json:"reason,omitempty"`
	Retryable   bool            `json:"retryable,omitempty"`
	SubmittedAt time.Time       `json:"submittedAt"`
	StartedAt   time.Time       `json:"startedAt,omitzero"`
	CompletedAt time.Time       `json:"completedAt,omitzero"`
	Deadline    time.Time       `json:"deadline,omitzero"`
	// Seq is the place in the order of submission; Put gives one to a task that has
	// none.
	Seq uint64 `json:"seq"`
}

// maxListBytes bounds a list, however large the tasks in it are.
const maxListBytes = 8 << 20

// collectEvery is how many tasks end before old ones are looked for.
const collectEvery = 100

// Get returns a task, or ErrNotFound.
func (s *Store) Get(id uuid.UUID) (Task, error) {
	var r row
	err := s.call(func() (err error) {
		r, err = s.readRow(id)
		return err
	})
	return r.Task, err
}

// List returns the newest tasks, newest first: at most limit, and fewer when they
// are very large.
func (s *Store) List(limit int) ([]Task, error) {
	return s.readAll(func() (chosen []uuid.UUID) {
		bytesLeft := int64(maxListBytes)
		for _, id := range slices.Backward(s.inOrder()) {
			bytesLeft -= s.index[id].size
			if len(chosen) >= limit || bytesLeft < 0 && len(chosen) > 0 {
				break
			}
			chosen = append(chosen, id)
		}
		return chosen
	})
}

// Unfinished returns the tasks that have not ended, in the order of submission.
func (s *Store) Unfinished() ([]Task, error) {
	return s.readAll(func() []uuid.UUID {
		return slices.DeleteFunc(s.inOrder(), func(id uuid.UUID) bool { return s.index[id].status != Running })
	})
}

// inOrder returns the ids of all tasks in the order of submission.
func (s *Store) inOrder() []uuid.UUID {
	return slices.SortedFunc(maps.Keys(s.index), func(a, b uuid.UUID) int { return cmp.Compare(s.index[a].seq, s.index[b].seq) })
}

// readAll returns the tasks that are chosen, without those whose files turn out to be
// damaged.
func (s *Store) readAll(choose func() []uuid.UUID) ([]Task, error) {
	found := []Task{}
	err := s.call(func() error {
		for _, id := range choose() {
			r, err := s.readRow(id)
			if errors.Is(err, ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			found = append(found, r.Task)
		}
		return nil
	})
	return found, err
}

// Put writes the task as it is now and returns it with its place in the order. A
// task without a place gets the last one. The checkpoint of a run goes with the run.
func (s *Store) Put(t Task) (Task, error) {
	err := s.call(func() error {
		next := row{}
		if t.Status == Running {
			old, err := s.readRow(t.ID)
			if err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
			if t.Run == old.Task.Run {
				next.Checkpoint = old.Checkpoint
			}
		}
		if err := s.place(&t); err != nil {
			return err
		}
		next.Task = t
		if err := s.writeRow(next); err != nil || t.Status == Running {
			return err
		}
		if s.finished++; s.finished >= collectEvery {
			s.collect()
		}
		return nil
	})
	return t, err
}

// Delete forgets a task, or returns ErrNotFound.
func (s *Store) Delete(id uuid.UUID) error {
	return s.call(func() error {
		if _, ok := s.index[id]; !ok {
			return ErrNotFound
		}
		if err := s.opts.writer.Remove(s.path(rowName(id))); err != nil {
			s.loaded = false // it may be gone all the same
			return err
		}
		delete(s.index, id)
		return nil
	})
}

// SaveCheckpoint makes durable how far a run has come. It writes the task too if
// the store has lost it, which happens when a damaged file was moved aside.
func (s *Store) SaveCheckpoint(t Task, data json.RawMessage) error {
	return s.call(func() error {
		r, err := s.readRow(t.ID)
		if errors.Is(err, ErrNotFound) {
			err = s.place(&t)
			r = row{Task: t}
		}
		if err != nil {
			return err
		}
		r.Checkpoint = &checkpoint{Run: t.Run, Data: data}
		return s.writeRow(r)
	})
}

// LoadCheckpoint returns how far this run has come, or ErrNotFound.
func (s *Store) LoadCheckpoint(id uuid.UUID, run int) (json.RawMessage, error) {
	var data json.RawMessage
	err := s.call(func() error {
		r, err := s.readRow(id)
		if err != nil {
			return err
		}
		if r.Checkpoint == nil || r.Checkpoint.Run != run {
			return ErrNotFound
		}
		data = r.Checkpoint.Data
		return nil
	})
	return data, err
}

// place gives a task its place in the order. One that was lost with its file keeps
// its place, unless another has taken it. The number rises also when the task cannot
// be written: a write that failed may have happened.
func (s *Store) place(t *Task) error {
	if t.Seq == 0 || s.taken(*t) {
		s.last = max(s.last, s.after.Load()) + 1
		t.Seq = s.last
	}
	s.last = max(s.last, t.Seq)
	return s.reserve()
}

// taken tells whether another task has the place of this one.
func (s *Store) taken(t Task) bool {
	for id, e := range s.index {
		if e.seq == t.Seq && id != t.ID {
			return true
		}
	}
	return false
}

// collect forgets finished tasks that are too many, too old or too large. What cannot
// be removed, or comes back after a crash, is collected another time.
func (s *Store) collect() {
	s.finished = 0
	oldest := s.opts.Clock.Now().Add(-s.opts.MaxAge)
	kept, size := 0, int64(0)
	for _, id := range slices.Backward(s.inOrder()) {
		e := s.index[id]
		if e.status == Running {
			continue
		}
		kept++
		size += e.size
		if kept <= s.opts.Keep && size <= s.opts.MaxBytes && !e.completedAt.Before(oldest) {
			continue
		}
		if err := os.Remove(s.path(rowName(id))); err != nil {
			s.opts.Log.Error("An old task cannot be removed", "task", id, "error", err)
			continue
		}
		delete(s.index, id)
	}
}
