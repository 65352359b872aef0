package supervisor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/test/fakeseid"
)

func TestUpgradeIsProven(t *testing.T) {
	want := Upgrade{Name: "v9.9.9", Height: 1477, Info: `{"note":"test"}`}
	for name, c := range map[string]struct{ line, file bool }{
		"by the line":     {true, false},
		"by the file":     {false, true},
		"by both of them": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			// One that was carried out long ago.
			r.write("data/upgrade-info.json", []byte(`{"name":"v6.6","height":106}`))
			r.run()
			first, p := r.start(Approval{})
			p.Do(t, fakeseid.Halt(fakeseid.Plan{Name: want.Name, Height: want.Height, Info: want.Info, Line: c.line, File: c.file}))
			state := r.await("parked", phase(Parked))
			if state.ParkedBecause != ParkedUpgrade || state.Upgrade == nil || *state.Upgrade != want || state.Terminating {
				t.Fatalf("%+v", state)
			}
			if e := state.LastExit; e.Code != 2 || e.Cause != UpgradeNeeded || e.Instance != first.Instance {
				t.Fatalf("%+v", e)
			}
			if _, err := r.client.Start(t.Context(), StartRequest{}); reason(err) != ReasonParked {
				t.Fatalf("start of a halted one: %v", err)
			}
			again, err := r.client.Start(t.Context(), StartRequest{Parked: true})
			if err != nil || again.State != Starting || again.Upgrade != nil || again.ParkedBecause != "" {
				t.Fatalf("start of a halted one by somebody who means it: %+v, %v", again, err)
			}
		})
	}
}

func TestUpgradeFileWrittenAgainWithTheSameText(t *testing.T) {
	r := newRig(t)
	r.run()
	plan := fakeseid.Plan{Name: "v7", Height: 10, File: true}
	_, p := r.start(Approval{})
	p.Do(t, fakeseid.Halt(plan))
	first := r.await("parked", phase(Parked)).Instance
	if _, err := r.client.Start(t.Context(), StartRequest{Parked: true}); err != nil {
		t.Fatal(err)
	}
	r.control.Next(t).Do(t, fakeseid.Halt(plan))
	r.await("parked again", func(s State) bool { return s.State == Parked && s.Instance != first })
}

func TestExitThatIsNoUpgrade(t *testing.T) {
	line := "UPGRADE \"v7\" NEEDED at height: 10: \n"
	for name, c := range map[string]struct {
		steps []fakeseid.Step
		code  int
		cause Cause
	}{
		"code 2 beside a stale file": {[]fakeseid.Step{fakeseid.Exit(2)}, 2, Crashed},
		"code 0":                     {[]fakeseid.Step{fakeseid.Exit(0)}, 0, Crashed},
		"code 0 after the line":      {[]fakeseid.Step{fakeseid.Print("stderr", line), fakeseid.Exit(0)}, 0, Crashed},
		"the line inside another":    {[]fakeseid.Step{fakeseid.Print("stdout", "memo: "+line), fakeseid.Exit(2)}, 2, Crashed},
		"a signal":                   {[]fakeseid.Step{fakeseid.Die(syscall.SIGKILL)}, 137, Crashed},
		"a ruined volume": {[]fakeseid.Step{
			fakeseid.Print("stderr", "Error: error starting node: error on replay: could not find FinalizeBlock responses for height #650\n"),
			fakeseid.Exit(1),
		}, 1, VolumeRuined},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.write("data/upgrade-info.json", []byte(`{"name":"v6.6","height":106}`))
			r.run()
			_, p := r.start(Approval{})
			p.Do(t, c.steps...)
			if code := r.end(); code != c.code {
				t.Errorf("ended with %d", code)
			}
			left, err := recall(r.socket)
			if err != nil || left.LastExit.Code != c.code || left.LastExit.Cause != c.cause || left.Upgrade != nil || left.Restarts[c.cause] != 1 {
				t.Errorf("left behind: %+v, %v", left.LastExit, err)
			}
		})
	}
}

func TestWatchersHearOfACrash(t *testing.T) {
	r := newRig(t)
	r.run()
	first, p := r.start(Approval{})
	const count = 5
	last := make(chan State)
	ready := make(chan struct{}, count)
	for range count {
		go func() { last <- lastHeard(t.Context(), r.client, ready) }()
	}
	for range count {
		<-ready
	}
	p.Do(t, fakeseid.Exit(7))
	exit := &Exit{Instance: first.Instance, Code: 7, Cause: Crashed}
	counts := map[Cause]int{Crashed: 1}
	for range count {
		r.expect("the last a watcher heard", <-last, State{
			State: Stopped, Instance: first.Instance, SafeToStop: true, Terminating: true, LastExit: exit, Restarts: counts,
		})
	}
	if code := r.end(); code != 7 {
		t.Fatal(code)
	}

	// The next supervisor knows, and counts on.
	r.run()
	state, err := r.client.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.expect("the next supervisor", state, State{State: Waiting, SafeToStop: true, LastExit: exit, Restarts: counts})
}

// lastHeard watches until the supervisor is gone.
func lastHeard(ctx context.Context, client *Client, ready chan<- struct{}) State {
	var last State
	for state, err := range client.Watch(ctx) {
		if err != nil {
			break
		}
		if last.State == "" {
			ready <- struct{}{}
		}
		last = state
	}
	return last
}

func TestTornRecordIsForgotten(t *testing.T) {
	r := newRig(t)
	r.write("../s.last", []byte(`{"lastExit":{"ins`))
	r.run()
	state, err := r.client.State(t.Context())
	if err != nil || state.LastExit != nil {
		t.Fatalf("%+v, %v", state, err)
	}
}

func TestTermination(t *testing.T) {
	t.Run("before the first start", func(t *testing.T) {
		r := newRig(t)
		r.run()
		r.signals <- syscall.SIGTERM
		if code := r.end(); code != 0 {
			t.Fatal(code)
		}
	})
	t.Run("parked", func(t *testing.T) {
		r := newRig(t, fakeseid.Halt(fakeseid.Plan{Name: "v7", Height: 10, Line: true}))
		r.run()
		if _, err := r.client.Start(t.Context(), StartRequest{}); err != nil {
			t.Fatal(err)
		}
		r.await("parked", phase(Parked))
		r.signals <- syscall.SIGINT
		if code := r.end(); code != 0 {
			t.Fatal(code)
		}
	})
	t.Run("held back until it is safe", func(t *testing.T) {
		r := newRig(t)
		r.run()
		_, p := r.start(Approval{})
		r.signals <- syscall.SIGTERM
		state := r.await("terminating", func(s State) bool { return s.Terminating })
		if state.State != Starting || state.PID != p.PID {
			t.Fatalf("%+v", state)
		}
		for name, call := range map[string]func() (State, error){
			"start":   func() (State, error) { return r.client.Start(t.Context(), StartRequest{}) },
			"restart": func() (State, error) { return r.client.Restart(t.Context(), RestartRequest{}) },
		} {
			if _, err := call(); reason(err) != ReasonTerminating {
				t.Errorf("%s: %v", name, err)
			}
		}
		r.settle(p, -1)
		p.Signal(t)
		p.Do(t, fakeseid.Exit(3))
		if code := r.end(); code != 3 {
			t.Fatal(code)
		}
		expectExit(r, Terminated, Clean)
	})
	t.Run("held back for too long", func(t *testing.T) {
		r := newRig(t)
		r.config("[statesync]\nenable = true\n", "")
		r.run()
		r.start(Approval{})
		r.signals <- syscall.SIGTERM
		r.clock.pass(t, 480*time.Second)
		if code := r.end(); code != 143 {
			t.Fatal(code)
		}
		expectExit(r, Terminated, Unsafe)
	})
	t.Run("in the middle of a restart", func(t *testing.T) {
		r := newRig(t)
		r.run()
		_, p := r.settled(fakeseid.WhenTold)
		restart := async(func() (State, error) { return r.client.Restart(t.Context(), RestartRequest{}) })
		p.Signal(t)
		r.signals <- syscall.SIGTERM
		r.await("terminating", func(s State) bool { return s.Terminating })
		p.Do(t, fakeseid.Exit(0))
		if _, err := r.answer(restart); reason(err) != ReasonTerminating {
			t.Errorf("restart: %v", err)
		}
		if code := r.end(); code != 0 {
			t.Fatal(code)
		}
		expectExit(r, Requested, Clean)
	})
	t.Run("crash while held back", func(t *testing.T) {
		r := newRig(t)
		r.run()
		_, p := r.start(Approval{})
		r.signals <- syscall.SIGTERM
		r.await("terminating", func(s State) bool { return s.Terminating })
		p.Do(t, fakeseid.Exit(1))
		if code := r.end(); code != 1 {
			t.Fatal(code)
		}
		expectExit(r, Crashed, "")
	})
}

func expectExit(r *rig, cause Cause, how How) {
	r.t.Helper()
	left, err := recall(r.socket)
	if err != nil || left.LastExit.Cause != cause || left.LastExit.How != how {
		r.t.Errorf("left behind: %+v, %v", left.LastExit, err)
	}
}

func TestUpgradeDuringAStopParks(t *testing.T) {
	r := newRig(t)
	r.run()
	_, p := r.settled(fakeseid.WhenTold)
	restart := async(func() (State, error) { return r.client.Restart(t.Context(), RestartRequest{}) })
	p.Signal(t)
	p.Do(t, fakeseid.Halt(fakeseid.Plan{Name: "v7", Height: 10, File: true, Line: true}))
	if _, err := r.answer(restart); reason(err) != ReasonParked {
		t.Fatal(err)
	}
	r.await("parked", phase(Parked))
}

func TestOutputPassesUnchanged(t *testing.T) {
	r := newRig(t)
	r.run()
	_, p := r.start(Approval{})
	long := strings.Repeat("x", 3<<20)
	raw := "\x00\xff no end of line, \r\n\n"
	p.Do(t,
		fakeseid.Print("stdout", raw), fakeseid.Print("stderr", "first "+raw),
		fakeseid.Print("stdout", long), fakeseid.Flood("stderr", "line\n", 10000),
		fakeseid.Print("stdout", "the end"), fakeseid.Exit(0),
	)
	r.end()
	if got, want := r.stdout.String(), raw+long+"the end"; got != want {
		t.Errorf("stdout has %d bytes, want %d", len(got), len(want))
	}
	if got, want := r.stderr.String(), "first "+raw+strings.Repeat("line\n", 10000); got != want {
		t.Errorf("stderr has %d bytes, want %d", len(got), len(want))
	}
}

// blocked is an output that nobody reads.
type blocked chan struct{}

func (b blocked) Write(text []byte) (int, error) {
	<-b
	return len(text), nil
}

func TestOutputThatNobodyReadsHidesNothing(t *testing.T) {
	r := newRig(t)
	stuck := make(blocked)
	t.Cleanup(func() { close(stuck) })
	r.cfg.Stderr = stuck
	r.run()
	_, p := r.start(Approval{})
	p.Do(t, fakeseid.Halt(fakeseid.Plan{Name: "v7", Height: 10, Line: true}))
	r.clock.pass(t, r.current.cfg.Timing.Flush)
	r.await("parked", phase(Parked))
}

func TestCauseOf(t *testing.T) {
	upgrade := &Upgrade{Name: "v7", Height: 1}
	tooNew, elsewhere := &seid.FatalLine{Reason: seid.TooNew}, &seid.FatalLine{Reason: seid.SignedElsewhere}
	for _, c := range []struct {
		evidence evidence
		want     Cause
	}{
		{evidence{code: 0}, Crashed},
		{evidence{code: 2}, Crashed},
		{evidence{code: 2, upgrade: upgrade}, UpgradeNeeded},
		{evidence{code: 0, upgrade: upgrade}, Crashed},
		{evidence{code: 0, upgrade: upgrade, asked: Requested}, Requested},
		{evidence{code: 2, upgrade: upgrade, asked: Terminated}, UpgradeNeeded},
		{evidence{code: 143, asked: Terminated}, Terminated},
		{evidence{code: 1, ruined: true}, VolumeRuined},
		{evidence{code: 0, ruined: true}, Crashed},
		{evidence{code: 1, ruined: true, asked: Requested}, Requested},
		// Started again it would only end again, so that somebody asked it to end says less.
		{evidence{code: 2, fatal: tooNew, asked: Requested}, BinaryTooNew},
		{evidence{code: 0, fatal: tooNew, asked: Requested}, Requested},
		{evidence{code: 2, fatal: elsewhere, asked: Requested}, Requested},
		{evidence{code: 2, fatal: elsewhere}, SignedElsewhere},
	} {
		t.Run(fmt.Sprintf("%+v", c.evidence), func(t *testing.T) {
			if got := causeOf(c.evidence); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestPanicsThatNeedSomebody: each is named by what this seid said. With another binary
// it would not help to try again; a key that signs elsewhere is looked for at each start.
func TestPanicsThatNeedSomebody(t *testing.T) {
	for name, c := range map[string]struct {
		step   fakeseid.Step
		cause  Cause
		parked Parking
		says   string
	}{
		"too new": {fakeseid.TooNew("v9"), BinaryTooNew, ParkedTooNew, `BINARY UPDATED BEFORE TRIGGER! UPGRADE "v9"`},
		"too old": {fakeseid.TooOld("v9"), BinaryTooOld, ParkedTooOld, "upgrade handler is missing for v9"},
		"another key holder": {
			fakeseid.Print("stderr", "panic: critical task failed: name=state.Run, service=Consensus: found signature from the same key\n"),
			SignedElsewhere, "", "found signature from the same key",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.run()
			_, p := r.start(Approval{})
			p.Do(t, c.step)
			if c.parked == "" {
				p.Do(t, fakeseid.Exit(2))
				if code := r.end(); code != 2 {
					t.Errorf("ended with %d", code)
				}
			} else {
				state := r.await("parked", phase(Parked))
				if state.ParkedBecause != c.parked || !strings.Contains(state.Message, "v9") || state.LastExit.UpgradeName != "v9" {
					t.Errorf("%+v", state)
				}
				if _, err := r.client.Start(t.Context(), StartRequest{}); reason(err) != ReasonParked {
					t.Errorf("start: %v", err)
				}
			}
			left, err := recall(r.socket)
			if err != nil || left.LastExit.Cause != c.cause || !strings.Contains(left.LastExit.Message, c.says) {
				t.Errorf("%+v, %v", left.LastExit, err)
			}
		})
	}
}

// TestSnapshotSearch tells since when seid searches in vain, until it finds one.
func TestSnapshotSearch(t *testing.T) {
	r := newRig(t)
	r.run()
	_, p := r.start(Approval{})
	vain := fakeseid.Print("stdout", "time=now level=INFO msg=\"no snapshots discovered, sleeping\" logger=statesync duration=15s\n")
	p.Do(t, vain)
	since := r.await("searching", func(s State) bool { return s.SnapshotSearch != nil }).SnapshotSearch
	r.clock.advance(time.Minute)
	p.Do(t, vain)
	p.Do(t, fakeseid.Print("stdout", "time=now level=INFO msg=\"discovered and added new snapshot\" height=5\n"))
	r.await("found", func(s State) bool { return s.SnapshotSearch == nil })
	if !since.Equal(r.clock.Now().Add(-time.Minute)) {
		t.Errorf("since %s", since)
	}
	p.Do(t, vain)
	r.await("searching again", func(s State) bool { return s.SnapshotSearch != nil && s.SnapshotSearch.Equal(r.clock.Now()) })
	r.settle(p, fakeseid.AtOnce)
	if state, err := r.client.State(t.Context()); err != nil || state.SnapshotSearch != nil {
		t.Errorf("%+v, %v", state, err)
	}
}

// TestUpgradeFileThatCouldNotBeRead: what was there before the start is not known, so
// what is there after a crash proves nothing.
func TestUpgradeFileThatCouldNotBeRead(t *testing.T) {
	r := newRig(t)
	old := filepath.Join(r.home, "data", "upgrade-info.json")
	// A link that leads to itself cannot be read, and is not absent.
	if err := os.Symlink(old, old); err != nil {
		t.Fatal(err)
	}
	r.run()
	_, p := r.start(Approval{})
	if err := os.Remove(old); err != nil {
		t.Fatal(err)
	}
	r.write("data/upgrade-info.json", []byte(`{"name":"v6.6","height":106}`))
	p.Do(t, fakeseid.Exit(2))
	if code := r.end(); code != 2 {
		t.Errorf("ended with %d", code)
	}
	expectExit(r, Crashed, "")
}
