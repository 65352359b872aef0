package agents

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/client"
	"github.com/sei-operator/sei-operator/internal/sidecar/tasks"
)

// maxWait is how long a sidecar lets a caller wait for a task.
const maxWait = time.Minute

// Submit starts a task, or joins the one with the same id. Any other error than
// ErrNotConnected and a refusal by the sidecar leaves open whether the task exists.
func (f *Fleet) Submit(ctx context.Context, node types.NamespacedName, request api.TaskRequest) error {
	if request.ID == uuid.Nil {
		return fmt.Errorf("a task %s for %s has no id, so nobody could ask what became of it", request.Type, node)
	}
	c, err := f.connected(node)
	if err != nil {
		return err
	}
	err = f.submit(ctx, c, request)
	// An image of the sidecar may be pinned, and be older than the operator.
	if before, ok := tasks.Before(request); ok && client.Reason(err) == api.ReasonInvalidParams {
		second := f.submit(ctx, c, before)
		// Both were refused: the first refusal names what is wrong with the request. Any other
		// error may mean that the task exists, so it is returned.
		if reason := client.Reason(second); reason != api.ReasonInvalidParams && reason != api.ReasonUnknownTaskType {
			return second
		}
	}
	return err
}

func (f *Fleet) submit(ctx context.Context, c *connection, request api.TaskRequest) error {
	call := Call{Node: c.agent.target.Node, Method: MethodSubmit, TaskType: request.Type, Params: request.Params, TaskID: request.ID}
	return f.opts.Around(ctx, call, func(ctx context.Context) error {
		return c.call(ctx, f.opts.CallTimeout, c.breakUp, func(ctx context.Context) error {
			_, err := c.agent.client.Submit(ctx, request)
			return err
		})
	})
}

// Task returns a task when it has ended, or as it is after the wait.
func (f *Fleet) Task(ctx context.Context, node types.NamespacedName, id uuid.UUID, wait time.Duration) (api.TaskResult, error) {
	c, err := f.connected(node)
	if err != nil {
		return api.TaskResult{}, err
	}
	wait = min(max(wait, 0), maxWait)
	var task api.TaskResult
	err = c.call(ctx, f.opts.CallTimeout+wait, c.breakUp, func(ctx context.Context) error {
		task, err = c.agent.client.Wait(ctx, id, wait)
		return err
	})
	return task, err
}

// Delete cancels a task and has it forgotten. The task is cancelled also if the call
// runs out of time while the task takes long to end; call again.
func (f *Fleet) Delete(ctx context.Context, node types.NamespacedName, id uuid.UUID) error {
	c, err := f.connected(node)
	if err != nil {
		return err
	}
	// A sidecar answers only when the task has ended, so a late answer proves nothing.
	// Whether the sidecar is alive is found out by a read in the background.
	doubt := func(error) { c.ask() }
	return f.opts.Around(ctx, Call{Node: node, Method: MethodDelete, TaskID: id}, func(ctx context.Context) error {
		return c.call(ctx, f.opts.CallTimeout, doubt, func(ctx context.Context) error {
			return c.agent.client.Delete(ctx, id)
		})
	})
}

// Refresh reads the status now, and returns the view with it. When it fails, the
// view is as it was known before, or says that the connection broke.
func (f *Fleet) Refresh(ctx context.Context, node types.NamespacedName) (View, error) {
	c, err := f.connected(node)
	if err != nil {
		return f.View(node), err
	}
	err = c.call(ctx, f.opts.CallTimeout, c.breakUp, func(ctx context.Context) error {
		return c.read(ctx, false)
	})
	return c.agent.current(), err
}

// connected returns the connection of a node's sidecar if it may be called.
func (f *Fleet) connected(node types.NamespacedName) (*connection, error) {
	a := f.agent(node)
	if a == nil {
		return nil, fmt.Errorf("%w: %s: %s", ErrNotConnected, node, problemNobody)
	}
	c, view := a.connected()
	if c == nil {
		return nil, fmt.Errorf("%w: %s: %s", ErrNotConnected, node, view.Problem)
	}
	return c, nil
}

// call calls the sidecar, within a limit and no longer than the connection lives.
// When there is no answer in time, late is told.
func (c *connection) call(ctx context.Context, limit time.Duration, late func(error), do func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	bounded, lose := context.WithCancelCause(bounded)
	defer lose(nil)
	defer c.ended(func() { lose(errLost) })()

	err := do(bounded)
	node := c.agent.target.Node
	switch {
	case err == nil:
		return nil
	case client.Reason(err) == api.ReasonWrongNode:
		c.breakUp(err)
	case ctx.Err() != nil:
		// The caller gave up, which says nothing about the sidecar.
	case errors.Is(context.Cause(bounded), errLost):
		err = fmt.Errorf("%w: %w", errLost, err)
	case timedOut(err):
		late(err)
		err = fmt.Errorf("no answer within %s: %w", limit, err)
	}
	return fmt.Errorf("call the sidecar of %s: %w", node, err)
}
