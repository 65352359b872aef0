package chain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Process is a process of a node.
type Process struct {
	PID int
	// Log has standard output and standard error.
	Log string

	command *exec.Cmd
	began   int64 // how long the log was before
	done    chan struct{}
}

// Spawn starts a process that does not outlive this one. Its output is added to a file.
func Spawn(command *exec.Cmd, log string) (*Process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // The child has its own descriptor.
	earlier, err := file.Stat()
	if err != nil {
		return nil, err
	}
	command.Stdout, command.Stderr = file, file
	command.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL,
		Setpgid:   true, // Ctrl-C is for the parent, which stops its nodes in order.
	}
	p := &Process{Log: log, command: command, began: earlier.Size(), done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The kernel sends that signal when the thread ends that forked.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait() // ProcessState says it better.
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	p.PID = command.Process.Pid
	return p, nil
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// listens waits until the node takes connections of peers. It does not connect: the engine
// refuses an address that connects again at once, and on loopback all have the same.
func (p *Process) listens(ctx context.Context) error {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !strings.Contains(p.Output(), `msg="starting router"`) {
		select {
		case <-ticker.C:
		case <-p.done:
			return fmt.Errorf("it ended with %d:\n%s", p.Wait(), p.Tail(20))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Signal sends a signal; to a process that has ended that is no error.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.command.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Wait returns the exit code, as a shell tells it: 128 and the number of the signal
// that killed it.
func (p *Process) Wait() int {
	<-p.done
	if status, ok := p.command.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return p.command.ProcessState.ExitCode()
}

// Output is what was written since the process began: nothing of earlier ones.
func (p *Process) Output() string {
	text, err := os.ReadFile(p.Log)
	if err != nil {
		return fmt.Sprintf("(%v)", err)
	}
	return string(text[min(p.began, int64(len(text))):])
}

// Tail is the last lines of the output.
func (p *Process) Tail(lines int) string {
	all := strings.Split(strings.TrimRight(p.Output(), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
