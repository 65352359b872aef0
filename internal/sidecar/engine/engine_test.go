package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	"github.com/sei-operator/sei-operator/internal/sidecar/store"
)

type height struct {
	Height json.Number `json:"height"`
	Note   string      `json:"note,omitempty"`
}

func (h height) Validate() error {
	if h.Height == "" {
		return errors.New("height is required")
	}
	return nil
}

// echo returns its params; a note makes it fail.
var echo = engine.Definition{
	Type: "echo", Deadline: long, Decode: engine.Strict[height],
	Run: engine.Typed(func(_ context.Context, _ engine.Execution, h height) (any, error) {
		if h.Note != "" {
			return h, engine.Terminal("NoteRefused", "no notes: %w", errors.New(h.Note))
		}
		return h, nil
	}),
}

func TestATaskRunsToItsEnd(t *testing.T) {
	r := start(t, t.TempDir(), nil, echo)
	good := r.ended(t, r.submit(t, "echo", `{ "height" : 9007199254740993 }`))
	if good.Status != store.Completed || good.Run != 1 || string(good.Result) != `{"height":9007199254740993}` || string(good.Params) != `{"height":9007199254740993}` {
		t.Errorf("it became %+v", good)
	}
	if good.StartedAt.IsZero() || good.CompletedAt.Before(good.StartedAt) || !good.Deadline.Equal(good.StartedAt.Add(long)) {
		t.Errorf("its times are %v, %v, %v", good.StartedAt, good.CompletedAt, good.Deadline)
	}
	bad := r.ended(t, r.submit(t, "echo", `{"height":1,"note":"x"}`))
	if bad.Status != store.Failed || bad.Reason != "NoteRefused" || bad.Error != "no notes: x" || bad.Retryable || len(bad.Result) == 0 {
		t.Errorf("it became %+v", bad)
	}
	if want := []string{"echo running 1", "echo completed 1", "echo running 1", "echo failed 1"}; !slices.Equal(r.seen(), want) {
		t.Errorf("changes: %q, want %q", r.seen(), want)
	}
}

func TestHowHandlersFail(t *testing.T) {
	for name, c := range map[string]struct {
		run       func(context.Context, engine.Execution) (any, error)
		reason    string
		retryable bool
		message   string
	}{
		"an error of any kind": {func(context.Context, engine.Execution) (any, error) { return nil, errors.New("oh") }, api.ReasonTaskFailed, true, "oh"},
		"a failure, wrapped": {func(context.Context, engine.Execution) (any, error) {
			return nil, fmt.Errorf("stop seid: %w", engine.Retryable("StillThere", "it runs"))
		}, "StillThere", true, "stop seid: it runs"},
		"a panic":                {func(context.Context, engine.Execution) (any, error) { panic("oh") }, api.ReasonPanic, false, "the handler of the task panicked: oh"},
		"a panic of the runtime": {func(_ context.Context, x engine.Execution) (any, error) { return x.Payload().(string), nil }, api.ReasonPanic, false, ""},
		"a result not for JSON":  {func(context.Context, engine.Execution) (any, error) { return func() {}, nil }, api.ReasonInvalidResult, false, ""},
		"a result too large":     {func(context.Context, engine.Execution) (any, error) { return strings.Repeat("x", 2<<20), nil }, api.ReasonInvalidResult, false, ""},
		"a checkpoint too large": {func(_ context.Context, x engine.Execution) (any, error) {
			return nil, x.Checkpoint(strings.Repeat("x", 2<<20))
		}, api.ReasonInvalidCheckpoint, false, ""},
		"a checkpoint of another shape": {func(_ context.Context, x engine.Execution) (any, error) {
			var v int
			_, err := x.Resume(&v)
			return nil, errors.Join(x.Checkpoint("text"), err, func() error { _, err := x.Resume(&v); return err }())
		}, api.ReasonInvalidCheckpoint, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, t.TempDir(), nil, define("bad", c.run), echo)
			got := r.ended(t, r.submit(t, "bad", ""))
			if got.Status != store.Failed || got.Reason != c.reason || got.Retryable != c.retryable || c.message != "" && got.Error != c.message {
				t.Errorf("it became %+v", got)
			}
			r.ended(t, r.submit(t, "echo", `{"height":1}`)) // and the engine goes on
		})
	}
}

func TestWhatIsRefused(t *testing.T) {
	panics := define("panics", echo.Run)
	panics.Decode = func(json.RawMessage) (any, error) { panic("oh") }
	r := start(t, t.TempDir(), nil, echo, panics)
	for name, c := range map[string]struct{ kind, params, reason string }{
		"an unknown type":         {"ecco", `{}`, api.ReasonUnknownTaskType},
		"no type":                 {"", `{}`, api.ReasonUnknownTaskType},
		"a type in other letters": {"Echo", `{"height":1}`, api.ReasonUnknownTaskType},
		"not JSON":                {"echo", `{`, api.ReasonInvalidParams},
		"a list":                  {"echo", `[]`, api.ReasonInvalidParams},
		"a number":                {"echo", `1`, api.ReasonInvalidParams},
		"two objects":             {"echo", `{"height":1}{"height":1}`, api.ReasonInvalidParams},
		"an unknown field":        {"echo", `{"height":1,"weight":1}`, api.ReasonInvalidParams},
		"a wrong type":            {"echo", `{"height":true}`, api.ReasonInvalidParams},
		"nothing at all":          {"echo", ``, api.ReasonInvalidParams},
		"null":                    {"echo", `null`, api.ReasonInvalidParams},
		"not UTF-8":               {"echo", "{\"height\":1,\"note\":\"\xff\"}", api.ReasonInvalidParams},
		"a decoder that panics":   {"panics", `{}`, api.ReasonInvalidParams},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := r.Submit(t.Context(), engine.Request{Type: c.kind, Params: json.RawMessage(c.params)})
			if reason(err) != c.reason {
				t.Errorf("refused with %v, want %s", err, c.reason)
			}
		})
	}
	if all, err := r.List(10); err != nil || len(all) != 0 {
		t.Errorf("something was kept: %v, %v", all, err)
	}
}

func TestIncompleteDefinitions(t *testing.T) {
	complete := define("a", echo.Run)
	for name, change := range map[string]func(*engine.Definition){
		"no type":     func(d *engine.Definition) { d.Type = "" },
		"no deadline": func(d *engine.Definition) { d.Deadline = 0 },
		"no decoder":  func(d *engine.Definition) { d.Decode = nil },
		"no handler":  func(d *engine.Definition) { d.Run = nil },
	} {
		d := complete
		change(&d)
		if _, err := engine.New(engine.Options{Definitions: []engine.Definition{d}}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := engine.New(engine.Options{Definitions: []engine.Definition{complete, complete}}); err == nil {
		t.Error("a type that is defined twice was accepted")
	}
}

func TestTheSamePayloadInAnotherSpelling(t *testing.T) {
	r := start(t, t.TempDir(), nil, echo)
	id := r.submit(t, "echo", `{"height":1,"note":"<é>"}`)
	before := r.ended(t, id)
	r.submitAs(t, id, "echo", "\n{ \"note\": \"\\u003c\\u00e9>\", \"height\": 1 }") // failed, so it runs again
	if again := r.ended(t, id); again.Run != before.Run+1 {
		t.Errorf("run %d", again.Run)
	}
	for _, other := range []string{`{"height":2,"note":"<é>"}`, `{"height":1}`, `{"height":1.0,"note":"<é>"}`} {
		if _, err := r.Submit(t.Context(), engine.Request{ID: id, Type: "echo", Params: json.RawMessage(other)}); reason(err) != api.ReasonIDConflict {
			t.Errorf("%s: %v", other, err)
		}
	}
}

func TestExclusiveTasksRunInTurn(t *testing.T) {
	first, second := newGate(), newGate()
	r := start(t, t.TempDir(), nil,
		exclusive(define("first", first.run)), exclusive(define("second", second.run)), echo)
	a, b := r.submit(t, "first", ""), r.submit(t, "second", "")
	c := r.submit(t, "first", "")
	<-first.entered
	// Others do not wait for them.
	r.ended(t, r.submit(t, "echo", `{"height":1}`))
	if waiting, _ := r.Get(t.Context(), b); !waiting.StartedAt.IsZero() || !waiting.Deadline.IsZero() {
		t.Errorf("the clock of a task that waits runs already: %+v", waiting)
	}
	// One that is deleted while it waits was never there.
	if err := r.Delete(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	b = r.submit(t, "second", "")
	first.leave <- nil
	r.ended(t, a)
	if got := <-first.entered; got != c {
		t.Error("another task came first")
	}
	select {
	case <-second.entered:
		t.Error("two exclusive tasks ran at a time")
	default:
	}
	first.leave <- errors.New("a failure ends the turn too")
	r.ended(t, c)
	<-second.entered
	second.leave <- nil
	if got := r.ended(t, b); got.StartedAt.IsZero() || !got.Deadline.Equal(got.StartedAt.Add(long)) {
		t.Errorf("it became %+v", got)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	g := newGate()
	r := start(t, t.TempDir(), nil, define("slow", g.run))
	id := r.submit(t, "slow", "")
	<-g.entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := r.Wait(ctx, id); err != nil || got.Status != store.Running {
		t.Errorf("%v, %v", got.Status, err)
	}
	if _, err := r.Wait(ctx, uuid.New()); reason(err) != api.ReasonNotFound {
		t.Errorf("of an unknown task: %v", err)
	}
	g.leave <- nil
	r.ended(t, id)
}

func TestDelete(t *testing.T) {
	g := newGate()
	r := start(t, t.TempDir(), nil, define("slow", g.run), echo)
	id := r.submit(t, "slow", "")
	<-g.entered
	if err := r.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Get(t.Context(), id); reason(err) != api.ReasonNotFound {
		t.Errorf("it is still there: %v", err)
	}
	if err := r.Delete(t.Context(), id); reason(err) != api.ReasonNotFound {
		t.Errorf("deleted twice: %v", err)
	}
	done := r.submit(t, "echo", `{"height":1}`)
	r.ended(t, done)
	if err := r.Delete(t.Context(), done); err != nil {
		t.Fatal(err)
	}
	// An id that was deleted is new.
	r.submitAs(t, id, "echo", `{"height":2}`)
	if got := r.ended(t, id); got.Run != 1 {
		t.Errorf("run %d", got.Run)
	}
	want := []string{"slow running 1", "slow deleted", "echo running 1", "echo completed 1", "echo deleted", "echo running 1", "echo completed 1"}
	if diff := cmp.Diff(want, r.seen()); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestDeleteOfATaskThatDoesNotListen(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	deaf := define("deaf", func(context.Context, engine.Execution) (any, error) {
		close(entered)
		<-leave
		return "done", nil
	})
	r := start(t, t.TempDir(), nil, deaf)
	id := r.submit(t, "deaf", "")
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Delete(ctx, id); reason(err) != api.ReasonStillRunning {
		t.Errorf("deleted with %v", err)
	}
	if _, err := r.Submit(t.Context(), engine.Request{ID: id, Type: "deaf"}); reason(err) != api.ReasonDeleting {
		t.Errorf("submitted with %v", err)
	}
	close(leave)
	if _, err := r.Wait(t.Context(), id); reason(err) != api.ReasonNotFound {
		t.Errorf("the deletion did not go on: %v", err)
	}
}

func TestShutdown(t *testing.T) {
	dir := t.TempDir()
	g := newGate()
	first := define("hold", g.run)
	first.First = true
	queue := func() *rig {
		return start(t, dir, nil, exclusive(define("slow", g.run)), exclusive(first), echo)
	}
	r := queue()
	a, b, held := r.submit(t, "slow", ""), r.submit(t, "slow", ""), r.submit(t, "hold", "")
	<-g.entered
	waited := make(chan store.Task)
	go func() {
		task, _ := r.Wait(t.Context(), a)
		waited <- task
	}()
	before, err := r.Get(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	r.stop(t)
	<-waited
	if _, err := r.Submit(t.Context(), engine.Request{Type: "echo", Params: json.RawMessage(`{"height":1}`)}); reason(err) != api.ReasonShuttingDown {
		t.Errorf("submitted with %v", err)
	}

	// The hold first: nothing is resumed, and nothing else is done by the sidecar,
	// before it has ended.
	resumed := make(chan *rig)
	go func() { resumed <- queue() }()
	if got := <-g.entered; got != held {
		t.Fatalf("%s was resumed before the hold", got)
	}
	select {
	case <-resumed:
		t.Fatal("resumed, while the hold had not ended")
	default:
	}
	g.leave <- nil
	r = <-resumed
	// Then the others, in the order of submission.
	for _, want := range []uuid.UUID{a, b} {
		if got := <-g.entered; got != want {
			t.Fatalf("%s was resumed, want %s", got, want)
		}
		g.leave <- nil
		r.ended(t, want)
	}
	after := r.ended(t, a)
	if after.Run != 1 || !after.StartedAt.Equal(before.StartedAt) || !after.Deadline.Equal(before.Deadline) {
		t.Errorf("a run that was resumed is not the same: %+v, was %+v", after, before)
	}
}

func TestShutdownIsBounded(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	r := start(t, t.TempDir(), nil, define("deaf", func(context.Context, engine.Execution) (any, error) {
		close(entered)
		<-leave
		return nil, nil
	}))
	id := r.submit(t, "deaf", "")
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := r.Close(ctx); err == nil {
		t.Error("closed, while a handler ran")
	}
	close(leave)
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	// What was done is recorded, shutdown or not.
	if got, err := r.Get(t.Context(), id); err != nil || got.Status != store.Completed {
		t.Errorf("it became %v, %v", got.Status, err)
	}
}

func TestUnfinishedTasksThatNobodyUnderstands(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	for _, task := range []store.Task{
		{Type: "removed", Params: json.RawMessage(`{}`)},
		{Type: "echo", Params: json.RawMessage(`{"gone":1}`)},
	} {
		task.ID, task.Status, task.Run = uuid.New(), store.Running, 1
		if _, err := s.Put(task); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	r := start(t, dir, nil, echo)
	all, err := r.List(10)
	if err != nil {
		t.Fatal(err)
	}
	if all[0].Reason != api.ReasonInvalidParams || all[1].Reason != api.ReasonUnknownTaskType {
		t.Errorf("they became %+v", all)
	}
}
