package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// useFile is locked by everybody who uses its directory, and touched at every use: it
// is shared by those who run the binaries in it, and held alone by those who claim it.
const useFile = ".in-use"

// How long directories stay that nobody uses: builds of other pins long enough to go
// back and forth between branches, and not for ever, since one set is some hundred MB;
// what is claimed is as large, made in seconds, and of a copy of the repository that may
// be gone.
const (
	keepBuilds  = 30 * 24 * time.Hour
	keepClaimed = 7 * 24 * time.Hour
)

// use marks a finished build as being used.
func use(dir, version string) (*Result, error) {
	path := filepath.Join(dir, useFile)
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, err // It is being removed.
	}
	if _, err := os.Stat(path); err != nil {
		_ = file.Close()
		return nil, err // It was removed before we had the lock.
	}
	touch(path)
	return &Result{Dir: dir, Version: version, use: file}, nil
}

func touch(path string) {
	now := time.Now()
	_ = os.Chtimes(path, now, now)
}

// Claim makes a directory that nobody else may claim until the lock is released, and
// removes those next to it that nobody has claimed for long. If it has to wait, waiting
// is called with the process that has it.
func Claim(ctx context.Context, dir string, waiting func(holder int)) (*Lock, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("cannot create the lab's cache: %w", err)
	}
	path := filepath.Join(dir, useFile)
	lock, err := WaitLock(ctx, path, func() {
		holder, _ := Holder(path)
		waiting(holder)
	})
	if err != nil {
		return nil, err
	}
	touch(path)
	prune(filepath.Join(filepath.Dir(dir), "*"), dir, keepClaimed, time.Now())
	return lock, nil
}

// prune removes the directories of a pattern that nobody uses and nobody has used for long.
func prune(pattern, except string, keep time.Duration, now time.Time) {
	dirs, err := filepath.Glob(pattern)
	if err != nil {
		return
	}
	for _, dir := range dirs {
		if dir != except {
			_ = removeUnused(dir, keep, now)
		}
	}
}

func removeUnused(dir string, keep time.Duration, now time.Time) error {
	file, err := os.Open(filepath.Join(dir, useFile))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if now.Sub(info.ModTime()) < keep {
		return errors.New("used lately")
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return err
	}
	// Out of the way first, so that half of it is never taken for a build.
	removed := filepath.Join(filepath.Dir(dir), unfinished+filepath.Base(dir))
	if err := os.Rename(dir, removed); err != nil {
		return err
	}
	return os.RemoveAll(removed)
}
