package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	"github.com/sei-operator/sei-operator/internal/sidecar/store"
)

// A damaged file that is moved aside takes its task with it, but not what runs.
func TestTheStoreLosesATaskThatRuns(t *testing.T) {
	g := newGate()
	r := start(t, t.TempDir(), nil, define("slow", g.run))
	id := r.submit(t, "slow", "")
	<-g.entered
	if err := os.Truncate(filepath.Join(r.dir, "tasks", id.String()+".json"), 30); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Get(t.Context(), id); err != nil || got.Status != store.Running {
		t.Errorf("%+v, %v", got, err)
	}
	r.submitAs(t, id, "slow", "")
	if len(g.entered) != 0 {
		t.Error("it was started twice")
	}
	g.leave <- nil
	if got := r.ended(t, id); got.Status != store.Completed {
		t.Errorf("it became %+v", got)
	}
}

func TestACheckpointAfterTheEnd(t *testing.T) {
	var left engine.Execution
	r := start(t, t.TempDir(), nil, define("a", func(_ context.Context, x engine.Execution) (any, error) {
		left = x
		return nil, nil
	}))
	id := r.submit(t, "a", "")
	r.ended(t, id)
	if err := r.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := left.Checkpoint(1); reason(err) != api.ReasonInvalidCheckpoint {
		t.Errorf("it was kept: %v", err)
	}
	if all, err := r.List(1); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

// An end that cannot be written does not keep the sidecar from ending, and the next
// one goes on.
func TestAShutdownWithoutAStore(t *testing.T) {
	dir, b, g := t.TempDir(), &broken{}, newGate()
	slow, quick := define("slow", g.run), define("quick", func(context.Context, engine.Execution) (any, error) { return nil, nil })
	r := start(t, dir, breakable(b), slow, quick)
	deleted := r.submit(t, "slow", "")
	<-g.entered
	refused := make(chan struct{}, 1)
	b.fail(func(op string) bool {
		if op == "put completed" {
			select {
			case refused <- struct{}{}:
			default:
			}
		}
		return op != "put running"
	})
	done := r.submit(t, "quick", "")
	<-refused
	if err := r.Delete(t.Context(), deleted); reason(err) != api.ReasonStoreUnavailable {
		t.Errorf("deleted with %v", err)
	}
	r.stop(t)

	r = start(t, dir, nil, slow, quick)
	if got := <-g.entered; got != deleted {
		t.Errorf("%s was resumed", got)
	}
	if got := r.ended(t, done); got.Status != store.Completed || got.Run != 1 {
		t.Errorf("it became %+v", got)
	}
}
