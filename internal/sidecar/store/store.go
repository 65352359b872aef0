// Package store keeps the sidecar's tasks on the data volume, one file for each.
//
// The store never decides whether a node runs: approval and hold are files of
// their own. So whatever happens to these files, a full disk, a torn file, a volume
// that turned read-only, costs tasks and nothing else. A damaged file is moved aside
// and kept, and the others stay; everything else is an error that may pass, and every
// call tries again.
package store

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"
	"k8s.io/utils/clock"

	"github.com/sei-operator/sei-operator/internal/durable"
)

var (
	// ErrNotFound means that there is no task with this id.
	ErrNotFound = errors.New("no such task")
	// ErrUnavailable means that the store cannot be read or written now. A write
	// that failed with it may have happened all the same.
	ErrUnavailable = errors.New("the task store is not available")
	// ErrLocked means that another sidecar uses this home.
	ErrLocked = errors.New("another sidecar is using this home; stop it first")

	// errDamaged means that a file is not what was written to it.
	errDamaged = errors.New("damaged")
)

// Options are the parts of a store that a caller may choose; the zero value works.
type Options struct {
	Clock clock.PassiveClock
	Log   *slog.Logger
	// Finished tasks beyond these bounds are forgotten, oldest first.
	Keep     int           // default 1,000
	MaxAge   time.Duration // default 30 days
	MaxBytes int64         // default 256 MiB

	// Tests make these fail.
	writer durable.Writer
	read   func(path string, into io.Writer) error
}

func (o *Options) complete() {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.read == nil {
		o.read = readFile
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.Keep = cmp.Or(o.Keep, 1000)
	o.MaxAge = cmp.Or(o.MaxAge, 30*24*time.Hour)
	o.MaxBytes = cmp.Or(o.MaxBytes, 256<<20)
}

// Problem is something a person should know of.
type Problem struct {
	Reason, Message string
}

// Store is the tasks of one home. It is safe for concurrent use.
type Store struct {
	dir  string
	opts Options

	// One call at a time: a disk does one thing at a time anyway.
	mu       sync.Mutex
	closed   bool
	troubled bool
	lock     *os.File

	// loaded: index is what the files say. A write whose outcome is not known makes it
	// false, and the next call reads them all again.
	loaded bool
	index  map[uuid.UUID]entry
	// last is the highest number that was given to a task, or tried to; it never falls.
	// No number above reserved was ever given to one.
	last, reserved uint64
	finished       int                // tasks that ended since old ones were collected
	unreadable     map[string]failing // files that the disk does not give back

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
	s := &Store{dir: dir, opts: options, unreadable: map[string]failing{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(); err != nil {
		if errors.Is(err, ErrLocked) {
			_ = s.unlock()
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

// Close waits for calls in progress and lets another sidecar in. Later calls are
// refused.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.unlock()
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
			"%d damaged files of the task store were moved aside, and their tasks are forgotten; the newest is %s; delete them when they are no longer needed",
			len(kept), kept[len(kept)-1])})
	}
	s.problems.Store(&found)
}

// call runs fn over the files as they are.
func (s *Store) call(fn func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("%w: it is closed", ErrUnavailable)
	}
	err := s.ready()
	if err == nil {
		err = fn()
	}
	if err == nil || errors.Is(err, ErrNotFound) {
		if s.troubled {
			s.troubled = false
			s.note(nil)
		}
		return err
	}
	err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	s.troubled = true
	s.note(err)
	return err
}

// ready makes sure that the home is ours and that the index is what the files say.
func (s *Store) ready() error {
	if s.loaded {
		return nil
	}
	if err := s.lockDir(); err != nil {
		return err
	}
	if err := s.load(); err != nil {
		return err
	}
	s.loaded = true
	s.note(nil)
	return nil
}

// lockDir takes the lock of this home. A sidecar that kept its tasks in one file took
// the same one.
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

func (s *Store) unlock() error {
	if s.lock == nil {
		return nil
	}
	err := s.lock.Close()
	s.lock = nil
	return err
}

// path is where a file of the store is.
func (s *Store) path(name string) string { return filepath.Join(s.dir, tasksDir, name) }
