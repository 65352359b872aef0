package supervisor

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sei-operator/sei-operator/test/fakeseid"
)

// forced is a stop that goes ahead after a wait, safe or not.
func forced(wait time.Duration) StopRequest {
	return StopRequest{SafeWait: Duration(wait), Force: true}
}

// unsafe starts a seid that stays unsafe to stop and ends only when it is told.
func (r *rig) unsafe() (State, *fakeseid.Process) {
	r.t.Helper()
	state, p := r.start(Approval{})
	p.Do(r.t, fakeseid.Catch(fakeseid.WhenTold))
	return state, p
}

// waiting makes a request that waits, and returns once it does.
func (r *rig) waiting(wait time.Duration, call func() (State, error)) <-chan answer {
	r.t.Helper()
	done := async(call)
	r.clock.awaited(r.t, wait)
	return done
}

// awaitWishes waits until so many stand: nothing of that shows outside.
func (r *rig) awaitWishes(count int) {
	r.t.Helper()
	for deadline := time.After(patience); ; {
		r.current.mu.Lock()
		have := len(r.current.wishes)
		r.current.mu.Unlock()
		if have == count {
			return
		}
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			r.t.Fatalf("%d wishes stand, not %d", have, count)
		}
	}
}

func (r *rig) untouched(p *fakeseid.Process) {
	r.t.Helper()
	if state, err := r.client.State(r.t.Context()); err != nil || state.State != Starting || state.PID != p.PID {
		r.t.Errorf("%+v, %v", state, err)
	}
}

const early, late = 10 * time.Second, 20 * time.Second

func TestRestartThatWakesAfterALaterStop(t *testing.T) {
	for name, wakes := range map[string]bool{"before seid ends": true, "when seid ends": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.run()
			first, p := r.unsafe()
			restart := r.waiting(late, func() (State, error) {
				return r.client.Restart(t.Context(), RestartRequest{StopRequest: forced(late)})
			})
			stop := r.waiting(early, func() (State, error) { return r.client.Stop(t.Context(), forced(early)) })
			r.clock.pass(t, early)
			p.Signal(t)
			if wakes {
				r.clock.pass(t, late-early)
			}
			p.Do(t, fakeseid.Exit(0))
			if _, err := r.answer(restart); reason(err) != ReasonSuperseded {
				t.Errorf("restart: %v", err)
			}
			if state, err := r.answer(stop); err != nil || state.State != Stopped || state.Instance != first.Instance {
				t.Errorf("stop: %+v, %v", state, err)
			}
			if state, err := r.client.State(t.Context()); err != nil || state.State != Stopped {
				t.Errorf("%+v, %v", state, err)
			}
		})
	}
}

func TestRestartThatWakesBeforeALaterStop(t *testing.T) {
	r := newRig(t)
	r.run()
	first, p := r.unsafe()
	restart := r.waiting(early, func() (State, error) {
		return r.client.Restart(t.Context(), RestartRequest{StopRequest: forced(early)})
	})
	meant := forced(late)
	meant.Instance = first.Instance
	stop := r.waiting(late, func() (State, error) { return r.client.Stop(t.Context(), meant) })
	r.clock.pass(t, early)
	if _, err := r.answer(restart); reason(err) != ReasonSuperseded {
		t.Errorf("restart: %v", err)
	}
	r.untouched(p)
	r.clock.pass(t, late-early)
	p.Signal(t)
	p.Do(t, fakeseid.Exit(0))
	if state, err := r.answer(stop); err != nil || state.State != Stopped {
		t.Errorf("stop: %+v, %v", state, err)
	}
}

func TestStopThatWakesAfterALaterRestart(t *testing.T) {
	for name, wakes := range map[string]bool{"before seid ends": true, "when seid ends": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.run()
			first, p := r.unsafe()
			stop := r.waiting(late, func() (State, error) { return r.client.Stop(t.Context(), forced(late)) })
			restart := r.waiting(early, func() (State, error) {
				return r.client.Restart(t.Context(), RestartRequest{StopRequest: forced(early)})
			})
			r.clock.pass(t, early)
			p.Signal(t)
			if wakes {
				r.clock.pass(t, late-early)
			}
			p.Do(t, fakeseid.Exit(0))
			if _, err := r.answer(stop); reason(err) != ReasonSuperseded {
				t.Errorf("stop: %v", err)
			}
			if state, err := r.answer(restart); err != nil || state.State != Starting || state.Instance == first.Instance {
				t.Errorf("restart: %+v, %v", state, err)
			}
		})
	}
}

func TestStartTakesBackAStopThatWaits(t *testing.T) {
	r := newRig(t)
	r.run()
	_, p := r.unsafe()
	stop := r.waiting(early, func() (State, error) { return r.client.Stop(t.Context(), forced(early)) })
	if _, err := r.client.Start(t.Context(), StartRequest{}); err != nil {
		t.Fatal(err)
	}
	r.clock.pass(t, early)
	if _, err := r.answer(stop); reason(err) != ReasonSuperseded {
		t.Errorf("stop: %v", err)
	}
	r.untouched(p)
}

func TestStopTakesBackAStartThatWaits(t *testing.T) {
	r := newRig(t)
	r.run()
	_, p := r.settled(fakeseid.WhenTold)
	stop := async(func() (State, error) { return r.client.Stop(t.Context(), StopRequest{}) })
	p.Signal(t)
	start := async(func() (State, error) { return r.client.Start(t.Context(), StartRequest{}) })
	r.awaitWishes(3) // That of the first start is the oldest.
	again := async(func() (State, error) { return r.client.Stop(t.Context(), StopRequest{}) })
	r.awaitWishes(4)
	p.Do(t, fakeseid.Exit(0))
	if _, err := r.answer(start); reason(err) != ReasonSuperseded {
		t.Errorf("start: %v", err)
	}
	for _, stop := range []<-chan answer{stop, again} {
		if state, err := r.answer(stop); err != nil || state.State != Stopped {
			t.Errorf("stop: %+v, %v", state, err)
		}
	}
	r.awaitWishes(1)
	r.start(Approval{})
}

func TestRequestThatWasRefusedOvertakesNobody(t *testing.T) {
	r := newRig(t)
	r.run()
	first, p := r.unsafe()
	restart := r.waiting(early, func() (State, error) {
		return r.client.Restart(t.Context(), RestartRequest{StopRequest: forced(early)})
	})
	if _, err := r.client.Stop(t.Context(), StopRequest{}); reason(err) != ReasonNotSafe {
		t.Fatalf("stop: %v", err)
	}
	if _, err := r.client.Stop(t.Context(), StopRequest{Instance: "an earlier one"}); err != nil {
		t.Fatalf("stop: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	left := r.waiting(late, func() (State, error) { return r.client.Stop(ctx, forced(late)) })
	r.awaitWishes(3)
	cancel()
	if _, err := r.answer(left); !errors.Is(err, context.Canceled) {
		t.Fatalf("stop: %v", err)
	}
	r.awaitWishes(2)
	r.clock.pass(t, early)
	p.Signal(t)
	p.Do(t, fakeseid.Exit(0))
	if state, err := r.answer(restart); err != nil || state.Instance == first.Instance {
		t.Errorf("restart: %+v, %v", state, err)
	}
}

func TestApprovalOfTheLatestRestart(t *testing.T) {
	for name, c := range map[string]struct{ older, later time.Duration }{
		"the older one wakes first": {early, late},
		"the later one wakes first": {late, early},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			stale := r.keys("a")
			approved := r.keys("b")
			r.run()
			first, p := r.unsafe()
			older := r.waiting(c.older, func() (State, error) {
				return r.client.Restart(t.Context(), RestartRequest{StopRequest: forced(c.older), Approval: stale})
			})
			later := r.waiting(c.later, func() (State, error) {
				return r.client.Restart(t.Context(), RestartRequest{StopRequest: forced(c.later), Approval: approved})
			})
			r.clock.pass(t, early)
			p.Signal(t)
			r.clock.pass(t, late-early)
			p.Do(t, fakeseid.Exit(0))
			for _, restart := range []<-chan answer{older, later} {
				if state, err := r.answer(restart); err != nil || state.State != Starting || state.Instance == first.Instance {
					t.Errorf("restart: %+v, %v", state, err)
				}
			}
		})
	}
}

// TestNothingTakesASignalBack: a seid that was told to end will, and then the one that
// is wanted is another one.
func TestNothingTakesASignalBack(t *testing.T) {
	r := newRig(t)
	r.run()
	first, p := r.settled(fakeseid.WhenTold)
	stop := async(func() (State, error) { return r.client.Stop(t.Context(), StopRequest{}) })
	p.Signal(t)
	r.clock.pass(t, 10*time.Minute)
	if _, err := r.answer(stop); reason(err) != ReasonStillRunning {
		t.Fatalf("stop: %v", err)
	}
	start := async(func() (State, error) { return r.client.Start(t.Context(), StartRequest{}) })
	r.clock.awaited(t, 10*time.Minute)
	p.Do(t, fakeseid.CloseStores())
	if state, err := r.answer(start); err != nil || state.State != Starting || state.Instance == first.Instance {
		t.Fatalf("start: %+v, %v", state, err)
	}
}
