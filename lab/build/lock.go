package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Lock is an exclusive lock on a file, held by an open descriptor: the kernel
// releases it when its process ends, however it ends.
type Lock struct{ file *os.File }

// ErrLocked tells that another process holds the lock.
var ErrLocked = errors.New("locked by another process")

// TryLock takes the lock or returns ErrLocked at once.
func TryLock(path string) (*Lock, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, ErrLocked
		}
		return nil, fmt.Errorf("cannot lock %s: %w", path, err)
	}
	// Whoever held it may have removed the file: what we locked is nobody's lock then.
	locked, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("cannot lock %s: %w", path, err)
	}
	if there, err := os.Stat(path); err != nil || !os.SameFile(there, locked) {
		_ = file.Close()
		return nil, ErrLocked
	}
	return &Lock{file: file}, nil
}

// Locked tells whether somebody holds the lock, without ever being taken for a holder
// by others who ask.
func Locked(path string) (bool, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

// WaitLock takes the lock as soon as it is free. If it has to wait, waiting is
// called once.
func WaitLock(ctx context.Context, path string, waiting func()) (*Lock, error) {
	const interval = 50 * time.Millisecond // A blocking flock cannot be cancelled.
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for told := false; ; {
		lock, err := TryLock(path)
		if !errors.Is(err, ErrLocked) {
			return lock, err
		}
		if !told {
			told = true
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// Holder returns the id of the process that holds a lock. It is the kernel's
// word: an id written to a file may long belong to another process.
func Holder(path string) (int, error) {
	locked, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return 0, err
	}
	inode := strconv.FormatUint(locked.Sys().(*syscall.Stat_t).Ino, 10)
	for line := range strings.Lines(string(locks)) {
		// 1: FLOCK  ADVISORY  WRITE 708 08:01:1234 0 EOF
		fields := strings.Fields(line)
		if len(fields) != 8 || fields[1] != "FLOCK" || fields[3] != "WRITE" || !strings.HasSuffix(fields[5], ":"+inode) {
			continue
		}
		if pid, err := strconv.Atoi(fields[4]); err == nil && hasOpen(pid, locked) {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("nobody holds %s", path)
}

// hasOpen tells whether a process has a file open. The list of locks names files
// by numbers that are unique on one file system only.
func hasOpen(pid int, file os.FileInfo) bool {
	dir := fmt.Sprintf("/proc/%d/fd/", pid)
	descriptors, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(descriptors, func(d os.DirEntry) bool {
		open, err := os.Stat(dir + d.Name())
		return err == nil && os.SameFile(open, file)
	})
}

// Unlock releases the lock.
func (l *Lock) Unlock() { _ = l.file.Close() }
