package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// parentVariable makes the test binary be a supervisor that starts one child and waits.
const parentVariable = "LAB_TEST_PARENT"

func TestMain(m *testing.M) {
	if log := os.Getenv(parentVariable); log != "" {
		child, err := NewGroup().Start(Spec{Name: "child", Path: "/bin/sleep", Args: []string{"1000"}, Log: log})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(child.PID)
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func shell(t *testing.T, script string) Spec {
	t.Helper()
	return Spec{Name: "child", Path: "/bin/sh", Args: []string{"-c", script}, Log: filepath.Join(t.TempDir(), "child.log")}
}

func newGroup(t *testing.T) *Group {
	t.Helper()
	g := NewGroup()
	t.Cleanup(g.Stop)
	return g
}

func start(t *testing.T, g *Group, spec Spec) *Process {
	t.Helper()
	p, err := g.Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestStopEndsEverything(t *testing.T) {
	g := newGroup(t)
	a, b := start(t, g, shell(t, "sleep 1000")), start(t, g, shell(t, "trap '' TERM INT; while :; do sleep 1; done"))
	if !Alive(a.PID) || !Alive(b.PID) {
		t.Error("not alive")
	}
	g.Stop()
	for _, p := range []*Process{a, b} {
		if Alive(p.PID) {
			t.Errorf("%d is alive", p.PID)
		}
	}
	select {
	case p := <-g.Exited():
		t.Errorf("%d counts as unexpected", p.PID)
	default:
	}
	if _, err := g.Start(shell(t, "true")); !errors.Is(err, errStopped) {
		t.Errorf("started after the end: %v", err)
	}
	g.Stop() // Twice is harmless.
}

func TestUnexpectedEndIsExplained(t *testing.T) {
	g := newGroup(t)
	spec := shell(t, "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo line $i; done; exit 3")
	p := start(t, g, spec)
	if dead := <-g.Exited(); dead != p {
		t.Errorf("another process: %v", dead)
	}
	message := p.Err().Error()
	for _, part := range []string{"child ended unexpectedly", "exit status 3", "line 3\n", "line 12\n", spec.Log} {
		if !strings.Contains(message, part) {
			t.Errorf("missing %q in %s", part, message)
		}
	}
	if strings.Contains(message, "line 2\n") {
		t.Errorf("too long: %s", message)
	}
}

func TestRun(t *testing.T) {
	g := newGroup(t)
	if err := g.Run(t.Context(), shell(t, "true")); err != nil {
		t.Error(err)
	}
	var exit *ExitError
	if err := g.Run(t.Context(), shell(t, "echo no; exit 3")); !errors.As(err, &exit) || exit.Tail != "no" {
		t.Errorf("error: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if err := g.Run(ctx, shell(t, "sleep 1000")); !errors.Is(err, enough) {
		t.Errorf("error: %v", err)
	}
	select {
	case p := <-g.Exited():
		t.Errorf("the end of %d counts as unexpected", p.PID)
	default:
	}
	if left := g.Processes(); len(left) > 0 {
		t.Errorf("%d daemons", len(left))
	}
}

func TestUntil(t *testing.T) {
	never := func(context.Context) error { return errors.New("not yet") }

	t.Run("ready", func(t *testing.T) {
		p := start(t, newGroup(t), shell(t, "sleep 1000"))
		calls := 0
		err := p.Until(t.Context(), func(context.Context) error {
			if calls++; calls < 3 {
				return errors.New("not yet")
			}
			return nil
		})
		if err != nil || calls != 3 {
			t.Errorf("%d calls, %v", calls, err)
		}
	})
	t.Run("ended", func(t *testing.T) {
		p := start(t, newGroup(t), shell(t, "echo oh no; exit 4"))
		var exit *ExitError
		if err := p.Until(t.Context(), never); !errors.As(err, &exit) || exit.Tail != "oh no" {
			t.Errorf("error: %v", err)
		}
	})
	t.Run("too late", func(t *testing.T) {
		p := start(t, newGroup(t), shell(t, "sleep 1000"))
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("out of patience"))
		err := p.Until(ctx, never)
		if err == nil || !strings.Contains(err.Error(), "child did not become ready (out of patience): not yet") {
			t.Errorf("error: %v", err)
		}
	})
}

func TestEnvironmentIsNotInherited(t *testing.T) {
	t.Setenv("ETCD_NAME", "surprise")
	g := newGroup(t)
	spec := shell(t, "echo ${ETCD_NAME:-nothing} $MINE; exit 1")
	spec.Env = []string{"MINE=mine"}
	p := start(t, g, spec)
	<-p.Done()
	if got := Tail(spec.Log, 1); got != "nothing mine" {
		t.Errorf("%q", got)
	}
}

func TestChildDiesWithAKilledParent(t *testing.T) {
	parent := exec.CommandContext(t.Context(), os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"="+filepath.Join(t.TempDir(), "log"))
	parent.Stderr = os.Stderr
	if _, err := parent.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var child int
	if _, err := fmt.Sscan(line, &child); err != nil {
		t.Fatal(err)
	}
	if !Alive(child) {
		t.Fatal("the child never lived")
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	deadline := time.After(time.Minute)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for Alive(child) {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("process %d outlived its parent", child)
		}
	}
}

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if got := Tail(path, 3); got != "" {
		t.Errorf("%q", got)
	}
	long := strings.Repeat("x", 100<<10)
	if err := os.WriteFile(path, []byte(long+"\na\nb\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := Tail(path, 2); got != "a\nb" {
		t.Errorf("%q", got)
	}
}

// A restart is no end that anybody has to hear of; the next end is.
func TestRestart(t *testing.T) {
	g := newGroup(t)
	spec := shell(t, "echo started; exec sleep 1000")
	old := start(t, g, spec)
	if err := g.Restart("child"); err != nil {
		t.Fatal(err)
	}
	if Alive(old.PID) {
		t.Error("the old process is alive")
	}
	running := g.Processes()
	if len(running) != 1 || running[0].PID == old.PID || !Alive(running[0].PID) {
		t.Fatalf("after the restart there is %v", running)
	}
	select {
	case dead := <-g.Exited():
		t.Errorf("process %d is said to have ended by itself", dead.PID)
	default:
	}
	if err := running[0].command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if dead := <-g.Exited(); dead.PID != running[0].PID {
		t.Errorf("process %d has ended, not %d", dead.PID, running[0].PID)
	}
	if err := g.Restart("nobody"); err == nil {
		t.Error("a process that does not exist was restarted")
	}
}
