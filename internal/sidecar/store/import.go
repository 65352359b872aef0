package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
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
		err = s.takeOver(path)
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

// takeOver writes a file for every task of the old one. It returns errDamaged if some
// could not be read.
func (s *Store) takeOver(path string) error {
	old, err := openOld(path)
	if err != nil {
		return err
	}
	defer old.close()
	ids, last, damage := old.ids()
	moved := false
	for _, id := range ids {
		r, err := old.row(id)
		if err != nil {
			damage = err
			continue
		}
		if known, err := s.readRow(id); err == nil && reflect.DeepEqual(known, r) {
			continue // an import that was cut short came so far
		}
		// Places are taken where an older sidecar came back for a while. Those behind
		// have to move too: the order stays.
		if moved = moved || s.taken(r.Task); moved {
			r.Task.Seq = 0
		}
		if err := s.place(&r.Task); err != nil {
			return err
		}
		if err := s.writeRow(r); err != nil {
			return err
		}
	}
	// The counter is ahead of the tasks where some were deleted.
	s.last = max(s.last, last)
	if err := s.reserve(); err != nil {
		return err
	}
	return damage
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

// ids returns the ids of all tasks in the order of submission, and the last place that
// was given away.
func (o *oldStore) ids() (found []uuid.UUID, last uint64, err error) {
	err = guard(func() error {
		order := o.tx.Bucket([]byte("order"))
		if order == nil {
			return nil // its sidecar died before it had any
		}
		last = order.Sequence()
		return order.ForEach(func(_, id []byte) error {
			found = append(found, uuid.UUID(id))
			return nil
		})
	})
	return found, last, err
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
