package tasks

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
	"github.com/sei-operator/sei-operator/test/fakeseid"
)

func TestMarkReadyApprovesWhatSeidsParentSees(t *testing.T) {
	w := newWorld(t)
	w.supervise()
	l := w.live(nil)
	params := `{"publicKey":"` + w.publicKey + `","nodeId":"` + w.nodeID + `"}`
	if got := done[MarkReadyResult](l, TypeMarkReady, params); got != (MarkReadyResult{true, w.publicKey, w.nodeID}) {
		t.Errorf("%+v", got)
	}
	first := w.read(".sei-sidecar/approval.json")
	if got := done[MarkReadyResult](l, TypeMarkReady, params); got.Changed {
		t.Errorf("the second one: %+v", got)
	}
	if again := w.read(".sei-sidecar/approval.json"); again != first || !strings.Contains(first, w.publicKey) {
		t.Errorf("%q became %q", first, again)
	}
	if !l.tasks.Consent.Wanted() {
		t.Error("the node may not run")
	}
	// A node that does not sign is approved without a key, though seid init made one.
	if got := done[MarkReadyResult](l, TypeMarkReady, ``); got != (MarkReadyResult{true, "", w.nodeID}) {
		t.Errorf("without expectations: %+v", got)
	}
}

func TestMarkReadyRefusesOtherKeys(t *testing.T) {
	w := newWorld(t)
	w.supervise()
	l := w.live(nil)
	_, otherKey := fakeseid.SigningKey("other")
	_, otherID := fakeseid.NodeKey("other")
	for _, params := range []string{`{"publicKey":"` + otherKey + `"}`, `{"nodeId":"` + otherID + `"}`} {
		task := l.fails(ReasonKeyIdentityChanged, false, TypeMarkReady, params)
		if !strings.Contains(task.Error, otherKey) && !strings.Contains(task.Error, otherID) {
			t.Errorf("it does not say what was expected: %s", task.Error)
		}
		if !strings.Contains(task.Error, w.publicKey) && !strings.Contains(task.Error, w.nodeID) {
			t.Errorf("it does not say what was found: %s", task.Error)
		}
	}
	if l.tasks.Consent.State().Approval != nil {
		t.Error("the node was approved")
	}
}

// A validator is approved with the key that it has, or not at all.
func TestMarkReadyOfAValidator(t *testing.T) {
	w := newWorld(t)
	w.write("config/config.toml", strings.Replace(w.read("config/config.toml"), `mode = "full"`, `mode = "validator"`, 1))
	w.supervise()
	l := w.live(nil)
	if got := done[MarkReadyResult](l, TypeMarkReady, ""); got != (MarkReadyResult{true, w.publicKey, w.nodeID}) {
		t.Errorf("%+v", got)
	}
	approved := w.read(".sei-sidecar/approval.json")
	w.write("config/priv_validator_key.json", "{}")
	l.fails(ReasonKeyIdentityChanged, false, TypeMarkReady, "")
	if w.read(".sei-sidecar/approval.json") != approved {
		t.Error("the approval changed")
	}
}

// The supervisor may come later than the task.
func TestMarkReadyWaitsForTheSupervisor(t *testing.T) {
	w := newWorld(t)
	asked := make(chan struct{}, 1000)
	l := w.live(nil, func(s *tasks) {
		s.Supervisor = &spy{Client: w.client, state: func(supervisor.State, error) { asked <- struct{}{} }}
	})
	id := l.submit(TypeMarkReady, "")
	<-asked
	w.supervise()
	if got := result[MarkReadyResult](t, l.ended(id)); got.NodeID != w.nodeID {
		t.Errorf("%+v", got)
	}
}

func TestHoldWins(t *testing.T) {
	w := newWorld(t)
	w.supervise()
	l := w.live(nil).driven()
	done[MarkReadyResult](l, TypeMarkReady, "")
	w.awaitState("running", safe)

	held := done[MarkNotReadyResult](l, TypeMarkNotReady, `{"reason":"maintenance"}`)
	if !held.Changed || held.HeldSince.IsZero() {
		t.Errorf("%+v", held)
	}
	w.awaitState("stopped", func(s supervisor.State) bool { return s.State == supervisor.Stopped })
	if again := done[MarkNotReadyResult](l, TypeMarkNotReady, `{"reason":"another"}`); again.Changed || !again.HeldSince.Equal(held.HeldSince) {
		t.Errorf("the second one: %+v", again)
	}
	l.fails(ReasonHeld, false, TypeMarkReady, "")
	l.fails(ReasonHeld, false, TypeRestartSeid, "")

	// Another life: the hold is still there, and so is the approval.
	l.close()
	l = w.live(nil).driven()
	l.fails(ReasonHeld, false, TypeRestartSeid, "")
	if state := w.state(); state.PID != 0 {
		t.Errorf("it is %s", state.State)
	}
	if got := done[ReleaseHoldResult](l, TypeReleaseHold, ""); !got.Changed {
		t.Errorf("%+v", got)
	}
	w.awaitState("running again", safe)
	if got := done[ReleaseHoldResult](l, TypeReleaseHold, ""); got.Changed {
		t.Errorf("the second one: %+v", got)
	}
}

// A release that waits for its turn is older than the hold that did not wait.
func TestALaterHoldIsNotReleased(t *testing.T) {
	w := newWorld(t)
	l := w.live(nil)
	done[MarkNotReadyResult](l, TypeMarkNotReady, "")
	// In front of the release, something that takes its time.
	entered, leave := make(chan struct{}), make(chan struct{})
	l.tasks.interrupt = func(point string) error {
		if point == "before configuration" {
			close(entered)
			<-leave
		}
		return nil
	}
	front := l.submit(TypeConfigApply, `{"peers":[]}`)
	<-entered
	release := l.submit(TypeReleaseHold, "")
	done[MarkNotReadyResult](l, TypeMarkNotReady, "")
	close(leave)
	result[PeersResult](t, l.ended(front))
	failed(t, l.ended(release), ReasonSuperseded, false)
	if !l.tasks.Consent.State().Held {
		t.Error("the node was released")
	}
	// The next sidecar knows it too.
	entered, leave = make(chan struct{}), make(chan struct{})
	front = l.submit(TypeConfigApply, `{"peers":["`+strings.Repeat("a", 40)+`@host:26656"]}`)
	<-entered
	again := l.submit(TypeReleaseHold, "")
	done[MarkNotReadyResult](l, TypeMarkNotReady, "")
	go func() {
		<-l.dying // the task in front would otherwise keep the sidecar from ending
		close(leave)
	}()
	l.close()
	l = w.live(nil)
	result[PeersResult](t, l.ended(front))
	failed(t, l.ended(again), ReasonSuperseded, false)

	// Asked for once more, it is the latest wish.
	if _, err := l.Submit(t.Context(), engine.Request{ID: release, Type: TypeReleaseHold}); err != nil {
		t.Fatal(err)
	}
	if got := result[ReleaseHoldResult](t, l.ended(release)); !got.Changed || l.tasks.Consent.State().Held {
		t.Errorf("%+v", got)
	}
}

// A release that means one hold leaves another alone that came later.
func TestAReleaseOfOneHold(t *testing.T) {
	w := newWorld(t)
	l := w.live(nil)
	first := l.ended(l.submit(TypeMarkNotReady, `{"reason":"first"}`)).ID
	done[MarkNotReadyResult](l, TypeMarkNotReady, `{"reason":"second"}`)
	l.fails(ReasonSuperseded, false, TypeReleaseHold, `{"hold":"`+first.String()+`"}`)
	if !l.tasks.Consent.State().Held {
		t.Error("the later hold was released")
	}
	done[ReleaseHoldResult](l, TypeReleaseHold, "")
	only := l.ended(l.submit(TypeMarkNotReady, `{"reason":"only"}`)).ID
	if got := done[ReleaseHoldResult](l, TypeReleaseHold, `{"hold":"`+only.String()+`"}`); !got.Changed {
		t.Errorf("%+v", got)
	}
}

// TestAWrongClockOrdersNothing: not the clock of a machine that was ahead and is put
// right, nor one that is put back between a release and a hold.
func TestAWrongClockOrdersNothing(t *testing.T) {
	t.Run("a hold from the future can be released", func(t *testing.T) {
		w := newWorld(t)
		w.wall = clocktesting.NewFakeClock(time.Now().Add(24 * time.Hour))
		l := w.live(nil)
		done[MarkNotReadyResult](l, TypeMarkNotReady, "")
		l.close()
		w.wall = clocktesting.NewFakeClock(time.Now())
		l = w.live(nil)
		if got := done[ReleaseHoldResult](l, TypeReleaseHold, ""); !got.Changed || l.tasks.Consent.State().Held {
			t.Errorf("%+v", got)
		}
	})
	t.Run("a release from the future does not end a later hold", func(t *testing.T) {
		w := newWorld(t)
		w.wall = clocktesting.NewFakeClock(time.Now())
		l := w.live(nil)
		done[MarkNotReadyResult](l, TypeMarkNotReady, "")
		release := l.behindSomething(TypeReleaseHold, func() {
			w.wall.SetTime(w.wall.Now().Add(-time.Hour))
			done[MarkNotReadyResult](l, TypeMarkNotReady, "")
		})
		failed(t, l.ended(release), ReasonSuperseded, false)
		if !l.tasks.Consent.State().Held {
			t.Error("the node was released")
		}
	})
}

// TestAHoldOutlivesTheTaskStore: the store is lost, and the order goes on behind the hold.
func TestAHoldOutlivesTheTaskStore(t *testing.T) {
	w := newWorld(t)
	l := w.live(nil)
	for range 3 {
		done[ReleaseHoldResult](l, TypeReleaseHold, "")
	}
	done[MarkNotReadyResult](l, TypeMarkNotReady, "")
	l.close()
	w.loseTasks()
	l = w.live(nil)
	if !l.tasks.Consent.State().Held {
		t.Fatal("the hold is lost too")
	}
	if got := done[ReleaseHoldResult](l, TypeReleaseHold, ""); !got.Changed {
		t.Errorf("%+v", got)
	}
	// And a hold after it comes before a release that was asked for earlier.
	done[MarkNotReadyResult](l, TypeMarkNotReady, "")
	l.close()
	w.loseTasks()
	l = w.live(nil)
	release := l.behindSomething(TypeReleaseHold, func() { done[MarkNotReadyResult](l, TypeMarkNotReady, "") })
	failed(t, l.ended(release), ReasonSuperseded, false)
}

// TestAHoldThatWasAcceptedIsPlaced: however long the sidecar was away.
func TestAHoldThatWasAcceptedIsPlaced(t *testing.T) {
	w := newWorld(t)
	w.wall = clocktesting.NewFakeClock(time.Now())
	m := newMortal(3)
	l := w.live(m)
	id := l.submit(TypeMarkNotReady, "")
	<-m.died
	if points := m.seen(); points[2] != "before hold" {
		t.Fatalf("it died at %s", points)
	}
	l.close()
	w.wall.SetTime(w.wall.Now().Add(24 * time.Hour))
	l = w.live(nil)
	// Already now: whoever drives seid begins when the sidecar has gone so far.
	if !l.tasks.Consent.State().Held {
		t.Error("the node is not held")
	}
	result[MarkNotReadyResult](t, l.ended(id))
}

// behindSomething submits a task that waits for its turn until meanwhile has returned.
func (l *life) behindSomething(kind string, meanwhile func()) uuid.UUID {
	l.t.Helper()
	entered, leave := make(chan struct{}), make(chan struct{})
	l.tasks.interrupt = func(point string) error {
		if point == "before configuration" {
			close(entered)
			<-leave
		}
		return nil
	}
	front := l.submit(TypeConfigApply, document(1, ""))
	<-entered
	behind := l.submit(kind, "")
	meanwhile()
	close(leave)
	l.ended(front)
	return behind
}

// spy is a supervisor that tells what it answered.
type spy struct {
	*supervisor.Client
	state func(supervisor.State, error)
}

func (s *spy) State(ctx context.Context) (supervisor.State, error) {
	state, err := s.Client.State(ctx)
	if s.state != nil {
		s.state(state, err)
	}
	return state, err
}
