package engine_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine/enginetest"
	"github.com/sei-operator/sei-operator/internal/sidecar/store"
)

// world is what a task acts on, and survives every crash.
type world struct {
	instance int
	restarts int
}

// restart replaces the instance exactly once per run, though it may be called many
// times: it writes down which one it means before it acts.
func (w *world) restart(_ context.Context, x engine.Execution) (any, error) {
	var target int
	known, err := x.Resume(&target)
	if err != nil {
		return nil, err
	}
	if !known {
		target = w.instance
		if err := x.Checkpoint(target); err != nil {
			return nil, err
		}
	}
	if w.instance == target {
		w.instance++
		w.restarts++
	}
	if err := x.Checkpoint(target); err != nil { // a later step, with a crash of its own
		return nil, err
	}
	return map[string]int{"was": target}, nil
}

// Whichever transition the sidecar dies at, before or after it is durable, its
// caller and the next sidecar reach the same end, and the effect happens once.
func TestACrashAtEveryTransition(t *testing.T) {
	for _, turn := range []bool{false, true} {
		for _, after := range []bool{false, true} {
			crashes := 0
			for at, crashed := 1, true; crashed; at++ {
				t.Run(fmt.Sprintf("exclusive %t, transition %d, durable %t", turn, at, after), func(t *testing.T) {
					if crashed = crashOnce(t, turn, at, after); crashed {
						crashes++
					}
				})
			}
			// Each of the two tasks is taken, has two checkpoints, and ends.
			if crashes < 8 {
				t.Errorf("exclusive %t, durable %t: the process died %d times, want 8 at least", turn, after, crashes)
			}
		}
	}
}

// crashOnce tells whether there was a crash.
func crashOnce(t *testing.T, turn bool, at int, after bool) (crashed bool) {
	t.Helper()
	dir, w := t.TempDir(), &world{}
	restart := define("restart", w.restart)
	restart.Exclusive = turn
	tasks := []uuid.UUID{uuid.New(), uuid.New()}

	acknowledged, crashed := firstLife(t, dir, restart, tasks, at, after)
	r := start(t, dir, nil, restart)
	for _, id := range acknowledged {
		if _, err := r.Get(t.Context(), id); err != nil {
			t.Fatalf("a task that was acknowledged is gone: %v", err)
		}
	}
	for i, id := range tasks { // the caller asks again, as it would
		r.submitAs(t, id, "restart", "")
		got := r.ended(t, id)
		if want := fmt.Sprintf(`{"was":%d}`, i); got.Status != store.Completed || got.Run != 1 || string(got.Result) != want {
			t.Errorf("it became %+v", got)
		}
	}
	if w.restarts != len(tasks) {
		t.Errorf("%d restarts, want %d", w.restarts, len(tasks))
	}
	return crashed
}

// firstLife submits tasks until the process dies or they are done. Exclusive ones
// are submitted at once; others would act on one world at the same time, so each
// waits for the one before.
func firstLife(t *testing.T, dir string, d engine.Definition, tasks []uuid.UUID, at int, after bool) (acknowledged []uuid.UUID, crashed bool) {
	t.Helper()
	var crash *enginetest.Crash
	r := start(t, dir, func(s engine.Store) engine.Store {
		crash = enginetest.NewCrash(s, at, after)
		return crash
	}, d)
	defer r.stop(t)
	life, die := context.WithCancel(t.Context())
	defer die()
	go func() {
		select {
		case <-crash.Died():
			die()
		case <-life.Done():
		}
	}()
	for _, id := range tasks {
		if _, err := r.Submit(life, engine.Request{ID: id, Type: d.Type}); err == nil {
			acknowledged = append(acknowledged, id)
		}
		if !d.Exclusive {
			_, _ = r.Wait(life, id)
		}
	}
	for _, id := range tasks {
		_, _ = r.Wait(life, id)
	}
	select {
	case <-crash.Died():
		return acknowledged, true
	default:
		return acknowledged, false
	}
}
