package store

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sei-operator/sei-operator/internal/durable"
)

const fullDiskChild = "STORE_TEST_FULL_DISK"

// A limit on the size of files stands for a full disk: writes fail in the same
// places, and with an errno as well.
func TestAFullDiskLosesNothing(t *testing.T) {
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), fullDiskChild+"="+t.TempDir())
	if output, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
}

func fullDisk(dir string) int {
	if err := fillAndFree(dir); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

var large = raw(`{"x":"` + strings.Repeat("x", 10000) + `"}`)

func limit(bytes uint64) error {
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: bytes, Max: 1 << 40})
}

func fillAndFree(dir string) error {
	signal.Ignore(syscall.SIGXFSZ)
	kept, err := fill(dir)
	if err != nil {
		return err
	}
	// A sidecar that starts on a full disk still knows its tasks.
	s, err := Open(dir, Options{})
	if err != nil {
		return err
	}
	if err := expect(s, kept); err != nil {
		return fmt.Errorf("opened on a full disk: %w", err)
	}
	if err := limit(1 << 40); err != nil {
		return err
	}
	task, err := s.Put(Task{ID: [16]byte{200}, Type: "a", Status: Running, Run: 1, Params: large})
	if err != nil {
		return fmt.Errorf("with space again: %w", err)
	}
	if err := expect(s, append(kept, task)); err != nil {
		return fmt.Errorf("with space again: %w", err)
	}
	if problems := s.Problems(); len(problems) != 0 {
		return fmt.Errorf("with space again: %v", problems)
	}
	return s.Close()
}

// fill writes tasks, and returns them when there is no space left.
func fill(dir string) ([]Task, error) {
	s, err := Open(dir, Options{})
	if err != nil {
		return nil, err
	}
	var kept []Task
	for n := range byte(5) {
		task, err := s.Put(Task{ID: [16]byte{n}, Type: "a", Status: Running, Run: 1, Params: large})
		if err != nil {
			return nil, err
		}
		kept = append(kept, task)
	}
	if err := limit(4 << 10); err != nil {
		return nil, err
	}
	for _, task := range append(kept, Task{ID: [16]byte{100}, Type: "a", Status: Running, Run: 1, Params: large}) {
		task.Status = Completed
		if _, err := s.Put(task); !errors.Is(err, ErrUnavailable) {
			return nil, fmt.Errorf("a write to a full disk: %w", err)
		}
	}
	if len(s.Problems()) != 1 {
		return nil, fmt.Errorf("problems: %v", s.Problems())
	}
	if err := expect(s, kept); err != nil {
		return nil, fmt.Errorf("while the disk is full: %w", err)
	}
	return kept, s.Close()
}

func expect(s *Store, kept []Task) error {
	found, err := s.Unfinished()
	if err != nil {
		return err
	}
	if diff := cmp.Diff(kept, found); diff != "" {
		return fmt.Errorf("not the tasks that were kept (-want +got):\n%s", diff)
	}
	return nil
}

// root may write everywhere, so the read-only file system is an injected error.
func TestAReadOnlyFileSystem(t *testing.T) {
	dir := t.TempDir()
	readOnly := false
	options := Options{writer: durable.Writer{Fault: func(step string) error {
		if readOnly && step != "mkdir" && step != "sync parent" && step != "sync directory" { // those need no space, and change nothing here
			return &os.PathError{Op: step, Path: dir, Err: syscall.EROFS}
		}
		return nil
	}}}
	s := open(t, dir, options)
	task := put(t, s, Task{Type: "a", Status: Running, Run: 1})

	readOnly = true
	refused := func(s *Store) {
		t.Helper()
		other := Task{ID: [16]byte{1}, Status: Running}
		if _, err := s.Put(other); !errors.Is(err, ErrUnavailable) || !errors.Is(err, syscall.EROFS) {
			t.Errorf("a write: %v", err)
		}
		if err := s.SaveCheckpoint(task, raw(`1`)); !errors.Is(err, ErrUnavailable) {
			t.Errorf("a checkpoint: %v", err)
		}
		if err := s.Delete(task.ID); !errors.Is(err, ErrUnavailable) {
			t.Errorf("a deletion: %v", err)
		}
		if problems := s.Problems(); len(problems) != 1 || problems[0].Reason != "StoreUnavailable" {
			t.Errorf("problems: %v", problems)
		}
		if _, err := s.Get(task.ID); err != nil {
			t.Errorf("a read: %v", err)
		}
	}
	refused(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, options)
	refused(s)
	readOnly = false
	works(t, s)
	if problems := s.Problems(); len(problems) != 0 {
		t.Errorf("problems: %v", problems)
	}
}

func TestAHomeThatCannotBeMade(t *testing.T) {
	below := filepath.Join(t.TempDir(), "file")
	overwrite(t, below, nil)
	dir := filepath.Join(below, "below-a-file")
	s := open(t, dir, Options{})
	if _, err := s.Put(Task{ID: [16]byte{1}, Status: Running}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a write: %v", err)
	}
	if err := os.Remove(below); err != nil {
		t.Fatal(err)
	}
	works(t, s)
}
