package store

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	clocktesting "k8s.io/utils/clock/testing"
)

// file is where a task is kept.
func file(dir string, id uuid.UUID) string { return filepath.Join(dir, "tasks", id.String()+".json") }

func overwrite(tb testing.TB, path string, content []byte) {
	tb.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		tb.Fatal(err)
	}
}

func content(tb testing.TB, path string) []byte {
	tb.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return content
}

func unfinished(tb testing.TB, s *Store) []uuid.UUID {
	tb.Helper()
	found, err := s.Unfinished()
	if err != nil {
		tb.Fatal(err)
	}
	return ids(found)
}

func works(tb testing.TB, s *Store) {
	tb.Helper()
	task := put(tb, s, Task{Type: "b", Status: Running, Run: 1})
	if err := s.SaveCheckpoint(task, raw(`1`)); err != nil {
		tb.Fatal(err)
	}
	if _, err := s.List(100); err != nil {
		tb.Fatal(err)
	}
	if _, err := s.Unfinished(); err != nil {
		tb.Fatal(err)
	}
	if err := s.Delete(task.ID); err != nil {
		tb.Fatal(err)
	}
}

// One damaged file costs its own task: the others stay, and a person is told.
func TestADamagedFileIsMovedAside(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, path string, sound []byte){
		"empty": func(t *testing.T, path string, _ []byte) { t.Helper(); overwrite(t, path, nil) },
		"only zeros": func(t *testing.T, path string, sound []byte) {
			t.Helper()
			overwrite(t, path, make([]byte, len(sound)))
		},
		"cut off": func(t *testing.T, path string, sound []byte) { t.Helper(); overwrite(t, path, sound[:len(sound)-10]) },
		"a bit": func(t *testing.T, path string, sound []byte) {
			t.Helper()
			overwrite(t, path, bytes.Replace(sound, []byte(`"run":1`), []byte(`"run":3`), 1))
		},
		"another's": func(t *testing.T, path string, _ []byte) {
			t.Helper()
			if err := os.Rename(path, file(filepath.Dir(filepath.Dir(path)), uuid.New())); err != nil {
				t.Fatal(err)
			}
		},
		"a directory": func(t *testing.T, path string, _ []byte) {
			t.Helper()
			if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o755)); err != nil {
				t.Fatal(err)
			}
		},
		"a link": func(t *testing.T, path string, sound []byte) {
			t.Helper()
			elsewhere := filepath.Join(t.TempDir(), "elsewhere")
			overwrite(t, elsewhere, sound)
			if err := errors.Join(os.Remove(path), os.Symlink(elsewhere, path)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, Options{})
			var all []Task
			for range 3 {
				all = append(all, put(t, s, Task{Type: "a", Status: Running, Run: 1, Params: raw(`{}`)}))
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			path := file(dir, all[1].ID)
			damage(t, path, content(t, path))

			s = open(t, dir, Options{})
			if got, want := unfinished(t, s), []uuid.UUID{all[0].ID, all[2].ID}; !slices.Equal(got, want) {
				t.Errorf("left are %v, want %v", got, want)
			}
			problems := s.Problems()
			if len(problems) != 1 || problems[0].Reason != "TaskStoreMovedAside" || len(s.listAside()) != 1 || !strings.Contains(problems[0].Message, s.listAside()[0]) {
				t.Errorf("kept aside: %v, problems: %v", s.listAside(), problems)
			}
			// The same id can be used again, and no place is given twice.
			if again := put(t, s, Task{ID: all[1].ID, Status: Running, Run: 1}); again.Seq <= all[2].Seq {
				t.Errorf("it came back in place %d, after %d", again.Seq, all[2].Seq)
			}
			works(t, s)
		})
	}
}

// A file that is damaged while the store is open is noticed when it is read. What runs
// is written again by whoever runs it, and keeps its place.
func TestAFileThatIsDamagedWhileOpen(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"cut off": func(path string) error { return os.Truncate(path, 30) },
		"gone":    os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, Options{})
			lost := put(t, s, Task{Type: "a", Status: Running, Run: 1})
			other := put(t, s, Task{Type: "a", Status: Running, Run: 1})
			if err := damage(file(dir, lost.ID)); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Get(lost.ID); !errors.Is(err, ErrNotFound) {
				t.Fatalf("reading what is gone: %v", err)
			}
			if err := s.SaveCheckpoint(lost, raw(`1`)); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			again := open(t, dir, Options{})
			if got, want := unfinished(t, again), []uuid.UUID{lost.ID, other.ID}; !slices.Equal(got, want) {
				t.Errorf("left are %v, want %v", got, want)
			}
		})
	}
}

// A disk that does not give a file back may do so in a moment. If it does not, one
// block must not keep all tasks away for ever.
func TestAFileThatTheDiskDoesNotGiveBack(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	bad, good := put(t, s, Task{Status: Running, Run: 1}), put(t, s, Task{Status: Running, Run: 1})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	now := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	failing := true
	options := Options{Clock: now, read: func(path string, into io.Writer) error {
		if failing && path == file(dir, bad.ID) {
			return &os.PathError{Op: "read", Path: path, Err: syscall.EIO}
		}
		return readFile(path, into)
	}}
	expect := func(s *Store, want ...uuid.UUID) {
		t.Helper()
		if got := unfinished(t, s); !slices.Equal(got, want) {
			t.Errorf("unfinished: %v, want %v", got, want)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}

	s = open(t, dir, options)
	if _, err := s.Unfinished(); !errors.Is(err, ErrUnavailable) || !errors.Is(err, syscall.EIO) {
		t.Errorf("a task that may be under way was passed over: %v", err)
	}
	if problems := s.Problems(); len(problems) != 1 || !strings.Contains(problems[0].Message, bad.ID.String()) {
		t.Errorf("problems: %v", problems)
	}
	failing = false
	expect(s, bad.ID, good.ID)

	failing = true
	s = open(t, dir, options)
	now.SetTime(now.Now().Add(patience))
	expect(s, good.ID)
	if kept := s.listAside(); len(kept) != 1 {
		t.Errorf("kept aside: %v", kept)
	}
}

// Two moments in which a disk fails, hours apart, are no damage: the file may be a hold
// that was accepted.
func TestADiskThatFailsForAMomentAndLaterAgain(t *testing.T) {
	dir := t.TempDir()
	now := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	failing := false
	s := open(t, dir, Options{Clock: now, read: func(path string, into io.Writer) error {
		if failing {
			return &os.PathError{Op: "read", Path: path, Err: syscall.EIO}
		}
		return readFile(path, into)
	}})
	task := put(t, s, Task{Status: Running, Run: 1})
	fails := func(after time.Duration) {
		t.Helper()
		now.SetTime(now.Now().Add(after))
		if _, err := s.Get(task.ID); !errors.Is(err, ErrUnavailable) || !errors.Is(err, syscall.EIO) {
			t.Errorf("a read that fails, %s after the last one: %v", after, err)
		}
	}

	failing = true
	fails(0)
	fails(2 * time.Hour)
	fails(patience / 2)
	now.SetTime(now.Now().Add(patience / 2))
	if _, err := s.Get(task.ID); !errors.Is(err, ErrNotFound) || len(s.listAside()) != 1 {
		t.Errorf("after a minute of failures: %v, kept aside: %v", err, s.listAside())
	}
}

func TestDamagedFilesThatAreKeptAreBounded(t *testing.T) {
	dir := t.TempDir()
	now := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	s := open(t, dir, Options{Clock: now})
	var last Task
	for range keptAside + 2 {
		now.SetTime(now.Now().Add(time.Second))
		last = put(t, s, Task{Status: Running, Run: 1})
		overwrite(t, file(dir, last.ID), []byte("hello"))
		if _, err := s.Get(last.ID); !errors.Is(err, ErrNotFound) {
			t.Fatal(err)
		}
	}
	kept := s.listAside()
	if len(kept) != keptAside || !strings.Contains(kept[len(kept)-1], last.ID.String()) {
		t.Errorf("%d damaged files are kept, want %d with the newest: %v", len(kept), keptAside, kept)
	}
	works(t, s)
}

// Without the reserved places those of deleted tasks would be given again.
func TestADamagedSequence(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	kept, gone := put(t, s, Task{Status: Running, Run: 1}), put(t, s, Task{Status: Running, Run: 1})
	if err := errors.Join(s.Delete(gone.ID), s.Close()); err != nil {
		t.Fatal(err)
	}
	overwrite(t, filepath.Join(dir, "tasks", "sequence"), []byte("torn"))
	s = open(t, dir, Options{})
	if next := put(t, s, Task{Status: Running, Run: 1}); next.Seq <= gone.Seq {
		t.Errorf("place %d after %d", next.Seq, gone.Seq)
	}
	if _, err := s.Get(kept.ID); err != nil || len(s.Problems()) != 1 {
		t.Errorf("%v, problems: %v", err, s.Problems())
	}
}

// Whatever is in a file, the store opens and works.
func FuzzOpen(f *testing.F) {
	id := uuid.UUID{1}
	sound, err := encode(row{Task: Task{ID: id, Type: "a", Status: Running, Run: 1, Seq: 7, Params: raw(`{"x":1}`)}})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range [][]byte{sound, nil, []byte("\n"), []byte("00000000\n"), sound[:20], bytes.ToUpper(sound), []byte("null")} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "tasks"), 0o755); err != nil {
			t.Fatal(err)
		}
		overwrite(t, file(dir, id), data)
		overwrite(t, filepath.Join(dir, "tasks", "sequence"), data)
		works(t, open(t, dir, Options{}))
	})
}
