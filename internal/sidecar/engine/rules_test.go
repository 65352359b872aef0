package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	"github.com/sei-operator/sei-operator/internal/sidecar/store"
)

// row is what the rules say of a task.
type row struct {
	Type, Params string
	Status       store.Status
	Run          int
}

// Over any history of submissions, ends, deletions and restarts, the tasks are what
// the rules of ids say.
func TestTheRulesOfIDs(t *testing.T) {
	base, histories := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		histories++
		h := &history{
			dir: filepath.Join(base, strconv.Itoa(histories)), rules: map[uuid.UUID]row{},
			starts: make(chan struct{}, 100), leave: make(chan error),
		}
		h.begin(t)
		t.Repeat(map[string]func(*rapid.T){
			"submit": h.submission, "end": h.end, "delete": h.deletion, "restart": h.restart, "": h.check,
		})
	})
}

// history is what happened to an engine, beside what should have.
type history struct {
	*rig
	dir    string
	rules  map[uuid.UUID]row
	starts chan struct{}
	leave  chan error
}

func (h *history) begin(t *rapid.T) {
	slow := engine.Definition{
		Type: "slow", Deadline: long,
		Decode: func(params json.RawMessage) (any, error) { return params, nil },
		Run: func(ctx context.Context, _ engine.Execution) (any, error) {
			h.starts <- struct{}{}
			select {
			case err := <-h.leave:
				return nil, err
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
	}
	other := slow
	other.Type = "other"
	h.rig = start(t, h.dir, nil, slow, other)
}

func (h *history) running() (found []uuid.UUID) {
	for id, r := range h.rules {
		if r.Status == store.Running {
			found = append(found, id)
		}
	}
	return found
}

var anID = rapid.SampledFrom([]uuid.UUID{{1}, {2}, {3}})

func (h *history) submission(t *rapid.T) {
	id := anID.Draw(t, "id")
	kind := rapid.SampledFrom([]string{"slow", "slow", "slow", "other"}).Draw(t, "type")
	params := rapid.SampledFrom([]string{`{}`, `{}`, `{}`, `{"a":1}`}).Draw(t, "params")
	_, err := h.Submit(t.Context(), engine.Request{ID: id, Type: kind, Params: json.RawMessage(params)})
	old, known := h.rules[id]
	if known && (old.Type != kind || old.Params != params) {
		if reason(err) != api.ReasonIDConflict {
			t.Fatalf("another task under an old id: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if !known || old.Status == store.Failed {
		<-h.starts
		h.rules[id] = row{kind, params, store.Running, old.Run + 1}
	}
}

func (h *history) end(t *rapid.T) {
	running := h.running()
	if len(running) != 1 {
		t.Skip("which one ends is not known")
	}
	ended := h.rules[running[0]]
	if rapid.Bool().Draw(t, "fails") {
		ended.Status = store.Failed
		h.leave <- errors.New("no")
	} else {
		ended.Status = store.Completed
		h.leave <- nil
	}
	h.ended(t, running[0])
	h.rules[running[0]] = ended
}

func (h *history) deletion(t *rapid.T) {
	id := anID.Draw(t, "id")
	err := h.Delete(t.Context(), id)
	if _, known := h.rules[id]; known != (err == nil) {
		t.Fatalf("deleted with %v, known: %t", err, known)
	}
	delete(h.rules, id)
}

func (h *history) restart(t *rapid.T) {
	h.stop(t)
	h.begin(t)
	for range h.running() {
		<-h.starts
	}
}

func (h *history) check(t *rapid.T) {
	all, err := h.List(10)
	if err != nil {
		t.Fatal(err)
	}
	got := map[uuid.UUID]row{}
	for _, task := range all {
		got[task.ID] = row{task.Type, string(task.Params), task.Status, task.Run}
	}
	if diff := cmp.Diff(h.rules, got); diff != "" {
		t.Fatalf("not what the rules say (-want +got):\n%s", diff)
	}
	if len(h.starts) != 0 {
		t.Fatal("a task was started that should not be")
	}
}

func FuzzSubmit(f *testing.F) {
	for _, seed := range []string{`{"height":1}`, ``, `null`, `[]`, `{"height":1e400}`, `{"height":1,"height":2}`, "{\"a\":\"\xff\"}", `{"\ud800":1}`, `{"note":"<>&"}`} {
		f.Add([]byte(seed))
	}
	dir := f.TempDir()
	lax := engine.Definition{
		Type: "lax", Deadline: long,
		Decode: func(params json.RawMessage) (any, error) { return params, nil },
		Run:    func(_ context.Context, x engine.Execution) (any, error) { return x.Payload(), nil },
	}
	r := start(f, dir, nil, lax)
	f.Fuzz(func(t *testing.T, params []byte) {
		request := engine.Request{ID: uuid.New(), Type: "lax", Params: params}
		if _, err := r.Submit(t.Context(), request); err != nil {
			if reason(err) != api.ReasonInvalidParams {
				t.Fatal(err)
			}
			return
		}
		got := r.ended(t, request.ID)
		if got.Status != store.Completed {
			t.Fatalf("it became %+v", got)
		}
		// What was kept is the same task, whoever spells it.
		request.Params = got.Params
		if _, err := r.Submit(t.Context(), request); err != nil {
			t.Fatalf("%q is not %q: %v", got.Params, params, err)
		}
		if err := r.Delete(t.Context(), request.ID); err != nil {
			t.Fatal(err)
		}
	})
}
