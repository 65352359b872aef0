// Package store keeps the sidecar's tasks on the data volume, in one bbolt file.
//
// The store never decides whether a node runs: approval and hold are files of
// their own. So whatever happens to this file, a full disk, a torn page, a volume
// that turned read-only, costs tasks and nothing else. A damaged file is moved
// aside and kept; everything else is an error that may pass, and every call tries
// again.
package store

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"k8s.io/utils/clock"
)

var (
	// ErrNotFound means that there is no task with this id.
	ErrNotFound = errors.New("no such task")
	// ErrUnavailable means that the store cannot be read or written now. A write
	// that failed with it may have happened all the same.
	ErrUnavailable = errors.New("the task store is not available")
	// ErrLocked means that another sidecar uses this home.
	ErrLocked = errors.New("another sidecar is using this home; stop it first")

	// errDamaged means that the file is not what was written to it.
	errDamaged = errors.New("damaged")
)

const (
	fileName = "tasks.db"
	// The page size is fixed, so that a volume can move between machines whose
	// memory pages differ.
	pageSize = 4096
	// Damaged files that are kept for a person to look at.
	keptAside = 5
)

// Options are the parts of a store that a caller may choose; the zero value works.
type Options struct {
	Clock clock.PassiveClock
	Log   *slog.Logger
	// Finished tasks beyond these bounds are forgotten, oldest first.
	Keep     int           // default 1,000
	MaxAge   time.Duration // default 30 days
	MaxBytes int64         // default 256 MiB

	// open opens the file; tests make it fail.
	open func(string, int, os.FileMode) (*os.File, error)
}

func (o *Options) complete() {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Keep == 0 {
		o.Keep = 1000
	}
	if o.MaxAge == 0 {
		o.MaxAge = 30 * 24 * time.Hour
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 256 << 20
	}
	if o.open == nil {
		o.open = os.OpenFile
	}
}

// Problem is something a person should know of.
type Problem struct {
	Reason, Message string
}

// Store is the tasks of one home. It is safe for concurrent use.
type Store struct {
	dir  string
	opts Options

	// One call at a time. bbolt allows no more to writers anyway, and a call that
	// meets a damaged page must be alone when it throws the file away.
	mu       sync.Mutex
	closed   bool
	lock     *os.File
	file     *os.File
	db       *bolt.DB
	troubled bool
	finished int // rows that ended since old ones were collected

	// after is what the places of new tasks come after.
	after atomic.Uint64

	// Read without the lock: whoever asks what is wrong must not wait for a disk
	// that does not answer.
	problems atomic.Pointer[[]Problem]
}

// Open opens the store in dir, which it makes if need be. The only error is
// ErrLocked: a store that cannot be used now is returned all the same and refuses
// every call with ErrUnavailable until it can.
func Open(dir string, options Options) (*Store, error) {
	options.complete()
	s := &Store{dir: dir, opts: options}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(); err != nil {
		if errors.Is(err, ErrLocked) {
			_ = s.shut()
			return nil, fmt.Errorf("open the task store in %s: %w", dir, err)
		}
		s.opts.Log.Error("The task store cannot be opened; tasks are refused until it can", "dir", dir, "error", err)
		s.note(err)
	}
	return s, nil
}

// After makes every new task come after this place in the order. It is for a store
// that was lost while something else remembers what was in it.
func (s *Store) After(place uint64) { s.after.Store(place) }

// Close waits for calls in progress and closes the file. Later calls are refused.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.shut()
}

// Problems tells what is wrong with the store right now, and of damaged files that
// nobody has looked at.
func (s *Store) Problems() []Problem {
	if found := s.problems.Load(); found != nil {
		return *found
	}
	return nil
}

// note remembers what a call met.
func (s *Store) note(trouble error) {
	var found []Problem
	if trouble != nil {
		found = append(found, Problem{"StoreUnavailable", trouble.Error()})
	}
	if kept := s.listAside(); len(kept) > 0 {
		found = append(found, Problem{"TaskStoreMovedAside", fmt.Sprintf(
			"the task store was damaged and a fresh one was started; the newest damaged file is %s; delete it when it is no longer needed", kept[len(kept)-1])})
	}
	s.problems.Store(&found)
}

// view runs fn over a state of the store.
func (s *Store) view(fn func(*bolt.Tx) error) error {
	return s.call(func() error { return s.db.View(fn) })
}

// update runs fn and makes what it did durable.
func (s *Store) update(fn func(*bolt.Tx) error) error {
	return s.call(func() error { return s.db.Update(fn) })
}

func (s *Store) call(fn func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("%w: it is closed", ErrUnavailable)
	}
	err := s.ready()
	if err == nil {
		err = guard(fn)
	}
	if err == nil || errors.Is(err, ErrNotFound) {
		if s.troubled {
			s.troubled = false
			s.note(nil)
		}
		return err
	}
	if errors.Is(err, errDamaged) {
		// The next call looks at the file, and moves it aside if need be.
		s.opts.Log.Error("The task store is damaged", "dir", s.dir, "error", err)
		s.abandon()
	}
	err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	s.troubled = true
	s.note(err)
	return err
}

// guard turns a panic and a memory fault into an error. bbolt reads through a
// memory map: a page that was cut off under it is a SIGBUS, which ends the process
// unless it is asked for as a panic, goroutine by goroutine.
func guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errDamaged, r)
		}
	}()
	return fn()
}

// ready makes sure that the file is open.
func (s *Store) ready() error {
	if s.db != nil {
		return nil
	}
	if err := s.lockDir(); err != nil {
		return err
	}
	err := s.openFile()
	if errors.Is(err, errDamaged) {
		if moveErr := s.moveAside(err); moveErr != nil {
			return moveErr
		}
		err = s.openFile()
	}
	if err != nil {
		return err
	}
	s.note(nil)
	return nil
}

// lockDir takes the lock of this home. It is on the directory and not on the file,
// because it has to outlive a file that is moved aside.
func (s *Store) lockDir() error {
	if s.lock != nil {
		return nil
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	dir, err := os.Open(s.dir)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = dir.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return ErrLocked
		}
		return fmt.Errorf("lock %s: %w", s.dir, err)
	}
	s.lock = dir
	return nil
}

func (s *Store) openFile() error {
	path := filepath.Join(s.dir, fileName)
	if err := inspect(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", path, err)
	}
	err := guard(func() (err error) {
		s.db, err = bolt.Open(path, 0o600, &bolt.Options{
			PageSize: pageSize,
			// At once: whoever holds the lock is not going to give it up.
			Timeout: 1,
			OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
				var err error
				s.file, err = s.opts.open(name, flag, mode)
				return s.file, err
			},
		})
		return err
	})
	if err == nil {
		err = guard(func() error { return prepare(s.db) })
	}
	switch {
	case err == nil:
		// A store that is opened has its old rows collected soon, but not now: an
		// open writes nothing, so that it works on a full disk too.
		s.finished = collectEvery
		return nil
	case errors.Is(err, bolterrors.ErrTimeout):
		err = ErrLocked
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		err = fmt.Errorf("%w: %w", errDamaged, err)
	}
	if s.db != nil && !errors.Is(err, errDamaged) {
		_ = guard(s.db.Close)
	}
	s.abandon()
	return fmt.Errorf("%s: %w", path, err)
}

// abandon lets go of a file without asking bbolt, whose locks may be held for good
// by the call that failed. Closing the file frees the lock on it; its memory map is
// left behind.
func (s *Store) abandon() {
	if s.file != nil {
		_ = s.file.Close()
	}
	s.db, s.file = nil, nil
}

// shut closes what is open.
func (s *Store) shut() error {
	var err error
	if s.db != nil {
		err = guard(s.db.Close)
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	s.db, s.file, s.lock = nil, nil, nil
	return err
}

func (s *Store) moveAside(cause error) error {
	from := filepath.Join(s.dir, fileName)
	to := from + ".damaged-" + s.opts.Clock.Now().UTC().Format("20060102T150405.000000000Z")
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("move the damaged task store aside: %w", err)
	}
	s.opts.Log.Error("The task store was damaged: it is kept aside and a fresh one is started; tasks are forgotten, approval and hold are not",
		"kept", to, "cause", cause)
	kept := s.listAside()
	for _, old := range kept[:max(0, len(kept)-keptAside)] {
		_ = os.Remove(old)
	}
	return nil
}

// listAside returns the damaged files that were kept, oldest first.
func (s *Store) listAside() []string {
	found, _ := filepath.Glob(filepath.Join(s.dir, fileName+".damaged-*"))
	slices.Sort(found)
	return found
}
