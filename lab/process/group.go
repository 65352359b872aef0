// Package process starts the daemons of the lab and makes sure that none of
// them outlives the program that started it.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
)

// Spec says what to start.
type Spec struct {
	Name string
	Path string
	Args []string
	// Env is the whole environment. Nothing is inherited: daemons take settings
	// from variables (ETCD_NAME, HTTP_PROXY, ...) that a person may have set for
	// something else.
	Env []string
	Dir string
	// Log receives standard output and standard error. What was in it before is lost.
	Log string
	// Files are open in the process as descriptors 3 and up.
	Files []*os.File
	// Namespaces (CLONE_NEW...) are the process's own, and its descendants'.
	Namespaces uintptr

	// continued keeps what was in the log.
	continued bool
}

// Group is a set of processes that end together.
type Group struct {
	requests chan request
	stopped  chan struct{}
	first    chan *Process

	mu        sync.Mutex
	stopping  bool
	processes []*Process
}

type request struct {
	command *exec.Cmd
	result  chan error
}

var errStopped = errors.New("the process group has been stopped")

// NewGroup returns an empty group. Stop must be called, also when nothing was started.
func NewGroup() *Group {
	g := &Group{
		requests: make(chan request),
		stopped:  make(chan struct{}),
		first:    make(chan *Process, 1),
	}
	go g.spawn()
	return g
}

// spawn is the only place that forks. The kernel sends the parent-death signal
// when the *thread* that forked ends, not when the process does, so all children
// are forked by one thread that lives as long as the group.
func (g *Group) spawn() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		select {
		case r := <-g.requests:
			r.result <- r.command.Start()
		case <-g.stopped:
			return
		}
	}
}

// Start starts a process that runs until the group is stopped.
func (g *Group) Start(spec Spec) (*Process, error) { return g.start(spec, false) }

// Run runs a command to its end, which is sooner if the context is done or the
// group is stopped.
func (g *Group) Run(ctx context.Context, spec Spec) error {
	p, err := g.start(spec, true)
	if err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		_ = p.command.Process.Kill() // Already gone is what we want.
		<-p.done
		return fmt.Errorf("%s was interrupted: %w", spec.Name, context.Cause(ctx))
	}
	if !p.command.ProcessState.Success() {
		return p.Err()
	}
	return nil
}

// Restart kills a process that Start started, and starts it again. Its log goes on.
func (g *Group) Restart(name string) error {
	g.mu.Lock()
	var old *Process
	for _, p := range g.processes {
		if p.Name == name && !p.mayEnd {
			old = p
		}
	}
	if old == nil {
		g.mu.Unlock()
		return fmt.Errorf("no process is called %s", name)
	}
	old.mayEnd = true
	g.mu.Unlock()
	_ = old.command.Process.Kill() // Already gone is what we want.
	<-old.done
	again := old.spec
	again.continued = true
	_, err := g.start(again, false)
	return err
}

func (g *Group) start(spec Spec, mayEnd bool) (*Process, error) {
	mode := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	if !spec.continued {
		mode |= os.O_TRUNC
	}
	log, err := os.OpenFile(spec.Log, mode, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cannot start %s without its log file: %w", spec.Name, err)
	}
	defer func() { _ = log.Close() }() // The child has its own descriptor.

	command := exec.Command(spec.Path, spec.Args...) //nolint:noctx // it ends with its group, not with the call that starts it
	command.Env = append([]string{}, spec.Env...)
	command.Dir = spec.Dir
	command.Stdout, command.Stderr = log, log
	command.ExtraFiles = spec.Files
	command.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL,
		// Ctrl-C in a terminal goes to the whole foreground group: the daemons
		// must not see it, or they end before whoever supervises them is ready for it.
		Setpgid:    true,
		Cloneflags: spec.Namespaces,
	}

	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopping {
		return nil, fmt.Errorf("cannot start %s: %w", spec.Name, errStopped)
	}
	r := request{command: command, result: make(chan error, 1)}
	g.requests <- r
	if err := <-r.result; err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", spec.Name, err)
	}
	p := &Process{Name: spec.Name, PID: command.Process.Pid, Log: spec.Log, spec: spec, command: command, mayEnd: mayEnd, done: make(chan struct{})}
	g.processes = append(g.processes, p)
	go g.wait(p)
	return p, nil
}

func (g *Group) wait(p *Process) {
	_ = p.command.Wait() // ProcessState says it better.
	g.mu.Lock()
	expected := g.stopping || p.mayEnd
	g.mu.Unlock()
	close(p.done)
	if expected {
		return
	}
	select {
	case g.first <- p:
	default: // Only the first one to go is the cause; the others follow.
	}
}

// Exited delivers the first process that ended although nobody stopped the group.
func (g *Group) Exited() <-chan *Process { return g.first }

// Processes returns what Start started, in that order.
func (g *Group) Processes() []*Process {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(g.processes), func(p *Process) bool { return p.mayEnd })
}

// Stop kills what still runs and returns when every process has been reaped.
// It does not ask politely: whatever the daemons would save is thrown away.
func (g *Group) Stop() {
	g.mu.Lock()
	again := g.stopping
	g.stopping = true
	processes := append([]*Process{}, g.processes...)
	g.mu.Unlock()
	for _, p := range processes {
		_ = p.command.Process.Kill() // Already gone is what we want.
	}
	for _, p := range processes {
		<-p.done
	}
	if !again {
		close(g.stopped)
	}
}
