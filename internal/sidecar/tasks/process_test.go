package tasks

import (
	"context"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
	"github.com/sei-operator/sei-operator/test/fakeseid"
)

func (l *life) approve(w *world) {
	l.t.Helper()
	if err := l.tasks.Consent.Approve("", w.nodeID, 0); err != nil {
		l.t.Fatal(err)
	}
}

func (l *life) hold() {
	l.t.Helper()
	if err := l.tasks.Consent.Hold("test", "test", 1); err != nil {
		l.t.Fatal(err)
	}
}

func TestStopSeid(t *testing.T) {
	w := newWorld(t)
	w.supervise()
	l := w.live(nil)
	l.fails(ReasonNotHeld, false, TypeStopSeid, "")
	l.hold()
	if got := done[StopSeidResult](l, TypeStopSeid, ""); got.Changed || got.Exit != nil {
		t.Errorf("there was nothing to stop: %+v", got)
	}
	state, p := w.seid()
	got := done[StopSeidResult](l, TypeStopSeid, "")
	if !got.Changed || got.Instance != state.Instance || got.Exit == nil || *got.Exit != (Exit{How: supervisor.Clean}) {
		t.Errorf("%+v", got)
	}
	p.AwaitExit(t)
	if again := done[StopSeidResult](l, TypeStopSeid, ""); again.Changed || again.Instance != state.Instance {
		t.Errorf("the second one: %+v", again)
	}
}

// TestAProofHoldsNobody: that seid has stopped is proven for whoever holds the node. A
// hold that was placed meanwhile stays somebody else's, and a release stays one.
func TestAProofHoldsNobody(t *testing.T) {
	t.Run("another hold", func(t *testing.T) {
		w := newWorld(t)
		w.supervise()
		l := w.live(nil)
		ours := l.ended(l.submit(TypeMarkNotReady, `{"reason":"ours"}`)).ID
		theirs := l.ended(l.submit(TypeMarkNotReady, `{"reason":"theirs"}`)).ID
		proof := l.ended(l.submit(TypeStopSeid, ""))
		result[StopSeidResult](t, proof)
		for _, id := range []uuid.UUID{ours, proof.ID} {
			l.fails(ReasonSuperseded, false, TypeReleaseHold, `{"hold":"`+id.String()+`"}`)
		}
		if !l.tasks.Consent.State().Held {
			t.Fatal("a hold of somebody else was released")
		}
		done[ReleaseHoldResult](l, TypeReleaseHold, `{"hold":"`+theirs.String()+`"}`)
	})
	t.Run("a release", func(t *testing.T) {
		w := newWorld(t)
		w.supervise()
		l := w.live(nil)
		l.approve(w)
		done[MarkNotReadyResult](l, TypeMarkNotReady, "")
		done[ReleaseHoldResult](l, TypeReleaseHold, "")
		l.fails(ReasonNotHeld, false, TypeStopSeid, "")
		if !l.tasks.Consent.Wanted() {
			t.Error("a node that was released is held again")
		}
	})
}

func TestStopSeidThatDoesNotEnd(t *testing.T) {
	w := newWorld(t)
	w.grace = 2 * time.Millisecond
	w.at = fakeseid.Addresses(fakeseid.Host(t))
	w.serving = append(fakeseid.Serving(w.at, fakeseid.Facts{ChainID: chainID, NodeID: "n", Height: 1})[:len(w.at)+1], fakeseid.Catch(fakeseid.WhenTold))
	w.supervise()
	l := w.live(nil)
	_, p := w.seid()
	l.hold()
	l.fails(ReasonStillRunning, true, TypeStopSeid, "")
	if w.state().PID == 0 {
		t.Error("it was killed")
	}
	done := l.submit(TypeStopSeid, "")
	p.Signal(t)
	p.Do(t, fakeseid.Exit(0))
	if task := l.ended(done); task.Reason != "" && task.Reason != ReasonStillRunning {
		t.Errorf("%+v", task)
	}
}

// A seid that restores a snapshot is not stopped: that would ruin the volume.
func TestStopSeidThatIsNotSafe(t *testing.T) {
	w := newWorld(t)
	w.write("config/config.toml", strings.Replace(w.read("config/config.toml"), "enable = false", "enable = true", 1))
	w.serving = []fakeseid.Step{fakeseid.Catch(fakeseid.AtOnce)}
	w.supervise()
	if _, err := w.client.Start(t.Context(), supervisor.StartRequest{}); err != nil {
		t.Fatal(err)
	}
	p := w.control.Next(t)
	l := w.live(nil, withClock(&late{}))
	l.hold()
	task := l.fails(ReasonNotSafeToStop, true, TypeStopSeid, "")
	if !strings.Contains(task.Error, string(supervisor.StateSyncing)) {
		t.Errorf("it does not say why: %s", task.Error)
	}
	if w.state().PID == 0 {
		t.Error("it was stopped")
	}
	// Somebody knows better.
	if got := done[StopSeidResult](l, TypeStopSeid, `{"force":true}`); !got.Changed || got.Exit == nil || got.Exit.How != supervisor.Unsafe {
		t.Errorf("%+v", got)
	}
	p.AwaitExit(t)
}

func TestRestartSeidThatIsNotSafe(t *testing.T) {
	w := newWorld(t)
	w.write("config/config.toml", strings.Replace(w.read("config/config.toml"), "enable = false", "enable = true", 1))
	w.serving = []fakeseid.Step{fakeseid.Catch(fakeseid.AtOnce)}
	w.supervise()
	if _, err := w.client.Start(t.Context(), supervisor.StartRequest{}); err != nil {
		t.Fatal(err)
	}
	p := w.control.Next(t)
	l := w.live(nil)
	l.approve(w)
	id := l.submit(TypeRestartSeid, `{"force":true}`)
	p.AwaitExit(t)
	w.control.Next(t).Do(t, fakeseid.Serving(w.at, fakeseid.Facts{ChainID: chainID, NodeID: "n", Height: 7})[:len(w.at)+1]...)
	if got := result[RestartSeidResult](t, l.ended(id)); got.How != supervisor.Unsafe {
		t.Errorf("%+v", got)
	}
}

func TestRestartSeid(t *testing.T) {
	w := newWorld(t)
	w.supervise()
	l := w.live(nil)
	l.fails(ReasonNotApproved, false, TypeRestartSeid, "")
	l.approve(w)
	old, p := w.seid()
	writeFile(t, w.path("mounted.json"), `{"serial":3,"chainId":"sample-1","mode":"fullNode","overrides":{"config.p2p.max-connections":"77"}}`)

	got := done[RestartSeidResult](l, TypeRestartSeid, "")
	p.AwaitExit(t)
	state := w.state()
	want := RestartSeidResult{Changed: true, OldInstance: old.Instance, NewInstance: state.Instance, PID: state.PID, How: supervisor.Clean, GapSeconds: got.GapSeconds}
	if got != want || state.Instance == old.Instance || state.State != supervisor.Running || got.GapSeconds < 0 {
		t.Errorf("%+v, want %+v", got, want)
	}
	if n := state.Restarts[supervisor.Requested]; n != 1 {
		t.Errorf("%d restarts", n)
	}
	if !strings.Contains(w.read("config/config.toml"), "max-connections = 77") {
		t.Error("the mounted configuration was not applied")
	}
}

// Where nothing runs, a restart is a start.
func TestRestartSeidStartsOne(t *testing.T) {
	w := newWorld(t)
	w.supervise()
	l := w.live(nil)
	l.approve(w)
	got := done[RestartSeidResult](l, TypeRestartSeid, "")
	if got.OldInstance != "" || got.NewInstance == "" || got.NewInstance != w.state().Instance {
		t.Errorf("%+v", got)
	}
}

// A seid that crashes while it is awaited takes its supervisor with it; the next one
// starts it again, and that is the restart.
func TestRestartSeidLivesThroughACrash(t *testing.T) {
	w := newWorld(t)
	at := fakeseid.Addresses(fakeseid.Host(t))
	w.at, w.serving = at, []fakeseid.Step{fakeseid.Catch(fakeseid.AtOnce)}
	w.supervise()
	l := w.live(nil)
	l.approve(w)
	id := l.submit(TypeRestartSeid, "")
	first := w.control.Next(t)
	l.driven()
	first.Do(t, fakeseid.Exit(1))
	second := w.control.Next(t)
	second.Do(t, fakeseid.Serving(at, fakeseid.Facts{ChainID: chainID, NodeID: "n", Height: 5})[:len(at)+1]...)
	got := result[RestartSeidResult](t, l.ended(id))
	if got.PID != second.PID {
		t.Errorf("%+v, and the second is %d", got, second.PID)
	}
}

func TestRestartSeidAfterAHalt(t *testing.T) {
	w := newWorld(t)
	w.supervise()
	l := w.live(nil)
	l.approve(w)
	halt := fakeseid.Halt(fakeseid.Plan{Name: "v9", Height: 8, Line: true})
	_, p := w.seid()
	p.Do(t, halt)
	w.awaitState("parked", func(s supervisor.State) bool { return s.ParkedBecause == supervisor.ParkedUpgrade })
	if got := done[RestartSeidResult](l, TypeRestartSeid, ""); got.NewInstance != w.state().Instance {
		t.Errorf("%+v", got)
	}
}

// The new seid halts as the old one did: waiting would not help.
func TestRestartSeidHaltsAgain(t *testing.T) {
	w := newWorld(t)
	w.serving = []fakeseid.Step{fakeseid.Catch(fakeseid.AtOnce)}
	w.supervise()
	l := w.live(nil)
	l.approve(w)
	halt := fakeseid.Halt(fakeseid.Plan{Name: "v9", Height: 8, Line: true})
	if _, err := w.client.Start(t.Context(), supervisor.StartRequest{}); err != nil {
		t.Fatal(err)
	}
	w.control.Next(t).Do(t, halt)
	w.awaitState("parked", func(s supervisor.State) bool { return s.ParkedBecause == supervisor.ParkedUpgrade })
	id := l.submit(TypeRestartSeid, "")
	w.control.Next(t).Do(t, halt)
	failed(t, l.ended(id), ReasonUpgradeNeeded, false)
}

func TestRestartSeidWithOtherKeys(t *testing.T) {
	w := newWorld(t)
	w.supervise()
	l := w.live(nil)
	_, other := fakeseid.NodeKey("other")
	if err := l.tasks.Consent.Approve("", other, 0); err != nil {
		t.Fatal(err)
	}
	l.fails(ReasonKeyIdentityChanged, false, TypeRestartSeid, "")
}

// What "seid init" wrote is nothing to run with.
func TestRestartSeidThatWasNeverConfigured(t *testing.T) {
	w := newWorld(t)
	w.supervise()
	l := w.live(nil)
	l.approve(w)
	if err := os.Remove(w.path("mounted.json")); err != nil {
		t.Fatal(err)
	}
	l.fails(ReasonVolumeError, true, TypeRestartSeid, "")
	if state := w.state(); state.Instance != "" {
		t.Errorf("%+v", state)
	}
}

func TestRestartSeidWithABadDocument(t *testing.T) {
	w := newWorld(t)
	w.supervise()
	l := w.live(nil)
	l.approve(w)
	old, _ := w.seid()
	writeFile(t, w.path("mounted.json"), `{"serial":3,"chainId":"sample-1","mode":"fullNode","overrides":{"config.p2p.max-connections":"many"}}`)
	task := l.fails(ReasonInvalidConfiguration, false, TypeRestartSeid, "")
	if !strings.Contains(task.Error, "config.p2p.max-connections") {
		t.Errorf("it does not name the key: %s", task.Error)
	}
	if w.state().Instance != old.Instance {
		t.Error("seid was restarted")
	}
}

// What did not come is named.
func TestRestartSeidSaysWhatItWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		world  func(*world)
		seen   func(supervisor.State, error) bool
		local  string
	}{
		"no supervisor": {
			reason: ReasonProcessNotStarted, world: func(*world) {},
			seen: func(_ supervisor.State, err error) bool { return err != nil },
		},
		"a seid without RPC": {
			reason: ReasonRPCNotAnswering,
			world: func(w *world) {
				w.serving = []fakeseid.Step{fakeseid.Catch(fakeseid.AtOnce)}
				w.supervise()
			},
			seen: func(s supervisor.State, _ error) bool { return s.State == supervisor.Starting },
		},
		"a seid whose RPC went away": {
			reason: ReasonRPCNotAnswering, world: func(w *world) { w.supervise() }, local: "http://127.0.0.1:1",
			seen: func(s supervisor.State, _ error) bool { return s.State == supervisor.Running },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.world(w)
			fake := clocktesting.NewFakeClock(time.Unix(1e9, 0))
			looks := make(chan struct{}, 10000)
			l := w.live(nil, withClock(fake), func(s *tasks) {
				s.Supervisor = &spy{Client: w.client, state: func(state supervisor.State, err error) {
					if c.seen(state, err) {
						looks <- struct{}{}
					}
				}}
				if c.local != "" {
					local, err := seid.NewClient(w.http, c.local)
					if err != nil {
						t.Fatal(err)
					}
					s.LocalRPC = local
				}
			})
			l.approve(w)
			id := l.submit(TypeRestartSeid, "")
			<-looks
			// Once more, so that what was seen first has been thought about.
			fake.Step(pollInterval)
			<-looks
			fake.Step(restartDeadline)
			failed(t, l.ended(id), c.reason, true)
		})
	}
}

// A hold that comes while a restart waits ends the waiting.
func TestAHoldEndsARestart(t *testing.T) {
	w := newWorld(t)
	w.serving = []fakeseid.Step{fakeseid.Catch(fakeseid.AtOnce)}
	w.supervise()
	l := w.live(nil)
	l.approve(w)
	id := l.submit(TypeRestartSeid, "")
	w.control.Next(t).Do(t, fakeseid.Open(fakeseid.P2P, w.at[fakeseid.P2P]))
	done[MarkNotReadyResult](l, TypeMarkNotReady, "")
	failed(t, l.ended(id), ReasonHeld, false)
}

// A seed has no RPC; that its parent saw its port is enough.
func TestRestartOfASeed(t *testing.T) {
	w := newWorld(t)
	w.mount(seid.ModeSeed)
	w.write("config/config.toml", strings.Replace(w.read("config/config.toml"), `mode = "full"`, `mode = "seed"`, 1))
	w.at = fakeseid.Addresses(fakeseid.Host(t))
	w.serving = []fakeseid.Step{fakeseid.Open(fakeseid.P2P, w.at[fakeseid.P2P]), fakeseid.Catch(fakeseid.AtOnce)}
	w.supervise()
	l := w.live(nil)
	l.approve(w)
	if got := done[RestartSeidResult](l, TypeRestartSeid, ""); got.NewInstance == "" {
		t.Errorf("%+v", got)
	}
}

func TestWithinNothing(t *testing.T) {
	ctx, cancel := within(t.Context(), clocktesting.NewFakeClock(time.Now()), 0)
	defer cancel()
	if context.Cause(ctx) != errPassed { //nolint:errorlint // it is this very error
		t.Error(context.Cause(ctx))
	}
}

// late is a clock by which every look at it takes ten minutes.
type late struct {
	clock.RealClock
	looks atomic.Int64
}

func (l *late) Now() time.Time {
	return l.RealClock.Now().Add(time.Duration(l.looks.Add(1)) * 10 * time.Minute)
}
