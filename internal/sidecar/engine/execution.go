package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/store"
)

// Why the context of an execution ended.
var (
	errDeadline = errors.New("the deadline of the task passed")
	errDeleted  = errors.New("the task was deleted")
	errShutdown = errors.New("the sidecar is shutting down")
)

// maxDocument bounds what a handler may have kept: a result or a checkpoint.
const maxDocument = 1 << 20

// execution is a task that this process runs.
type execution struct {
	engine  *Engine
	def     *Definition
	task    store.Task // its own goroutine changes it, under the engine's lock
	payload any
	cancel  context.CancelCauseFunc
	turn    chan struct{} // closed when the task may begin
	stuck   chan struct{} // closed when its end could not be written at once
	done    chan struct{} // closed when it is over

	resumed bool // an earlier sidecar took it
	late    bool // it did not begin before its deadline
	deleted bool // guarded by the engine's lock
	settled bool // its end is durable; written before done is closed

	checkpoints sync.Mutex
	returned    bool // guarded by checkpoints
}

// launch starts a task; the caller holds the lock. The task outlives the call that
// asked for it.
func (e *Engine) launch(ctx context.Context, def *Definition, t store.Task, payload any, resumed bool) *execution {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	x := &execution{
		engine: e, def: def, task: t, payload: payload, cancel: cancel, resumed: resumed,
		turn: make(chan struct{}), stuck: make(chan struct{}), done: make(chan struct{}),
	}
	// One that waits for its turn loses no time by it, but the time that the sidecar was
	// away counts.
	x.late = resumed && !def.First && t.StartedAt.IsZero() && e.now().Sub(t.SubmittedAt) > def.Deadline
	e.live[t.ID] = x
	if def.Exclusive {
		e.queue = append(e.queue, x)
	}
	if !def.Exclusive || e.queue[0] == x {
		close(x.turn)
	}
	e.wg.Go(func() {
		defer cancel(nil)
		var result any
		err := x.begin(ctx)
		if err == nil {
			result, err = x.call(ctx)
		}
		x.settle(ctx, result, err)
	})
	return x
}

// leave ends the execution and passes the turn on; the caller holds the lock. It
// comes after the end of the task is durable: if the next one began earlier and the
// sidecar then died, this one would run again, after the next, and undo it.
func (x *execution) leave() {
	e := x.engine
	delete(e.live, x.task.ID)
	if i := slices.Index(e.queue, x); i >= 0 {
		e.queue = slices.Delete(e.queue, i, i+1)
		if i == 0 && len(e.queue) > 0 {
			close(e.queue[0].turn)
		}
	}
	close(x.done)
}

// begin waits for the turn of the task and makes durable when it is given up.
func (x *execution) begin(ctx context.Context) error {
	select {
	case <-x.turn:
	case <-ctx.Done():
	}
	for attempt := 1; ; attempt++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !x.task.StartedAt.IsZero() {
			return nil
		}
		started := x.task
		started.StartedAt = x.engine.now()
		started.Deadline = started.StartedAt.Add(x.def.Deadline)
		if x.late {
			started.Deadline = started.SubmittedAt.Add(x.def.Deadline)
		}
		x.engine.mu.Lock()
		err := x.engine.record(started)
		if err == nil {
			x.task = started
		}
		x.engine.mu.Unlock()
		if err == nil {
			return nil
		}
		x.Log().Error("A task cannot begin before the store takes it", "error", err)
		x.engine.pause(attempt, ctx.Done())
	}
}

// call runs the handler until it returns. It is never left behind: a task whose
// handler still runs has not ended.
func (x *execution) call(ctx context.Context) (result any, err error) {
	remaining, err := x.remaining()
	if err != nil {
		return nil, err
	}
	if remaining <= 0 {
		x.cancel(errDeadline)
		return nil, errDeadline
	}
	timer := x.engine.opts.Clock.AfterFunc(remaining, func() { x.cancel(errDeadline) })
	defer timer.Stop()
	defer func() {
		x.checkpoints.Lock()
		defer x.checkpoints.Unlock()
		x.returned = true
	}()
	defer func() {
		if r := recover(); r != nil {
			x.engine.metrics.panics.WithLabelValues(x.def.Type).Inc()
			x.Log().Error("A task panicked", "panic", r, "stack", string(debug.Stack()))
			result, err = nil, Terminal(api.ReasonPanic, "the handler of the task panicked: %v", r)
		}
	}()
	return x.def.Run(ctx, x)
}

// remaining is how long the handler may take. The deadline was set by a clock that may
// have been put right since, so it is never more than one run is given.
func (x *execution) remaining() (time.Duration, error) {
	anew := x.resumed && x.def.First
	if x.resumed && x.def.Outlasts && !anew {
		var err error
		if anew, err = x.begun(); err != nil {
			return 0, err
		}
	}
	if anew {
		return x.def.Deadline, nil
	}
	return min(x.task.Deadline.Sub(x.engine.now()), x.def.Deadline), nil
}

// begun tells whether the run has a checkpoint, which comes before its first effect. A
// store that cannot tell has not said yes: the run would begin after its deadline.
func (x *execution) begun() (bool, error) {
	_, err := x.engine.opts.Store.LoadCheckpoint(x.task.ID, x.task.Run)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, storeFailure(err)
}

// settle makes the end of the task durable, however long the store takes to accept
// it. Until then the task is running for everybody.
func (x *execution) settle(ctx context.Context, result any, err error) {
	cause := context.Cause(ctx)
	if err != nil && errors.Is(cause, errDeadline) {
		err = &Failure{
			Reason: api.ReasonDeadlineExceeded, Retryable: true, Cause: err,
			Message: fmt.Sprintf("not done within %s: %v", x.def.Deadline, err),
		}
	}
	ended := x.engine.ended(x.task, result, err)
	cutShort := err != nil && errors.Is(cause, errShutdown)
	for attempt := 1; ; attempt++ {
		writeErr := x.end(ended, cutShort)
		if writeErr == nil {
			return
		}
		if attempt == 1 {
			close(x.stuck)
		}
		x.Log().Error("The end of a task cannot be recorded; trying again", "error", writeErr)
		// At a shutdown the row stays unfinished, and the next sidecar runs it again.
		cutShort = !x.engine.pause(attempt, nil)
	}
}

// end makes the end of the task durable, or leaves the task to the next sidecar.
func (x *execution) end(ended store.Task, cutShort bool) error {
	e := x.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	var err error
	switch {
	case x.deleted:
		if err = e.opts.Store.Delete(x.task.ID); errors.Is(err, store.ErrNotFound) {
			err = nil
		}
		if err == nil {
			e.opts.Notify(Change{Task: x.task, Deleted: true})
		}
	case !cutShort:
		err = e.record(ended)
	}
	x.settled = err == nil && (x.deleted || !cutShort)
	if cutShort {
		err = nil
	}
	if err == nil {
		x.leave()
	}
	return err
}

// record writes a task and tells of it; the caller holds the lock.
func (e *Engine) record(t store.Task) error {
	t, err := e.opts.Store.Put(t)
	if err != nil {
		return err
	}
	if t.Status != store.Running {
		e.metrics.ended(t)
		e.opts.Log.Info("A task ended", "task", t.ID, "type", t.Type, "run", t.Run, "status", t.Status, "reason", t.Reason, "error", t.Error)
	}
	e.opts.Notify(Change{Task: t})
	return nil
}

// ended returns the task with its outcome.
func (e *Engine) ended(t store.Task, result any, err error) store.Task {
	t.Status, t.CompletedAt = store.Completed, e.now()
	if result != nil {
		document, docErr := document(result)
		if docErr != nil && err == nil {
			err = Terminal(api.ReasonInvalidResult, "the task was done and its result cannot be kept: %w", docErr)
		}
		t.Result = document
	}
	if err != nil {
		f := asFailure(err)
		t.Status, t.Error, t.Reason, t.Retryable = store.Failed, f.Message, f.Reason, f.Retryable
	}
	return t
}

func document(v any) (json.RawMessage, error) {
	data, err := json.Marshal(v)
	if err == nil && len(data) > maxDocument {
		err = fmt.Errorf("it has %d bytes, more than %d", len(data), maxDocument)
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

func (x *execution) ID() uuid.UUID { return x.task.ID }

func (x *execution) Run() int { return x.task.Run }

func (x *execution) Sequence() uint64 { return x.task.Seq }

func (x *execution) Resumed() bool { return x.resumed }

// Late is about runs of an earlier sidecar only. A timer ends the others at their deadline,
// and does not care where the wall clock is put meanwhile.
func (x *execution) Late() bool { return x.resumed && !x.engine.now().Before(x.task.Deadline) }

func (x *execution) Payload() any { return x.payload }

func (x *execution) Log() *slog.Logger {
	return x.engine.opts.Log.With("task", x.task.ID, "type", x.task.Type, "run", x.task.Run)
}

func (x *execution) Checkpoint(v any) error {
	data, err := document(v)
	if err != nil {
		return Terminal(api.ReasonInvalidCheckpoint, "a checkpoint cannot be kept: %w", err)
	}
	x.checkpoints.Lock()
	defer x.checkpoints.Unlock()
	if x.returned {
		// What the handler left behind must not bring a task back that is gone.
		return Terminal(api.ReasonInvalidCheckpoint, "the run is over")
	}
	return storeFailure(x.engine.opts.Store.SaveCheckpoint(x.task, data))
}

func (x *execution) Resume(v any) (bool, error) {
	data, err := x.engine.opts.Store.LoadCheckpoint(x.task.ID, x.task.Run)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, storeFailure(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return false, Terminal(api.ReasonInvalidCheckpoint, "the checkpoint of this run is not understood: %w", err)
	}
	return true, nil
}
