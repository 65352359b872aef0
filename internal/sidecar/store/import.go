package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/google/uuid"
	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// oldFile is where a sidecar before this one kept its tasks: a bbolt database with the
// buckets order (place to id), tasks and checkpoints (id to a checksum and JSON).
const oldFile = "tasks.db"

// importOld takes over what is in the file of an older sidecar, once. A crash in the
// middle repeats it: the file gets another name after everything is durable, and
// before any task is begun. What can be read of a damaged one is taken over.
func (s *Store) importOld() error {
	path := filepath.Join(s.dir, oldFile)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%w: it is not a file but %s", errDamaged, info.Mode().Type())
	case info.Size() > 0: // an empty one was about to become a database
		// Through the memory map a failure of the disk looks like damage. Read like this
		// it may pass. If it does not, what the disk still gives back is taken over.
		if err = s.read(path, io.Discard); err == nil || errors.Is(err, errDamaged) {
			err = s.takeOver(path)
		}
	}
	if errors.Is(err, errDamaged) {
		return s.moveAside(path, err)
	}
	if err != nil {
		return fmt.Errorf("take over the tasks of an older sidecar: %w", err)
	}
	s.opts.Log.Info("The tasks of an older sidecar were taken over", "tasks", len(s.index))
	if err := os.Rename(path, path+".imported"); err != nil {
		return err
	}
	return s.opts.writer.SyncDirectory(s.dir)
}

// takeOver writes a file for every task of the old one that still matters. It returns
// errDamaged if some could not be read.
func (s *Store) takeOver(path string) error {
	old, err := openOld(path)
	if err != nil {
		return err
	}
	defer old.close()
	found, last, damage := old.tasks()
	// The counter is ahead of the tasks where some were deleted.
	s.last = max(s.last, last)
	ids := map[uuid.UUID]bool{}
	for i := range found {
		ids[found[i].ID] = true
		// Places are taken where an older sidecar came back for a while. Those behind
		// have to move too: the order stays.
		found[i].moves = i > 0 && found[i-1].moves || s.taken(found[i].Task)
	}
	// What waits here was asked for before that sidecar came back, whose numbers are low.
	for _, id := range s.inOrder() {
		if !ids[id] {
			if err := s.supersede(id); err != nil {
				return err
			}
		}
	}
	for _, t := range mostUrgent(found) {
		r, err := old.row(t.ID)
		if err != nil {
			damage = err
			continue
		}
		if err := s.takeOverRow(r, t.moves); err != nil {
			return err
		}
	}
	if err := s.reserve(); err != nil {
		return err
	}
	return damage
}

func (s *Store) takeOverRow(r row, moves bool) error {
	if known, err := s.readRow(r.Task.ID); err == nil && reflect.DeepEqual(known, r) {
		return nil // an import that was cut short came so far
	}
	if moves {
		r.Task.Seq = 0
		if mayOvertake(r) {
			s.endSuperseded(&r.Task)
		}
	}
	if err := s.place(&r.Task); err != nil {
		return err
	}
	return s.writeRow(r)
}

// supersede ends a task that two counters put in order.
func (s *Store) supersede(id uuid.UUID) error {
	r, err := s.readRow(id)
	if errors.Is(err, ErrNotFound) {
		return nil // it was damaged
	}
	if err != nil || !mayOvertake(r) {
		return err
	}
	s.endSuperseded(&r.Task)
	return s.writeRow(r)
}

// mayOvertake tells whether a task must not be carried out unless its place in the order
// is certain: a release would end a hold that came after it. A hold is always honoured,
// and what has begun looks how far it came: told as a failure it would be asked for
// again, and seid would restart twice.
func mayOvertake(r row) bool {
	return r.Task.Status == Running && r.Task.Type != "mark-not-ready" && r.Checkpoint == nil
}

func (s *Store) endSuperseded(t *Task) {
	t.Status, t.CompletedAt, t.Reason, t.Retryable = Failed, s.opts.Clock.Now(), "Superseded", true
	t.Error = "two versions of the sidecar took tasks for this node in turn, and it is not certain that this one came last; ask for it again"
}

// oldTask is what is known of a task before it is taken over; its params and its result
// are not kept.
type oldTask struct {
	Task

	moves bool // its place in the order is taken
}

// importFinished is how many finished tasks are taken over. Each costs two fsyncs before
// a task is accepted, and callers ask for recent ones only.
const importFinished = 100

// mostUrgent returns the tasks to take over: those under way, of which one may be a
// hold, then the newest of the finished ones. Where the disk is full before the end, the
// first ones are safe.
func mostUrgent(found []oldTask) []oldTask {
	var running, finished []oldTask
	for _, t := range found {
		if t.Status == Running {
			running = append(running, t)
		} else {
			finished = append(finished, t)
		}
	}
	return append(running, finished[max(0, len(finished)-importFinished):]...)
}

// oldStore is the file of an older sidecar, open for reading.
type oldStore struct {
	file *os.File
	db   *bolt.DB
	tx   *bolt.Tx
}

func openOld(path string) (*oldStore, error) {
	o := &oldStore{}
	err := guard(func() (err error) {
		o.db, err = bolt.Open(path, 0, &bolt.Options{
			ReadOnly: true,
			Timeout:  1, // at once: whoever holds its lock is not going to give it up
			OpenFile: func(name string, flag int, mode os.FileMode) (_ *os.File, err error) {
				o.file, err = os.OpenFile(name, flag, mode)
				return o.file, err
			},
		})
		if err == nil {
			o.tx, err = o.db.Begin(false)
		}
		return err
	})
	if err == nil {
		return o, nil
	}
	o.close()
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, ErrLocked
	}
	// What the system refuses may pass; what bbolt refuses stays as it is.
	if _, passes := errors.AsType[syscall.Errno](err); !passes {
		err = fmt.Errorf("%w: %w", errDamaged, err)
	}
	return nil, err
}

func (o *oldStore) close() {
	if o.tx != nil {
		_ = guard(o.tx.Rollback)
	}
	if o.db != nil {
		_ = guard(o.db.Close)
	}
	if o.file != nil {
		_ = o.file.Close() // bbolt leaves it open when it panics
	}
}

// tasks returns all tasks in the order of submission, and the last place that was given
// away.
func (o *oldStore) tasks() (found []oldTask, last uint64, damage error) {
	ids, last, damage := o.ids()
	for _, id := range ids {
		r, err := o.row(id)
		if err != nil {
			damage = err
			continue
		}
		r.Task.Params, r.Task.Result = nil, nil
		found = append(found, oldTask{Task: r.Task})
	}
	slices.SortStableFunc(found, func(a, b oldTask) int { return cmp.Compare(a.Seq, b.Seq) })
	return found, last, damage
}

// ids returns the ids of all tasks, each once, and the last place that was given away.
// They are in two buckets: damage in one of them loses none that is in the other.
func (o *oldStore) ids() (found []uuid.UUID, last uint64, damage error) {
	seen := map[uuid.UUID]bool{}
	note := func(id []byte) {
		if id := uuid.UUID(id); !seen[id] {
			seen[id] = true
			found = append(found, id)
		}
	}
	damage = cmp.Or(
		guard(func() error {
			order := o.tx.Bucket([]byte("order"))
			if order == nil {
				return nil // its sidecar died before it had any
			}
			last = order.Sequence()
			return order.ForEach(func(_, id []byte) error { note(id); return nil })
		}),
		guard(func() error {
			tasks := o.tx.Bucket([]byte("tasks"))
			if tasks == nil {
				return nil
			}
			return tasks.ForEach(func(id, _ []byte) error { note(id); return nil })
		}))
	return found, last, damage
}

// row returns a task with its checkpoint. Without the checkpoint that it had it would
// do things twice, so one that is damaged takes its task with it.
func (o *oldStore) row(id uuid.UUID) (row, error) {
	var r row
	var c checkpoint
	err := guard(func() error {
		found, err := o.get("tasks", id, &r.Task)
		if err == nil && (!found || r.Task.ID != id) {
			err = fmt.Errorf("%w: task %s is not in its place", errDamaged, id)
		}
		if err != nil {
			return err
		}
		if found, err = o.get("checkpoints", id, &c); found && c.Run == r.Task.Run {
			r.Checkpoint = &c
		}
		return err
	})
	return r, err
}

func (o *oldStore) get(bucket string, id uuid.UUID, into any) (found bool, err error) {
	value := bytes.Clone(o.tx.Bucket([]byte(bucket)).Get(id[:]))
	if value == nil {
		return false, nil
	}
	if len(value) < 4 || binary.BigEndian.Uint32(value) != crc32.Checksum(value[4:], castagnoli) {
		return false, fmt.Errorf("%w: the row of task %s in %s has a wrong checksum", errDamaged, id, bucket)
	}
	if err := json.Unmarshal(value[4:], into); err != nil {
		return false, fmt.Errorf("%w: the row of task %s in %s: %w", errDamaged, id, bucket, err)
	}
	return true, nil
}

// guard turns a panic and a memory fault into an error. bbolt trusts its pages and
// reads them through a memory map: one that is wrong is a panic, and one that was cut
// off is a SIGBUS, which ends the process unless it is asked for as a panic.
func guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errDamaged, r)
		}
	}()
	return fn()
}
