package durable

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func names(t *testing.T, dir string) (found []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		found = append(found, entry.Name())
	}
	return found
}

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	// What a crash left behind does not get in the way, nor does its mode.
	if err := os.WriteFile(filepath.Join(dir, ".file.new"), []byte("left behind, and longer than the new content"), 0o400); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"one", "two"} {
		if err := Replace(path, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("%q, %v", got, err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"file"}) {
		t.Errorf("%q", got)
	}
	if err := Replace(filepath.Join(path, "below"), nil, 0o600); err == nil {
		t.Error("a file is a directory")
	}
	if err := os.MkdirAll(filepath.Join(dir, "target", "x"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := Replace(filepath.Join(dir, "target"), []byte("x"), 0o600); err == nil {
		t.Error("a directory is replaced")
	}
	if got := names(t, dir); !slices.Equal(got, []string{"file", "target"}) {
		t.Errorf("something is left behind: %q", got)
	}
}

// Whatever fails, the old content or the new one is there in full, and nothing else.
func TestEveryStepMayFail(t *testing.T) {
	failure := errors.New("no space left on device")
	for _, failing := range []string{"create", "write", "sync file", "rename", "sync directory"} {
		t.Run(failing, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "file")
			if err := Replace(path, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			writer := Writer{Fault: func(step string) error {
				if step == failing {
					return failure
				}
				return nil
			}}
			if err := writer.Replace(path, []byte("new"), 0o600); !errors.Is(err, failure) {
				t.Errorf("replaced with %v", err)
			}
			want := "old"
			if failing == "sync directory" {
				want = "new"
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != want {
				t.Errorf("%q, %v", got, err)
			}
			if got := names(t, dir); !slices.Equal(got, []string{"file"}) {
				t.Errorf("something is left behind: %q", got)
			}
		})
	}
}
