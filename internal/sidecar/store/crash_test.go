package store

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sei-operator/sei-operator/internal/durable"
)

// errDied ends a process in the middle of what it does.
var errDied = errors.New("the process died")

// mortal is a writer whose process dies before the nth step that changes the disk.
func mortal(n int, steps *int) durable.Writer {
	return durable.Writer{Fault: func(string) error {
		if *steps++; *steps == n {
			panic(errDied)
		}
		return nil
	}}
}

// life is what a process does with a store until it ends or dies.
func life(dir string, options Options, do func(*Store)) (died bool) {
	options.complete()
	// Opened by its first call: a process may die of opening it.
	s := &Store{dir: dir, opts: options, unreadable: map[string]failing{}}
	defer func() {
		_ = s.unlock() // as the end of a process does
		if r := recover(); r != nil {
			if err, ok := r.(error); !ok || !errors.Is(err, errDied) {
				panic(r)
			}
			died = true
		}
	}()
	do(s)
	return false
}

// noTemporaryFiles sees that what a crash left behind is gone.
func noTemporaryFiles(tb testing.TB, dir string) {
	tb.Helper()
	found, _ := filepath.Glob(filepath.Join(dir, "tasks", ".*"))
	if len(found) != 0 {
		tb.Errorf("left behind: %v", found)
	}
}

var (
	crashed, bystander = uuid.UUID{1}, uuid.UUID{2}
	crashedTask        = Task{ID: crashed, Type: "a", Status: Running, Run: 1, Params: raw(`{"x":1}`)}
)

// crashCase is a call, whether its task exists before it, and what is true after it.
type crashCase struct {
	exists bool
	do     func(*Store) error
	done   func(t Task, checkpoint string) bool
}

func crashCases() map[string]crashCase {
	return map[string]crashCase{
		"a new task": {
			do:   func(s *Store) error { _, err := s.Put(crashedTask); return err },
			done: func(t Task, checkpoint string) bool { return t.Type == "a" && t.Run == 1 && checkpoint == "" },
		},
		"a checkpoint": {
			exists: true,
			do: func(s *Store) error {
				task, _ := s.Get(crashed)
				return s.SaveCheckpoint(task, raw(`2`))
			},
			done: func(t Task, checkpoint string) bool { return t.Status == Running && checkpoint == "2" },
		},
		"an end": {
			exists: true,
			do: func(s *Store) error {
				task, _ := s.Get(crashed)
				task.Status, task.CompletedAt = Completed, time.Now()
				_, err := s.Put(task)
				return err
			},
			done: func(t Task, checkpoint string) bool { return t.Status == Completed && checkpoint == "" },
		},
		"a next run": {
			exists: true,
			do: func(s *Store) error {
				task := crashedTask
				task.Run = 2
				_, err := s.Put(task)
				return err
			},
			done: func(t Task, checkpoint string) bool { return t.Run == 2 && t.Seq > 2 && checkpoint == "" },
		},
		"a deletion": {
			exists: true,
			do:     func(s *Store) error { return s.Delete(crashed) },
			done:   func(t Task, _ string) bool { return t.Type == "" },
		},
	}
}

// untouched tells whether the task is what it was before the call.
func (c crashCase) untouched(t Task, checkpoint string) bool {
	if !c.exists {
		return t.Type == ""
	}
	return t.Status == Running && t.Run == 1 && checkpoint == "1"
}

// Wherever the process dies, a task is as it was before the call or as it is after it,
// the others are untouched, and no place in the order is given twice.
func TestACrashAtEveryStep(t *testing.T) {
	for name, c := range crashCases() {
		t.Run(name, func(t *testing.T) {
			deaths := 0
			for c.dies(t, deaths+1) {
				deaths++
			}
			if deaths < 3 {
				t.Errorf("the process died %d times only", deaths)
			}
		})
	}
}

// dies makes the call in a process that dies at a step, and looks at what the next one
// finds. It tells whether there was such a step.
func (c crashCase) dies(t *testing.T, at int) bool {
	t.Helper()
	dir := t.TempDir()
	life(dir, Options{}, func(s *Store) {
		put(t, s, Task{ID: bystander, Status: Running, Run: 1})
		if c.exists {
			if err := s.SaveCheckpoint(put(t, s, crashedTask), raw(`1`)); err != nil {
				t.Fatal(err)
			}
		}
	})
	steps := 0
	died := life(dir, Options{writer: mortal(at, &steps)}, func(s *Store) {
		if err := c.do(s); err != nil {
			t.Fatal(err)
		}
	})

	s := open(t, dir, Options{})
	got, err := s.Get(crashed)
	if err != nil && !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	data, _ := s.LoadCheckpoint(crashed, got.Run)
	if done := c.done(got, string(data)); !done && (!died || !c.untouched(got, string(data))) {
		t.Errorf("death at step %d: it is neither as before nor done: %+v, %s", at, got, data)
	}
	if other, err := s.Get(bystander); err != nil || other.Seq != 1 {
		t.Errorf("death at step %d: the other task is %+v, %v", at, other, err)
	}
	if next := put(t, s, Task{Status: Running, Run: 1}); next.Seq <= max(got.Seq, 2) {
		t.Errorf("death at step %d: place %d is given again", at, next.Seq)
	}
	if problems := s.Problems(); len(problems) != 0 {
		t.Errorf("death at step %d: %v", at, problems)
	}
	noTemporaryFiles(t, dir)
	return died
}

// A write that fails leaves the task as it was or as it is to be. The store says which
// when it can, and says nothing that is not durable.
func TestEveryStepMayFail(t *testing.T) {
	failure := errors.New("no space left on device")
	for _, failing := range []string{"create", "write", "sync file", "rename", "sync directory"} {
		t.Run(failing, func(t *testing.T) {
			broken := false
			dir := t.TempDir()
			s := open(t, dir, Options{writer: durable.Writer{Fault: func(step string) error {
				if broken && step == failing {
					return failure
				}
				return nil
			}}})
			first := put(t, s, Task{Type: "a", Status: Running, Run: 1})

			broken = true
			refused := Task{ID: uuid.UUID{9}, Type: "a", Status: Running, Run: 1}
			if _, err := s.Put(refused); !errors.Is(err, ErrUnavailable) || !errors.Is(err, failure) {
				t.Fatalf("it was taken: %v", err)
			}
			if problems := s.Problems(); len(problems) != 1 || problems[0].Reason != "StoreUnavailable" {
				t.Errorf("problems: %v", problems)
			}
			// Who finds the task joins it, and is answered as if it were durable.
			if _, err := s.Get(refused.ID); err == nil {
				t.Error("a task is told that may be gone with the power")
			}
			broken = false
			if got, err := s.Get(first.ID); err != nil || got.Seq != first.Seq {
				t.Errorf("another task is %+v, %v", got, err)
			}
			got, err := s.Get(refused.ID)
			if happened := failing == "sync directory"; happened != (err == nil) {
				t.Errorf("it is %+v, %v", got, err)
			}
			if next := put(t, s, Task{Status: Running, Run: 1}); next.Seq <= first.Seq+1 {
				t.Errorf("place %d is given again", next.Seq)
			}
			if problems := s.Problems(); len(problems) != 0 {
				t.Errorf("problems: %v", problems)
			}
			noTemporaryFiles(t, dir)
		})
	}
}

// A submission writes one file: its content and its name are made durable, and
// nothing else is.
func TestASubmissionSyncsTwice(t *testing.T) {
	var steps []string
	s := open(t, t.TempDir(), Options{writer: durable.Writer{Fault: func(step string) error {
		steps = append(steps, step)
		return nil
	}}})
	put(t, s, Task{Status: Running, Run: 1}) // reserves places
	steps = nil
	task := put(t, s, Task{Status: Running, Run: 1})
	task.Status = Completed
	put(t, s, task)
	one := "create write sync file rename sync directory"
	if got := strings.Join(steps, " "); got != one+" "+one {
		t.Errorf("a task takes the steps %s", got)
	}
}

// Places are given once, whatever is deleted, collected or restarted in between.
func TestPlacesRise(t *testing.T) {
	dir := t.TempDir()
	last := uint64(0)
	for life := range 4 {
		s := open(t, dir, Options{Keep: 1})
		s.After(uint64(life) * 5000)
		for n := range 3 {
			task := put(t, s, Task{Status: Completed, Run: 1})
			if task.Seq <= last || task.Seq <= uint64(life)*5000 {
				t.Errorf("life %d: place %d is given after %d", life, task.Seq, last)
			}
			last = task.Seq
			if n == 2 { // the highest is gone
				if err := s.Delete(task.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if files, err := os.ReadDir(filepath.Join(dir, "tasks")); err != nil || len(files) > 10 {
		t.Errorf("%d files, %v", len(files), err)
	}
}

// No file that is not a task's is one, and none is touched.
func TestFilesOfOthers(t *testing.T) {
	dir := t.TempDir()
	task := put(t, open(t, dir, Options{}), Task{ID: uuid.UUID{0xab}, Status: Running, Run: 1})
	dir2 := t.TempDir()
	sound := content(t, file(dir, task.ID))
	var want []string
	if err := os.Mkdir(filepath.Join(dir2, "tasks"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"README", strings.ToUpper(task.ID.String()) + ".json", "{" + task.ID.String() + "}.json", strings.ReplaceAll(task.ID.String(), "-", "") + ".json", task.ID.String()} {
		overwrite(t, filepath.Join(dir2, "tasks", name), sound)
		want = append(want, name)
	}
	s := open(t, dir2, Options{})
	if got := unfinished(t, s); len(got) != 0 {
		t.Errorf("tasks: %v", got)
	}
	if len(s.Problems()) != 0 {
		t.Error(s.Problems())
	}
	for _, name := range want {
		if _, err := os.Stat(filepath.Join(dir2, "tasks", name)); err != nil {
			t.Error(err)
		}
	}
}

// A deletion that is not durable is told neither as done nor as undone.
func TestADeletionThatFails(t *testing.T) {
	failure := errors.New("input/output error")
	broken := false
	s := open(t, t.TempDir(), Options{writer: durable.Writer{Fault: func(step string) error {
		if broken && step == "sync directory" {
			return failure
		}
		return nil
	}}})
	task := put(t, s, Task{Status: Running, Run: 1})
	broken = true
	if err := s.Delete(task.ID); !errors.Is(err, ErrUnavailable) {
		t.Errorf("deleted with %v", err)
	}
	if _, err := s.Get(task.ID); !errors.Is(err, ErrUnavailable) {
		t.Errorf("it is told: %v", err)
	}
	broken = false
	if err := s.Delete(task.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("deleted again with %v", err)
	}
}

// All files are lost while a task runs, and another takes its place. It comes back
// behind that one.
func TestATaskThatLostItsPlace(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	lost := put(t, s, Task{Status: Running, Run: 1})
	if err := errors.Join(s.Close(), os.RemoveAll(filepath.Join(dir, "tasks"))); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, Options{})
	other := put(t, s, Task{Status: Running, Run: 1})
	if other.Seq != lost.Seq {
		t.Fatalf("the places are %d and %d", other.Seq, lost.Seq)
	}
	if err := s.SaveCheckpoint(lost, raw(`1`)); err != nil {
		t.Fatal(err)
	}
	if got, want := unfinished(t, s), []uuid.UUID{other.ID, lost.ID}; !slices.Equal(got, want) {
		t.Errorf("unfinished: %v, want %v", got, want)
	}
	if got, err := s.Get(lost.ID); err != nil || got.Seq <= other.Seq {
		t.Errorf("it came back in place %d, %v", got.Seq, err)
	}
}
