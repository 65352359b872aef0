package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	"github.com/sei-operator/sei-operator/internal/sidecar/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const long = time.Hour

// tester is what a test and a check of a property have in common.
type tester interface {
	Helper()
	Error(...any)
	Fatal(...any)
	Fatalf(string, ...any)
	Cleanup(func())
	Context() context.Context
}

// rig is an engine over a real store.
type rig struct {
	*engine.Engine
	dir   string
	store *store.Store

	mu      sync.Mutex
	changes []string
}

func newStore(tb tester, dir string) *store.Store {
	tb.Helper()
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// start runs an engine with these types; wrap may put something before its store.
func start(tb tester, dir string, wrap func(engine.Store) engine.Store, definitions ...engine.Definition) *rig {
	tb.Helper()
	r := &rig{dir: dir, store: newStore(tb, dir)}
	var kept engine.Store = r.store
	if wrap != nil {
		kept = wrap(kept)
	}
	var err error
	r.Engine, err = engine.New(engine.Options{
		Store: kept, Definitions: definitions, Log: slog.New(slog.DiscardHandler),
		Notify: func(c engine.Change) {
			r.mu.Lock()
			defer r.mu.Unlock()
			change := fmt.Sprintf("%s %s %d", c.Task.Type, c.Task.Status, c.Task.Run)
			if c.Deleted {
				change = c.Task.Type + " deleted"
			}
			r.changes = append(r.changes, change)
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { r.stop(tb) })
	r.Resume(tb.Context())
	return r
}

// stop is a clean shutdown.
func (r *rig) stop(tb tester) {
	tb.Helper()
	// Not the context of the test: it has ended when the test cleans up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), time.Minute)
	defer cancel()
	if err := r.Close(ctx); err != nil {
		tb.Error(err)
	}
	if err := r.store.Close(); err != nil {
		tb.Error(err)
	}
}

func (r *rig) seen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{}, r.changes...)
}

func (r *rig) submit(tb tester, kind, params string) uuid.UUID {
	tb.Helper()
	return r.submitAs(tb, uuid.Nil, kind, params)
}

func (r *rig) submitAs(tb tester, id uuid.UUID, kind, params string) uuid.UUID {
	tb.Helper()
	id, err := r.Submit(tb.Context(), engine.Request{ID: id, Type: kind, Params: json.RawMessage(params)})
	if err != nil {
		tb.Fatal(err)
	}
	return id
}

func (r *rig) ended(tb tester, id uuid.UUID) store.Task {
	tb.Helper()
	task, err := r.Wait(tb.Context(), id)
	if err != nil {
		tb.Fatal(err)
	}
	if task.Status == store.Running {
		tb.Fatalf("task %s has not ended", task.Type)
	}
	return task
}

func reason(err error) string {
	if f, ok := errors.AsType[*engine.Failure](err); ok {
		return f.Reason
	}
	return fmt.Sprint(err)
}

type none struct{}

// define makes a type of task without params.
func define(kind string, run func(context.Context, engine.Execution) (any, error)) engine.Definition {
	return engine.Definition{Type: kind, Deadline: long, Decode: engine.Strict[none], Run: run}
}

func exclusive(d engine.Definition) engine.Definition {
	d.Exclusive = true
	return d
}

// gate is a handler that says when it is entered and returns when it is told, or
// when its context ends.
type gate struct {
	entered chan uuid.UUID
	leave   chan error
}

func newGate() *gate { return &gate{entered: make(chan uuid.UUID, 10), leave: make(chan error)} }

func (g *gate) run(ctx context.Context, x engine.Execution) (any, error) {
	g.entered <- x.ID()
	select {
	case err := <-g.leave:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// broken is a store whose writes fail while it is told so.
type broken struct {
	engine.Store
	mu      sync.Mutex
	failing func(op string) bool
}

func (b *broken) fail(failing func(op string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failing = failing
}

func (b *broken) check(op string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failing != nil && b.failing(op) {
		return store.ErrUnavailable
	}
	return nil
}

func (b *broken) Put(t store.Task) (store.Task, error) {
	if err := b.check("put " + string(t.Status)); err != nil {
		return t, err
	}
	return b.Store.Put(t)
}

func (b *broken) Delete(id uuid.UUID) error {
	if err := b.check("delete"); err != nil {
		return err
	}
	return b.Store.Delete(id)
}

func (b *broken) Unfinished() ([]store.Task, error) {
	if err := b.check("unfinished"); err != nil {
		return nil, err
	}
	return b.Store.Unfinished()
}

func (b *broken) LoadCheckpoint(id uuid.UUID, run int) (json.RawMessage, error) {
	if err := b.check("load checkpoint"); err != nil {
		return nil, err
	}
	return b.Store.LoadCheckpoint(id, run)
}

func breakable(b *broken) func(engine.Store) engine.Store {
	return func(s engine.Store) engine.Store {
		b.Store = s
		return b
	}
}
