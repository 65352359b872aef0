package kube

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sei-operator/sei-operator/lab/build"
	"github.com/sei-operator/sei-operator/lab/process"
)

// Background is the one cluster of its kind and user that runs without a terminal.
type Background struct{ dir string }

// NewBackground finds the user's background cluster in a directory of the lab's cache.
func NewBackground(dir string) Background { return Background{dir} }

// ErrNotRunning tells that there is no background cluster.
var ErrNotRunning = errors.New("no cluster is running: start one with \"up\"")

// Dir is the directory of the cluster itself.
func (b Background) Dir() string { return filepath.Join(b.dir, "cluster") }

// running is held by the supervisor for as long as it lives: it alone tells
// whether the cluster runs.
func (b Background) running() string  { return filepath.Join(b.dir, "running.lock") }
func (b Background) changing() string { return filepath.Join(b.dir, "changing.lock") }
func (b Background) info() string     { return filepath.Join(b.dir, "info.json") }
func (b Background) log() string      { return filepath.Join(b.dir, "supervisor.log") }

// Info describes the running cluster, or returns ErrNotRunning.
func (b Background) Info() (Info, error) {
	running, err := build.Locked(b.running())
	if err != nil {
		return Info{}, err
	}
	if !running {
		return Info{}, ErrNotRunning
	}
	content, err := os.ReadFile(b.info())
	if err != nil {
		return Info{}, errors.New("the cluster is still starting")
	}
	var info Info
	return info, json.Unmarshal(content, &info)
}

// Serve is the supervisor of the background cluster.
func (b Background) Serve(ctx context.Context, run func(ready func(Info) error) error, ready func(Info) error) error {
	// Whoever asks whether the cluster runs holds the lock for a moment.
	waiting, cancel := context.WithTimeout(ctx, 5*time.Second)
	lock, err := build.WaitLock(waiting, b.running(), func() {})
	cancel()
	if err != nil {
		return fmt.Errorf("the background cluster runs already: %w", err)
	}
	defer lock.Unlock()
	defer func() { _ = os.Remove(b.info()) }()
	return run(func(info Info) error {
		content, err := json.Marshal(info)
		if err != nil {
			return err
		}
		// Renamed into place, so that nobody reads half of it.
		if err := os.WriteFile(b.info()+".new", content, 0o600); err != nil {
			return err
		}
		if err := os.Rename(b.info()+".new", b.info()); err != nil {
			return err
		}
		return ready(info)
	})
}

// Up starts the cluster unless it runs already, by running serve (a command that
// calls Serve and prints the Info) in a session of its own.
func (b Background) Up(ctx context.Context, serve *exec.Cmd) (info Info, already bool, err error) {
	unlock, err := b.change(ctx)
	if err != nil {
		return Info{}, false, err
	}
	defer unlock()
	info, err = b.Info()
	if !errors.Is(err, ErrNotRunning) {
		return info, err == nil, err
	}
	log, err := os.Create(b.log())
	if err != nil {
		return Info{}, false, err
	}
	defer func() { _ = log.Close() }() // The supervisor has its own descriptor.
	serve.Stderr = log
	serve.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := serve.StdoutPipe()
	if err != nil {
		return Info{}, false, err
	}
	if err := serve.Start(); err != nil {
		return Info{}, false, err
	}
	stopWatching := context.AfterFunc(ctx, func() { _ = serve.Process.Signal(syscall.SIGTERM) })
	defer stopWatching()
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		_ = serve.Wait()
		return Info{}, false, fmt.Errorf("the cluster did not start:\n%s\nlog: %s", process.Tail(b.log(), 20), b.log())
	}
	return info, false, errors.Join(json.Unmarshal(line, &info), serve.Process.Release())
}

// Down ends the cluster and returns when all of its processes are gone.
func (b Background) Down(ctx context.Context) error {
	unlock, err := b.change(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	info, err := b.Info()
	if errors.Is(err, ErrNotRunning) {
		return err
	}
	pid, err := build.Holder(b.running())
	if err != nil {
		return fmt.Errorf("cannot find the cluster's supervisor: %w", err)
	}
	// Asked politely first, since it removes its data; its children end with it either way.
	for _, attempt := range []struct {
		signal  syscall.Signal
		timeout time.Duration
	}{{syscall.SIGTERM, 20 * time.Second}, {syscall.SIGKILL, 20 * time.Second}} {
		if err := syscall.Kill(pid, attempt.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("cannot end process %d: %w", pid, err)
		}
		waiting, cancel := context.WithTimeout(ctx, attempt.timeout)
		lock, err := build.WaitLock(waiting, b.running(), func() {})
		cancel()
		if err == nil {
			lock.Unlock()
			return waitGone(ctx, info.Components)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return fmt.Errorf("process %d does not end, not even when killed", pid)
}

// change makes starting and ending wait for each other.
func (b Background) change(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return nil, err
	}
	lock, err := build.WaitLock(ctx, b.changing(), func() {
		fmt.Fprintln(os.Stderr, "waiting for another \"up\" or \"down\" to finish")
	})
	if err != nil {
		return nil, err
	}
	return lock.Unlock, nil
}

// waitGone waits until processes have ended that are ending already.
func waitGone(ctx context.Context, components map[string]int) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for name, pid := range components {
		for process.Alive(pid) {
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s (process %d) has not ended", name, pid)
			case <-ticker.C:
			}
		}
	}
	return nil
}
