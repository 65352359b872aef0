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

// fill writes tasks until there is no space left, and returns them.
func fill(dir string) ([]Task, error) {
	s, err := Open(dir, Options{})
	if err != nil {
		return nil, err
	}
	if err := limit(128 << 10); err != nil {
		return nil, err
	}
	var kept []Task
	for {
		task, err := s.Put(Task{ID: [16]byte{byte(len(kept))}, Type: "a", Status: Running, Run: 1, Params: large})
		if errors.Is(err, ErrUnavailable) {
			break
		}
		if err != nil || len(kept) == 100 {
			return nil, fmt.Errorf("after %d tasks: %w", len(kept), err)
		}
		kept = append(kept, task)
	}
	if len(kept) == 0 || len(s.Problems()) != 1 {
		return nil, fmt.Errorf("%d tasks fit, problems: %v", len(kept), s.Problems())
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
	s := open(t, dir, Options{})
	task := put(t, s, Task{Type: "a", Status: Running, Run: 1})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, fileName)

	t.Run("from the start", func(t *testing.T) {
		readOnly := true
		s := open(t, dir, Options{open: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			if readOnly {
				return nil, &os.PathError{Op: "open", Path: name, Err: syscall.EROFS}
			}
			return os.OpenFile(name, flag, mode)
		}})
		_, err := s.Put(task)
		if !errors.Is(err, ErrUnavailable) || !errors.Is(err, syscall.EROFS) {
			t.Errorf("a write: %v", err)
		}
		if problems := s.Problems(); len(problems) != 1 || problems[0].Reason != "StoreUnavailable" {
			t.Errorf("problems: %v", problems)
		}
		readOnly = false
		if _, err := s.Get(task.ID); err != nil {
			t.Errorf("when it can be written again: %v", err)
		}
		if problems := s.Problems(); len(problems) != 0 {
			t.Errorf("problems: %v", problems)
		}
	})
	t.Run("while it is open", func(t *testing.T) {
		s := open(t, dir, Options{open: func(_ string, _ int, mode os.FileMode) (*os.File, error) {
			return os.OpenFile(path, os.O_RDONLY, mode)
		}})
		if _, err := s.Put(Task{ID: [16]byte{1}, Status: Running}); !errors.Is(err, ErrUnavailable) {
			t.Errorf("a write: %v", err)
		}
		if _, err := s.Get(task.ID); err != nil {
			t.Errorf("a read: %v", err)
		}
	})
	t.Run("a home that cannot be made", func(t *testing.T) {
		s := open(t, filepath.Join(path, "below-a-file"), Options{})
		if _, err := s.Put(task); !errors.Is(err, ErrUnavailable) {
			t.Errorf("a write: %v", err)
		}
	})
}
