package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/google/uuid"
	bolt "go.etcd.io/bbolt"
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

type checkpoint struct {
	Run  int             `json:"run"`
	Data json.RawMessage `json:"data"`
}

// tasks: id -> Task. order: seq -> id. checkpoints: id -> checkpoint.
var (
	tasksBucket       = []byte("tasks")
	orderBucket       = []byte("order")
	checkpointsBucket = []byte("checkpoints")
)

// maxListBytes bounds a list, however large the tasks in it are.
const maxListBytes = 8 << 20

// collectEvery is how many tasks end before old ones are looked for.
const collectEvery = 100

// Get returns a task, or ErrNotFound.
func (s *Store) Get(id uuid.UUID) (Task, error) {
	var t Task
	err := s.view(func(tx *bolt.Tx) error { return getTask(tx, id[:], &t) })
	return t, err
}

// List returns the newest tasks, newest first: at most limit, and fewer when they
// are very large.
func (s *Store) List(limit int) ([]Task, error) {
	found := []Task{}
	err := s.view(func(tx *bolt.Tx) error {
		found = found[:0]
		bytesLeft := maxListBytes
		cursor := tx.Bucket(orderBucket).Cursor()
		for seq, id := cursor.Last(); seq != nil && len(found) < limit; seq, id = cursor.Prev() {
			var t Task
			if err := getTask(tx, id, &t); err != nil {
				return err
			}
			if bytesLeft -= len(t.Params) + len(t.Result); bytesLeft < 0 && len(found) > 0 {
				return nil
			}
			found = append(found, t)
		}
		return nil
	})
	return found, err
}

// Unfinished returns the tasks that have not ended, in the order of submission.
func (s *Store) Unfinished() ([]Task, error) {
	var found []Task
	err := s.view(func(tx *bolt.Tx) error {
		found = found[:0]
		return tx.Bucket(orderBucket).ForEach(func(_, id []byte) error {
			var t Task
			if err := getTask(tx, id, &t); err != nil {
				return err
			}
			if t.Status == Running {
				found = append(found, t)
			}
			return nil
		})
	})
	return found, err
}

// Put writes the task as it is now and returns it with its place in the order. A
// task without a place gets the last one. The checkpoint of a run goes with the run.
func (s *Store) Put(t Task) (Task, error) {
	err := s.update(func(tx *bolt.Tx) error { return s.putTask(tx, &t) })
	return t, err
}

// Delete forgets a task, or returns ErrNotFound.
func (s *Store) Delete(id uuid.UUID) error {
	return s.update(func(tx *bolt.Tx) error {
		var t Task
		if err := getTask(tx, id[:], &t); err != nil {
			return err
		}
		return deleteTask(tx, t.ID[:], t.Seq)
	})
}

// SaveCheckpoint makes durable how far a run has come. It writes the task too if
// the store has lost it, which happens when a damaged file was moved aside.
func (s *Store) SaveCheckpoint(t Task, data json.RawMessage) error {
	return s.update(func(tx *bolt.Tx) error {
		if tx.Bucket(tasksBucket).Get(t.ID[:]) == nil {
			if err := s.putTask(tx, &t); err != nil {
				return err
			}
		}
		return putRow(tx, checkpointsBucket, t.ID[:], checkpoint{Run: t.Run, Data: data})
	})
}

// LoadCheckpoint returns how far this run has come, or ErrNotFound.
func (s *Store) LoadCheckpoint(id uuid.UUID, run int) (json.RawMessage, error) {
	var c checkpoint
	err := s.view(func(tx *bolt.Tx) error {
		if err := get(tx, checkpointsBucket, id[:], &c); err != nil {
			return err
		}
		if c.Run != run {
			return ErrNotFound
		}
		return nil
	})
	return c.Data, err
}

func (s *Store) putTask(tx *bolt.Tx, t *Task) error {
	var old Task
	switch err := getTask(tx, t.ID[:], &old); {
	case err == nil:
		if t.Seq != old.Seq {
			if err := tx.Bucket(orderBucket).Delete(orderKey(old.Seq)); err != nil {
				return err
			}
		}
	case !errors.Is(err, ErrNotFound):
		return err
	}
	if err := s.place(tx, t); err != nil {
		return err
	}
	if t.Run != old.Run || t.Status != Running {
		if err := tx.Bucket(checkpointsBucket).Delete(t.ID[:]); err != nil {
			return err
		}
	}
	if err := tx.Bucket(orderBucket).Put(orderKey(t.Seq), t.ID[:]); err != nil {
		return err
	}
	if err := putRow(tx, tasksBucket, t.ID[:], t); err != nil {
		return err
	}
	if t.Status == Running {
		return nil
	}
	if s.finished++; s.finished < collectEvery {
		return nil
	}
	return s.collect(tx)
}

// place gives a task its place in the order. One that comes from a file that was
// moved aside keeps its place, if nobody has taken it in the fresh one.
func (s *Store) place(tx *bolt.Tx, t *Task) error {
	order := tx.Bucket(orderBucket)
	if err := order.SetSequence(max(order.Sequence(), s.after.Load())); err != nil {
		return err
	}
	if taken := order.Get(orderKey(t.Seq)); t.Seq == 0 || taken != nil && !bytes.Equal(taken, t.ID[:]) {
		seq, err := order.NextSequence()
		t.Seq = seq
		return err
	}
	return order.SetSequence(max(order.Sequence(), t.Seq))
}

// collect forgets finished tasks that are too many, too old or too large.
func (s *Store) collect(tx *bolt.Tx) error {
	s.finished = 0
	oldest := s.opts.Clock.Now().Add(-s.opts.MaxAge)
	kept, size := 0, int64(0)
	var drop []Task
	cursor := tx.Bucket(orderBucket).Cursor()
	for seq, id := cursor.Last(); seq != nil; seq, id = cursor.Prev() {
		var t Task
		if err := getTask(tx, id, &t); err != nil {
			return err
		}
		if t.Status == Running {
			continue
		}
		kept++
		size += int64(len(t.Params) + len(t.Result))
		if kept > s.opts.Keep || size > s.opts.MaxBytes || t.CompletedAt.Before(oldest) {
			drop = append(drop, Task{ID: t.ID, Seq: t.Seq})
		}
	}
	for _, t := range drop {
		if err := deleteTask(tx, t.ID[:], t.Seq); err != nil {
			return err
		}
	}
	return nil
}

// prepare makes the buckets of a new file, and reads every row of an old one once:
// bbolt has no checksums of its own below the meta pages.
func prepare(db *bolt.DB) error {
	fresh := false
	err := db.View(func(tx *bolt.Tx) error {
		if fresh = tx.Bucket(tasksBucket) == nil; fresh {
			return nil
		}
		return verify(tx)
	})
	if errors.Is(err, ErrNotFound) {
		err = fmt.Errorf("%w: a row is missing", errDamaged)
	}
	if err != nil || !fresh {
		return err
	}
	return db.Update(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{tasksBucket, orderBucket, checkpointsBucket} {
			if _, err := tx.CreateBucket(name); err != nil {
				return fmt.Errorf("%w: %w", errDamaged, err)
			}
		}
		return nil
	})
}

func verify(tx *bolt.Tx) error {
	if tx.Bucket(orderBucket) == nil || tx.Bucket(checkpointsBucket) == nil {
		return fmt.Errorf("%w: a bucket is missing", errDamaged)
	}
	rows, places := 0, 0
	err := tx.Bucket(tasksBucket).ForEach(func(id, _ []byte) error {
		rows++
		var t Task
		if err := getTask(tx, id, &t); err != nil {
			return err
		}
		if !bytes.Equal(t.ID[:], id) || !bytes.Equal(tx.Bucket(orderBucket).Get(orderKey(t.Seq)), id) {
			return fmt.Errorf("%w: task %s is not in its place", errDamaged, t.ID)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = tx.Bucket(orderBucket).ForEach(func(_, _ []byte) error { places++; return nil })
	if err != nil {
		return err
	}
	if places != rows {
		return fmt.Errorf("%w: %d tasks have %d places in the order", errDamaged, rows, places)
	}
	return tx.Bucket(checkpointsBucket).ForEach(func(id, _ []byte) error {
		var c checkpoint
		return get(tx, checkpointsBucket, id, &c)
	})
}

func deleteTask(tx *bolt.Tx, id []byte, seq uint64) error {
	return errors.Join(
		tx.Bucket(tasksBucket).Delete(id),
		tx.Bucket(checkpointsBucket).Delete(id),
		tx.Bucket(orderBucket).Delete(orderKey(seq)))
}

func orderKey(seq uint64) []byte {
	return binary.BigEndian.AppendUint64(nil, seq)
}

func getTask(tx *bolt.Tx, id []byte, t *Task) error {
	return get(tx, tasksBucket, id, t)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// get reads a row, which is a checksum and JSON.
func get(tx *bolt.Tx, bucket, key []byte, into any) error {
	row := tx.Bucket(bucket).Get(key)
	if row == nil {
		return ErrNotFound
	}
	if len(row) < 4 || binary.BigEndian.Uint32(row) != crc32.Checksum(row[4:], castagnoli) {
		return fmt.Errorf("%w: a row of %s has a wrong checksum", errDamaged, bucket)
	}
	if err := json.Unmarshal(row[4:], into); err != nil {
		return fmt.Errorf("%w: a row of %s: %w", errDamaged, bucket, err)
	}
	return nil
}

func putRow(tx *bolt.Tx, bucket, key []byte, from any) error {
	// What was submitted is compared with what is kept: "<" stays "<".
	row := bytes.NewBuffer(make([]byte, 4))
	encoder := json.NewEncoder(row)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(from); err != nil {
		return err
	}
	binary.BigEndian.PutUint32(row.Bytes(), crc32.Checksum(row.Bytes()[4:], castagnoli))
	return tx.Bucket(bucket).Put(key, row.Bytes())
}
