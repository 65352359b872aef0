package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sei-operator/sei-operator/test/fakeseid"
)

// process is a supervisor that is a process of its own, as in a container.
type process struct {
	*rig

	// output replaces the standard output of the next one.
	output io.Writer
	cmd    *exec.Cmd
	done   chan int
}

// newProcess starts one. Its clock is the real one, so what would take long is
// short.
func newProcess(t *testing.T) *process {
	t.Helper()
	p := &process{rig: newRig(t)}
	p.cfg.Timing = Timing{Poll: time.Millisecond, Settle: time.Nanosecond}
	p.launch()
	return p
}

func (p *process) launch() {
	p.t.Helper()
	cfg := p.cfg
	cfg.Clock, cfg.Stdout, cfg.Stderr = nil, nil, nil
	cfg.Reap = true
	text, err := json.Marshal(cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	p.cmd = exec.CommandContext(context.WithoutCancel(p.t.Context()), fakeseid.Executable(p.t))
	p.cmd.Env = append(p.cfg.Env, envConfig+"="+string(text))
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if p.output != nil {
		p.cmd.Stdout = p.output
	}
	// A grandchild may keep the outputs of the supervisor open for ever.
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	done := make(chan int, 1)
	p.done = done
	cmd := p.cmd
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		err := cmd.Wait()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			status := exit.Sys().(syscall.WaitStatus)
			if status.Signaled() {
				done <- -int(status.Signal())
				return
			}
			done <- status.ExitStatus()
			return
		}
		done <- 0
	}()
	p.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-gone
	})
	p.await("a supervisor", func(State) bool { return true })
}

// code is what the process ended with, negative for a signal.
func (p *process) code() int {
	p.t.Helper()
	select {
	case code := <-p.done:
		return code
	case <-time.After(patience):
		p.t.Fatal("the supervisor did not end")
		return 0
	}
}

func (p *process) up() *fakeseid.Process {
	p.t.Helper()
	_, child := p.start(Approval{})
	child.Do(p.t, fakeseid.Catch(fakeseid.AtOnce), fakeseid.Tell(fakeseid.Facts{ChainID: "test-1", NodeID: "id"}), fakeseid.Open(fakeseid.RPC, p.at[fakeseid.RPC]))
	p.await("settled", func(s State) bool { return s.State == Running && s.SafeToStop })
	return child
}

func TestProcessEndsWithTheCodeOfSeid(t *testing.T) {
	for name, c := range map[string]struct {
		step fakeseid.Step
		code int
	}{
		"a code":                 {fakeseid.Exit(3), 3},
		"a panic":                {fakeseid.Exit(2), 2},
		"a signal":               {fakeseid.Die(syscall.SIGKILL), 137},
		"uncaught while booting": {fakeseid.Die(syscall.SIGTERM), 143},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProcess(t)
			_, child := p.start(Approval{})
			child.Do(t, c.step)
			if got := p.code(); got != c.code {
				t.Errorf("ended with %d, want %d", got, c.code)
			}
		})
	}
}

func TestProcessPassesTermination(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			p := newProcess(t)
			child := p.up()
			if err := p.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if got := child.Signal(t); got != "SIGTERM" {
				t.Errorf("seid got %s", got)
			}
			if got := p.code(); got != 0 {
				t.Errorf("ended with %d", got)
			}
			expectExit(p.rig, Terminated, Clean)
		})
	}
}

// TestSignalsThatWouldEndSeid: seid handles none of these, and would die in the middle
// of a write.
func TestSignalsThatWouldEndSeid(t *testing.T) {
	p := newProcess(t)
	child := p.up()
	for _, sig := range []syscall.Signal{unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2, unix.SIGQUIT, unix.SIGWINCH, unix.SIGALRM, unix.SIGTERM} {
		if err := p.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	if got := child.Signal(t); got != "SIGTERM" {
		t.Errorf("seid got %s", got)
	}
	if got := p.code(); got != 0 || !fakeseid.StoresClean(t, p.home) {
		t.Errorf("ended with %d, stores clean: %t", got, fakeseid.StoresClean(t, p.home))
	}
}

// TestNoCoreFile: seid's memory holds the keys.
func TestNoCoreFile(t *testing.T) {
	p := newProcess(t)
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", p.up().PID))
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^Max core file size +0 +0 `).Match(limits) {
		t.Errorf("%s", limits)
	}
}

func TestProcessWithoutSeidSurvivesSignals(t *testing.T) {
	p := newProcess(t)
	for _, sig := range []syscall.Signal{unix.SIGHUP, unix.SIGUSR1, unix.SIGQUIT, unix.SIGPIPE, unix.SIGTERM} {
		if err := p.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.code(); got != 0 {
		t.Errorf("ended with %d", got)
	}
}

func TestSeidHasItsOwnProcessGroup(t *testing.T) {
	p := newProcess(t)
	child := p.up()
	group, err := unix.Getpgid(child.PID)
	if err != nil || group != child.PID {
		t.Errorf("group %d of seid %d, %v", group, child.PID, err)
	}
}

func TestGrandchildHoldsNothingUp(t *testing.T) {
	t.Run("crash", func(t *testing.T) {
		p := newProcess(t)
		_, child := p.start(Approval{})
		child.Do(t, fakeseid.Grandchild())
		p.control.Grandchild(t)
		child.Do(t, fakeseid.Print("stdout", "last words"), fakeseid.Exit(9))
		if got := p.code(); got != 9 {
			t.Errorf("ended with %d", got)
		}
		if !strings.Contains(p.stdout.String(), "last words") {
			t.Errorf("stdout: %q", p.stdout.String())
		}
	})
	t.Run("orphans are collected", func(t *testing.T) {
		p := newProcess(t)
		child := p.up()
		child.Do(t, fakeseid.Grandchild(), fakeseid.Grandchild())
		orphans := []*fakeseid.Process{p.control.Grandchild(t), p.control.Grandchild(t)}
		if _, err := p.client.Stop(t.Context(), StopRequest{}); err != nil {
			t.Fatal(err)
		}
		for _, orphan := range orphans {
			if err := unix.Kill(orphan.PID, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			awaitCollected(t, orphan.PID)
		}
		// And seid itself is never taken away from whoever waits for it.
		for range 20 {
			_, child := p.start(Approval{})
			child.Do(t, fakeseid.Catch(fakeseid.AtOnce))
			if state, err := p.client.Stop(t.Context(), StopRequest{Force: true}); err != nil || state.LastExit.Code != 0 || state.LastExit.Cause != Requested {
				t.Fatalf("%+v, %v", state.LastExit, err)
			}
		}
	})
}

// awaitCollected waits until not even a zombie is left.
func awaitCollected(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.After(patience); ; {
		if errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			return
		}
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			t.Fatalf("process %d was never collected", pid)
		}
	}
}

func TestProcessThatIsKilledKillsNobody(t *testing.T) {
	p := newProcess(t)
	child := p.up()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if got := p.code(); got != -int(unix.SIGKILL) {
		t.Fatalf("ended with %d", got)
	}
	child.Do(t, fakeseid.Block(1)) // It lives and answers.

	// The next one finds the socket of the killed one, and replaces it.
	p.launch()
	if state, err := p.client.State(t.Context()); err != nil || state.State != Waiting {
		t.Fatalf("%+v, %v", state, err)
	}
}

func TestProcessTerminatedWhileBooting(t *testing.T) {
	p := newProcess(t)
	_, child := p.start(Approval{})
	if err := p.cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.await("terminating", func(s State) bool { return s.Terminating })
	child.Do(t, fakeseid.Catch(fakeseid.AtOnce), fakeseid.Tell(fakeseid.Facts{ChainID: "test-1", NodeID: "id"}), fakeseid.Open(fakeseid.RPC, p.at[fakeseid.RPC]))
	if got := p.code(); got != 0 {
		t.Errorf("ended with %d", got)
	}
	expectExit(p.rig, Terminated, Clean)
}

func TestProcessWhoseOutputIsClosedGoesOn(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close() //nolint:errcheck // nobody reads it
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	p := &process{rig: newRig(t)}
	p.cfg.Timing = Timing{Poll: time.Millisecond, Settle: time.Nanosecond}
	p.output = writer
	p.launch()
	child := p.up()
	child.Do(t, fakeseid.Print("stdout", "nobody hears this\n"))
	if state, err := p.client.Stop(t.Context(), StopRequest{}); err != nil || state.LastExit.How != Clean {
		t.Fatalf("%+v, %v", state, err)
	}
}
