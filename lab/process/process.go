package process

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Process is one running or ended process.
type Process struct {
	Name string
	PID  int
	Log  string

	spec    Spec
	command *exec.Cmd
	mayEnd  bool
	done    chan struct{}
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitError says how a process ended, with the end of its log: almost always
// the reason is written there.
type ExitError struct {
	Name   string
	Status string
	Log    string
	Tail   string
}

func (e *ExitError) Error() string {
	return fmt.Sprintf("%s ended unexpectedly (%s)\n%slog: %s", e.Name, e.Status, quote(e.Tail), e.Log)
}

// Err explains the end of a process that is done.
func (p *Process) Err() error {
	<-p.done
	return &ExitError{Name: p.Name, Status: p.command.ProcessState.String(), Log: p.Log, Tail: Tail(p.Log, 10)}
}

// pollInterval is short because it is added to every start of a cluster, and not
// shorter because the checks cost time, too.
const pollInterval = 30 * time.Millisecond

// Until calls check until it succeeds. It gives up as soon as the process has
// ended or the context is done.
func (p *Process) Until(ctx context.Context, check func(context.Context) error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return p.Err()
		case <-ctx.Done():
			return fmt.Errorf("%s did not become ready (%w): %w\n%slog: %s", p.Name, context.Cause(ctx), err, quote(Tail(p.Log, 10)), p.Log)
		case <-ticker.C:
		}
	}
}

// Alive tells whether a process still runs. One that has ended but was not yet
// waited for does not.
func Alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// The name before the state is in parentheses and may contain anything.
	_, state, found := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return !found || len(state) == 0 || state[0] != 'Z' && state[0] != 'X'
}

// Tail returns the last lines of a file, or nothing if it cannot be read.
func Tail(path string, lines int) string {
	const enough = 64 << 10 // Log lines of daemons are long, but not that long.
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	start := max(0, info.Size()-enough)
	content := make([]byte, info.Size()-start)
	n, _ := f.ReadAt(content, start)
	content = bytes.TrimRight(content[:n], "\n")
	if len(content) == 0 {
		return ""
	}
	all := strings.Split(string(content), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func quote(tail string) string {
	if tail == "" {
		return ""
	}
	return "its last lines:\n  " + strings.ReplaceAll(tail, "\n", "\n  ") + "\n"
}
