package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"k8s.io/utils/clock"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	"github.com/sei-operator/sei-operator/internal/sidecar/store"
)

// later lets the time of the bubble pass.
func later(d time.Duration) { <-time.After(d) }

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		r := start(t, t.TempDir(), nil, define("slow", g.run))
		got := r.ended(t, r.submit(t, "slow", ""))
		if got.Reason != api.ReasonDeadlineExceeded || !got.Retryable || got.Error != "not done within 1h0m0s: context canceled" {
			t.Errorf("it became %+v", got)
		}
		if took := got.CompletedAt.Sub(got.SubmittedAt); took != long {
			t.Errorf("it took %s", took)
		}
	})
}

func TestDeadlineCountsOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, g := t.TempDir(), newGate()
		slow := define("slow", g.run)
		r := start(t, dir, nil, slow)
		id := r.submit(t, "slow", "")
		later(long / 4)
		r.stop(t)
		later(long / 4)
		r = start(t, dir, nil, slow)
		got := r.ended(t, id)
		if took := got.CompletedAt.Sub(got.StartedAt); got.Reason != api.ReasonDeadlineExceeded || took != long {
			t.Errorf("it took %s and became %+v", took, got)
		}
	})
}

func TestDeadlineThatPassedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, g := t.TempDir(), newGate()
		slow := define("slow", g.run)
		r := start(t, dir, nil, slow)
		id := r.submit(t, "slow", "")
		<-g.entered
		r.stop(t)
		later(2 * long)
		r = start(t, dir, nil, slow)
		if got := r.ended(t, id); got.Reason != api.ReasonDeadlineExceeded {
			t.Errorf("it became %+v", got)
		}
		if len(g.entered) != 0 {
			t.Error("the handler was called after the deadline")
		}
	})
}

// What must not be dropped, or left half done, is carried out however long the sidecar
// was away, and has its deadline anew. What was not begun is not.
func TestWhatOutlastsItsDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		mark       func(*engine.Definition)
		checkpoint bool
		outlasts   bool
	}{
		"it comes first":            {mark: func(d *engine.Definition) { d.First = true }, outlasts: true},
		"it outlasts and has begun": {mark: func(d *engine.Definition) { d.Outlasts = true }, checkpoint: true, outlasts: true},
		"it outlasts and has not":   {mark: func(d *engine.Definition) { d.Outlasts = true }},
		"it does not outlast":       {mark: func(*engine.Definition) {}, checkpoint: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir, entered := t.TempDir(), make(chan uuid.UUID, 2)
				slow := define("slow", func(ctx context.Context, x engine.Execution) (any, error) {
					if c.checkpoint {
						if err := x.Checkpoint("begun"); err != nil {
							return nil, err
						}
					}
					entered <- x.ID()
					<-ctx.Done()
					return nil, ctx.Err()
				})
				c.mark(&slow)
				r := start(t, dir, nil, slow)
				id := r.submit(t, "slow", "")
				<-entered
				r.stop(t)
				later(100 * long)
				before := time.Now()
				resumed := make(chan *rig)
				go func() { resumed <- start(t, dir, nil, slow) }()
				r = <-resumed
				got := r.ended(t, id)
				took, want := time.Since(before), time.Duration(0)
				if c.outlasts {
					want = long
				}
				if got.Reason != api.ReasonDeadlineExceeded || took != want || (len(entered) == 1) != c.outlasts {
					t.Errorf("after %s it became %+v; it was carried out: %t", took, got, len(entered) == 1)
				}
			})
		})
	}
}

// Whether a run has begun is not known while the store cannot be read. A handler that was
// called all the same could find no checkpoint, and begin a day late.
func TestNobodyKnowsWhetherItHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, g, b := t.TempDir(), newGate(), &broken{}
		slow := define("slow", g.run)
		slow.Outlasts = true
		r := start(t, dir, nil, slow)
		id := r.submit(t, "slow", "")
		<-g.entered
		r.stop(t)
		later(100 * long)
		b.fail(func(op string) bool { return op == "load checkpoint" })
		r = start(t, dir, breakable(b), slow)
		if got := r.ended(t, id); got.Reason != api.ReasonStoreUnavailable || !got.Retryable || len(g.entered) != 0 {
			t.Errorf("it was carried out %d times, and became %+v", len(g.entered), got)
		}
	})
}

// A handler that goes on after its deadline is told.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, late := t.TempDir(), make(chan bool, 2)
		slow := define("slow", func(ctx context.Context, x engine.Execution) (any, error) {
			if err := x.Checkpoint("begun"); err != nil {
				return nil, err
			}
			late <- x.Late()
			<-ctx.Done()
			return nil, ctx.Err()
		})
		slow.Outlasts = true
		r := start(t, dir, nil, slow)
		r.submit(t, "slow", "")
		if <-late {
			t.Error("it has just begun")
		}
		r.stop(t)
		later(long / 2)
		r = start(t, dir, nil, slow)
		if <-late {
			t.Error("half of its time has passed")
		}
		r.stop(t)
		later(long)
		start(t, dir, nil, slow)
		if !<-late {
			t.Error("its deadline passed")
		}
	})
}

// ahead is a wall clock that can be put forward. Timers go on as they were, as they do on
// a real machine.
type ahead struct {
	clock.RealClock
	by atomic.Int64
}

func (a *ahead) Now() time.Time { return a.RealClock.Now().Add(time.Duration(a.by.Load())) }

// A clock that is put forward makes no run late that has just begun.
func TestAClockThatIsPutForward(t *testing.T) {
	wall, late := &ahead{}, make(chan bool, 1)
	e, err := engine.New(engine.Options{
		Store: newStore(t, t.TempDir()), Clock: wall,
		Definitions: []engine.Definition{define("quick", func(_ context.Context, x engine.Execution) (any, error) {
			wall.by.Store(int64(2 * long))
			late <- x.Late()
			return nil, nil
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	e.Resume(t.Context())
	if _, err := e.Submit(t.Context(), engine.Request{Type: "quick"}); err != nil {
		t.Fatal(err)
	}
	if <-late {
		t.Error("it has just begun")
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// What waited for its turn when the sidecar went away is not begun a day later.
func TestWhatWaitedForItsTurnADayAgo(t *testing.T) {
	for name, c := range map[string]struct {
		away    time.Duration
		carried bool
	}{"soon": {long / 2, true}, "a day later": {24 * long, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir, g := t.TempDir(), newGate()
				slow, done := exclusive(define("slow", g.run)), false
				waits := exclusive(define("waits", func(context.Context, engine.Execution) (any, error) { done = true; return nil, nil }))
				waits.Outlasts = true
				r := start(t, dir, nil, slow, waits)
				r.submit(t, "slow", "")
				<-g.entered
				id := r.submit(t, "waits", "")
				r.stop(t)
				later(c.away)
				r = start(t, dir, nil, slow, waits)
				if got := r.ended(t, id); done != c.carried || !done && got.Reason != api.ReasonDeadlineExceeded {
					t.Errorf("it was carried out: %t, and became %+v", done, got)
				}
			})
		})
	}
}

// A deadline that was set by a clock that was ahead does not last until then.
func TestDeadlineOfAClockThatWasAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, g := t.TempDir(), newGate()
		slow := define("slow", g.run)
		r := start(t, dir, nil, slow)
		id := r.submit(t, "slow", "")
		<-g.entered
		r.stop(t)
		s := newStore(t, dir)
		row, err := s.Get(id)
		if err != nil {
			t.Fatal(err)
		}
		row.StartedAt, row.Deadline = row.StartedAt.Add(100*long), row.Deadline.Add(100*long)
		if _, err := s.Put(row); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		before := time.Now()
		r = start(t, dir, nil, slow)
		if got := r.ended(t, id); got.Reason != api.ReasonDeadlineExceeded || time.Since(before) != long {
			t.Errorf("after %s it became %+v", time.Since(before), got)
		}
	})
}

// A task that waits for its turn loses no time by it.
func TestDeadlineBeginsWithTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		r := start(t, t.TempDir(), nil, exclusive(define("slow", g.run)))
		first, second := r.submit(t, "slow", ""), r.submit(t, "slow", "")
		r.ended(t, first)
		got := r.ended(t, second)
		if took := got.CompletedAt.Sub(got.StartedAt); took != long || !got.StartedAt.Equal(got.SubmittedAt.Add(long)) {
			t.Errorf("it took %s from %s", took, got.StartedAt)
		}
	})
}

func TestDeleteWaitsABoundedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, leave := make(chan struct{}), make(chan struct{})
		r := start(t, t.TempDir(), nil, define("deaf", func(context.Context, engine.Execution) (any, error) {
			close(entered)
			<-leave
			return nil, nil
		}))
		id, before := r.submit(t, "deaf", ""), time.Now()
		<-entered
		if err := r.Delete(t.Context(), id); reason(err) != api.ReasonStillRunning || time.Since(before) != 10*time.Second {
			t.Errorf("after %s: %v", time.Since(before), err)
		}
		close(leave)
	})
}

func TestTheStoreRefusesASubmission(t *testing.T) {
	b := &broken{}
	r := start(t, t.TempDir(), breakable(b), echo)
	b.fail(func(string) bool { return true })
	request := engine.Request{ID: uuid.New(), Type: "echo", Params: json.RawMessage(`{"height":1}`)}
	if _, err := r.Submit(t.Context(), request); reason(err) != api.ReasonStoreUnavailable {
		t.Errorf("submitted with %v", err)
	}
	b.fail(nil)
	if _, err := r.Submit(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	r.ended(t, request.ID)
}

// Until its end is durable a task runs, and nobody takes its turn: if the sidecar
// died now, it would run again.
func TestTheStoreRefusesAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, second := &broken{}, newGate()
		first := define("first", func(context.Context, engine.Execution) (any, error) { return 1, nil })
		r := start(t, t.TempDir(), breakable(b), exclusive(first), exclusive(define("second", second.run)))
		b.fail(func(op string) bool { return op == "put completed" })
		a, z := r.submit(t, "first", ""), r.submit(t, "second", "")
		later(time.Minute)
		if got, err := r.Get(t.Context(), a); err != nil || got.Status != store.Running {
			t.Errorf("%v, %v", got.Status, err)
		}
		if len(second.entered) != 0 {
			t.Error("the turn was passed on too early")
		}
		b.fail(nil)
		if got := r.ended(t, a); got.Status != store.Completed || string(got.Result) != "1" {
			t.Errorf("it became %+v", got)
		}
		<-second.entered
		second.leave <- nil
		r.ended(t, z)
	})
}

func TestTheStoreRefusesABeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, g := &broken{}, newGate()
		r := start(t, t.TempDir(), breakable(b), exclusive(define("slow", g.run)))
		a, z := r.submit(t, "slow", ""), r.submit(t, "slow", "")
		<-g.entered
		b.fail(func(op string) bool { return op == "put running" })
		g.leave <- nil
		r.ended(t, a)
		later(time.Minute)
		if len(g.entered) != 0 {
			t.Error("it began without a deadline")
		}
		b.fail(nil)
		<-g.entered
		g.leave <- nil
		r.ended(t, z)
	})
}

func TestTheStoreRefusesADeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, g := &broken{}, newGate()
		r := start(t, t.TempDir(), breakable(b), define("slow", g.run), echo)
		running, done := r.submit(t, "slow", ""), r.submit(t, "echo", `{"height":1}`)
		r.ended(t, done)
		<-g.entered
		b.fail(func(op string) bool { return op == "delete" })
		for _, id := range []uuid.UUID{running, done} {
			if err := r.Delete(t.Context(), id); reason(err) != api.ReasonStoreUnavailable {
				t.Errorf("deleted with %v", err)
			}
		}
		b.fail(nil)
		// What was cancelled goes without being asked again.
		if _, err := r.Wait(t.Context(), running); reason(err) != api.ReasonNotFound {
			t.Errorf("it is still there: %v", err)
		}
		if err := r.Delete(t.Context(), done); err != nil {
			t.Error(err)
		}
	})
}

func TestTheStoreRefusesToTellWhatIsUnfinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, b, g := t.TempDir(), &broken{}, newGate()
		slow := define("slow", g.run)
		r := start(t, dir, nil, slow, echo)
		id := r.submit(t, "slow", "")
		<-g.entered
		r.stop(t)

		b.fail(func(op string) bool { return op == "unfinished" })
		r = start(t, dir, breakable(b), slow, echo)
		// A new task must not overtake an old one.
		if _, err := r.Submit(t.Context(), engine.Request{Type: "echo", Params: json.RawMessage(`{"height":1}`)}); reason(err) != api.ReasonStoreUnavailable {
			t.Errorf("submitted with %v", err)
		}
		later(time.Minute)
		b.fail(nil)
		if got := <-g.entered; got != id {
			t.Error("another task was resumed")
		}
		r.ended(t, r.submit(t, "echo", `{"height":1}`))
		g.leave <- nil
		r.ended(t, id)
	})
}

// lying is a store that says of one write that it failed, and it did not.
type lying struct {
	engine.Store
	lies int
}

func (l *lying) Put(t store.Task) (store.Task, error) {
	kept, err := l.Store.Put(t)
	if l.lies--; l.lies == 0 {
		return kept, errors.Join(err, store.ErrUnavailable)
	}
	return kept, err
}

// A write that was reported as failed may have happened: then there is a task that
// is said to run, and it has to.
func TestAWriteThatHappenedAllTheSame(t *testing.T) {
	for name, ask := range map[string]func(*rig, engine.Request) error{
		"asked for again": func(r *rig, request engine.Request) error { _, err := r.Submit(t.Context(), request); return err },
		"looked at":       func(r *rig, request engine.Request) error { _, err := r.Get(t.Context(), request.ID); return err },
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, t.TempDir(), func(s engine.Store) engine.Store { return &lying{Store: s, lies: 1} }, echo)
			request := engine.Request{ID: uuid.New(), Type: "echo", Params: json.RawMessage(`{"height":1}`)}
			if _, err := r.Submit(t.Context(), request); reason(err) != api.ReasonStoreUnavailable {
				t.Fatalf("submitted with %v", err)
			}
			if err := ask(r, request); err != nil {
				t.Fatal(err)
			}
			r.ended(t, request.ID)
		})
	}
}
