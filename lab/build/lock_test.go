package build

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if _, err := Holder(path); err == nil {
		t.Error("a lock that does not exist has a holder")
	}
	isLocked(t, path, false)
	first, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	isLocked(t, path, true)
	if _, err := TryLock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("locked twice: %v", err)
	}
	if pid, err := Holder(path); err != nil || pid != os.Getpid() {
		t.Errorf("holder %d, %v", pid, err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	if _, err := WaitLock(ctx, path, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("waited: %v", err)
	}
	second, err := WaitLock(t.Context(), path, first.Unlock)
	if err != nil {
		t.Fatal(err)
	}
	second.Unlock()
	isLocked(t, path, false)
	if _, err := Holder(path); err == nil {
		t.Error("a free lock has a holder")
	}
}

func isLocked(t *testing.T, path string, want bool) {
	t.Helper()
	if got, err := Locked(path); err != nil || got != want {
		t.Errorf("locked %t, %v", got, err)
	}
}
