// Package engine runs tasks: each at most once at a time, each to a recorded end.
//
// A task is durable before it is acknowledged, and its outcome before it is told.
// A sidecar that is stopped or dies leaves its tasks running on disk, and the next
// one goes on with them; what a handler must not do twice it guards with a
// checkpoint, which is durable before the effect.
package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/store"
)

// Options make an engine.
type Options struct {
	Store       Store
	Definitions []Definition
	Clock       clock.WithDelayedExecution // default: the real one
	Log         *slog.Logger               // default: none
	// Notify is told every change, in order. It must not block.
	Notify func(Change)
	// Registerer takes the metrics; default: none.
	Registerer prometheus.Registerer
	// DeleteWait is how long Delete waits for a handler to return; default 10 s.
	DeleteWait time.Duration
}

// Engine runs tasks. It is safe for concurrent use.
type Engine struct {
	opts    Options
	defs    map[string]*Definition
	metrics *metrics
	stop    chan struct{}
	wg      sync.WaitGroup

	// The lock is held over writes to the store, so that what the store says and
	// what runs never differ for anybody who holds it.
	mu      sync.Mutex
	live    map[uuid.UUID]*execution
	queue   []*execution // exclusive ones; the first has the turn
	resumed bool
	closed  bool
}

// New makes an engine. It runs nothing before Resume.
func New(o Options) (*Engine, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Notify == nil {
		o.Notify = func(Change) {}
	}
	if o.DeleteWait == 0 {
		o.DeleteWait = 10 * time.Second
	}
	e := &Engine{
		opts:    o,
		defs:    map[string]*Definition{},
		metrics: newMetrics(o.Registerer),
		stop:    make(chan struct{}),
		live:    map[uuid.UUID]*execution{},
	}
	for _, d := range o.Definitions {
		if d.Type == "" || d.Deadline <= 0 || d.Decode == nil || d.Run == nil {
			return nil, fmt.Errorf("the task type %q is incomplete: it needs a type, a deadline, a decoder and a handler", d.Type)
		}
		if e.defs[d.Type] != nil {
			return nil, fmt.Errorf("the task type %q is defined twice", d.Type)
		}
		e.defs[d.Type] = &d
	}
	return e, nil
}

// Resume starts the tasks that an earlier sidecar left unfinished, in the order of
// submission, and returns when those that come first have ended. While they cannot
// be read no task is accepted, because a new one must not overtake them; they are
// then tried again in the background.
func (e *Engine) Resume(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	err := e.resume(ctx)
	if err == nil {
		return
	}
	e.opts.Log.Error("Unfinished tasks cannot be read; tasks are refused until they can", "error", err)
	e.wg.Go(func() {
		for attempt := 1; e.pause(attempt, nil); attempt++ {
			if err := e.resume(ctx); err == nil {
				e.opts.Log.Info("Unfinished tasks were read; tasks are accepted again")
				return
			}
		}
	})
}

func (e *Engine) resume(ctx context.Context) error {
	// The first ones have to end before anything else begins, or a hold that was
	// accepted would come after what it is to prevent.
	first, err := e.relaunch(ctx, func(def *Definition) bool { return def != nil && def.First })
	if err != nil {
		return err
	}
	for _, x := range first {
		select {
		case <-x.done:
		case <-x.stuck:
		}
	}
	if _, err := e.relaunch(ctx, func(*Definition) bool { return true }); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.resumed = true
	return nil
}

// relaunch starts those unfinished tasks that are chosen and do not run yet.
func (e *Engine) relaunch(ctx context.Context, chosen func(*Definition) bool) ([]*execution, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, nil
	}
	unfinished, err := e.opts.Store.Unfinished()
	if err != nil {
		return nil, err
	}
	var started []*execution
	for _, t := range unfinished {
		if e.live[t.ID] != nil || !chosen(e.defs[t.Type]) {
			continue
		}
		def, payload, failure := e.decode(t.Type, t.Params)
		if failure != nil {
			// A type that was removed, or params that are no longer understood.
			if err := e.record(e.ended(t, nil, failure)); err != nil {
				return nil, err
			}
			continue
		}
		e.opts.Log.Info("Resuming a task", "task", t.ID, "type", t.Type, "run", t.Run)
		started = append(started, e.launch(ctx, def, t, payload, true))
	}
	return started, nil
}

// Request asks for a task.
type Request struct {
	ID     uuid.UUID // uuid.Nil: a new one
	Type   string
	Params json.RawMessage
}

// Submit starts a task, or joins the one with the same id. Errors are *Failure.
func (e *Engine) Submit(ctx context.Context, r Request) (uuid.UUID, error) {
	if r.ID == uuid.Nil {
		r.ID = uuid.New()
	}
	params, err := canonical(r.Params)
	if err != nil {
		return r.ID, Terminal(api.ReasonInvalidParams, "the params of a task have to be a JSON object: %w", err)
	}
	def, payload, failure := e.decode(r.Type, params)
	if failure != nil {
		return r.ID, failure
	}
	next := store.Task{ID: r.ID, Type: r.Type, Params: params, Status: store.Running, Run: 1}

	e.mu.Lock()
	defer e.mu.Unlock()
	if failure := e.refuses(); failure != nil {
		return r.ID, failure
	}
	switch old, err := e.lookup(r.ID); {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return r.ID, storeFailure(err)
	case old.Status == store.Failed && matches(old, next) == nil:
		next.Run = old.Run + 1
	default:
		return r.ID, e.join(ctx, def, payload, old, next)
	}
	next.SubmittedAt = e.now()
	if !def.Exclusive || len(e.queue) == 0 {
		// It begins at once, so that costs no second write.
		next.StartedAt, next.Deadline = next.SubmittedAt, next.SubmittedAt.Add(def.Deadline)
	}
	next, err = e.opts.Store.Put(next)
	if err != nil {
		return r.ID, storeFailure(err)
	}
	e.metrics.submissions.WithLabelValues(r.Type).Inc()
	e.opts.Notify(Change{Task: next})
	e.launch(ctx, def, next, payload, false)
	return r.ID, nil
}

// join leaves a task alone that is what was asked for.
func (e *Engine) join(ctx context.Context, def *Definition, payload any, old, asked store.Task) error {
	if err := matches(old, asked); err != nil {
		return err
	}
	x := e.live[old.ID]
	switch {
	case old.Status != store.Running:
	case x == nil:
		e.launch(ctx, def, old, payload, false) // nobody runs it; Get says why
	case x.deleted:
		return Retryable(api.ReasonDeleting, "task %s is being deleted; wait until it is gone", old.ID)
	}
	return nil
}

// matches refuses an id that is another task already.
func matches(old, asked store.Task) error {
	switch {
	case old.Type != asked.Type:
		return Terminal(api.ReasonIDConflict, "task %s exists and is a %s; use another id", old.ID, old.Type)
	case !bytes.Equal(old.Params, asked.Params):
		return Terminal(api.ReasonIDConflict, "task %s exists with other params; use another id", old.ID)
	default:
		return nil
	}
}

func (e *Engine) refuses() *Failure {
	switch {
	case e.closed:
		return Retryable(api.ReasonShuttingDown, "the sidecar is shutting down")
	case !e.resumed:
		return Retryable(api.ReasonStoreUnavailable, "unfinished tasks have not been read yet, and no task may overtake them")
	default:
		return nil
	}
}

// lookup reads a task; the caller holds the lock. One that runs exists, also when
// the store has lost it with a file that was moved aside.
func (e *Engine) lookup(id uuid.UUID) (store.Task, error) {
	t, err := e.opts.Store.Get(id)
	if x := e.live[id]; x != nil && errors.Is(err, store.ErrNotFound) {
		return x.task, nil
	}
	return t, err
}

// Get returns a task. Errors are *Failure.
func (e *Engine) Get(ctx context.Context, id uuid.UUID) (store.Task, error) {
	t, err := e.opts.Store.Get(id)
	if err == nil && t.Status != store.Running {
		return t, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	t, err = e.lookup(id)
	if err != nil || t.Status != store.Running || e.live[id] != nil || e.refuses() != nil {
		return t, storeFailure(err)
	}
	// A write was reported as failed and happened all the same. What is said to run
	// has to be run.
	if def, payload, failure := e.decode(t.Type, t.Params); failure == nil {
		e.launch(ctx, def, t, payload, false)
	}
	return t, nil
}

// List returns the newest tasks, newest first. Errors are *Failure.
func (e *Engine) List(limit int) ([]store.Task, error) {
	found, err := e.opts.Store.List(limit)
	return found, storeFailure(err)
}

// Wait returns a task when it has ended, and as it is when the context ends before.
// Errors are *Failure.
func (e *Engine) Wait(ctx context.Context, id uuid.UUID) (store.Task, error) {
	e.mu.Lock()
	x := e.live[id]
	e.mu.Unlock()
	if x != nil {
		select {
		case <-x.done:
		case <-ctx.Done():
		}
	}
	return e.Get(ctx, id)
}

// Delete cancels a task, waits a while for its handler to return, and forgets it.
// Once asked for, a deletion goes on in the background; an error (*Failure) tells
// that it is not over yet.
func (e *Engine) Delete(ctx context.Context, id uuid.UUID) error {
	e.mu.Lock()
	x := e.live[id]
	if x == nil {
		defer e.mu.Unlock()
		t, err := e.opts.Store.Get(id)
		if err == nil {
			err = e.opts.Store.Delete(id)
		}
		if err == nil {
			e.opts.Notify(Change{Task: t, Deleted: true})
		}
		return storeFailure(err)
	}
	x.deleted = true
	e.mu.Unlock()
	x.cancel(errDeleted)

	timer := e.opts.Clock.NewTimer(e.opts.DeleteWait)
	defer timer.Stop()
	select {
	case <-x.done:
		if x.settled {
			return nil
		}
		return Retryable(api.ReasonShuttingDown, "the sidecar is shutting down; delete task %s again later", id)
	case <-x.stuck:
		return Retryable(api.ReasonStoreUnavailable, "task %s was cancelled and cannot be deleted yet: the task store does not take writes", id)
	case <-timer.C():
	case <-ctx.Done():
	}
	return Retryable(api.ReasonStillRunning, "task %s was cancelled and has not ended yet", id)
}

// Close cancels what runs and waits for handlers to return, as long as the context
// allows. Tasks that did not end stay unfinished and resume with the next sidecar.
// Close the store after it.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	if !e.closed {
		e.closed = true
		close(e.stop)
	}
	for _, x := range e.live {
		x.cancel(errShutdown)
	}
	e.mu.Unlock()
	drained := make(chan struct{})
	go func() {
		e.wg.Wait()
		close(drained)
	}()
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("tasks did not end in time; they resume with the next start: %w", context.Cause(ctx))
	}
}

// now is wall time: deadlines have to mean the same to the next process.
func (e *Engine) now() time.Time {
	return e.opts.Clock.Now().UTC().Round(0)
}

// pause waits longer with every attempt, and tells whether to go on.
func (e *Engine) pause(attempt int, cancelled <-chan struct{}) bool {
	timer := e.opts.Clock.NewTimer(min(100*time.Millisecond<<min(attempt, 10), 10*time.Second))
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-cancelled:
		return false
	case <-e.stop:
		return false
	}
}
