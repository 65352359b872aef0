package seinodetask

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/agents"
	"github.com/sei-operator/sei-operator/internal/nodetask"
	"github.com/sei-operator/sei-operator/internal/scope"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

const (
	// cancelPatience is how long the deletion of a task that runs waits for a sidecar
	// that does not answer. It may be gone for good, and the namespace with it.
	cancelPatience = 2 * time.Minute
	// cancelPause is when a sidecar is asked again to end a task.
	cancelPause = time.Second
)

// cancel ends a task on its node that is being deleted, and lets it go.
func (r *Reconciler) cancel(ctx context.Context, w *world) (time.Duration, error) {
	err := r.stop(ctx, w)
	if err != nil {
		if left := w.task.DeletionTimestamp.Add(cancelPatience).Sub(w.Now()); left > 0 {
			return min(left, cancelPause), nil
		}
		r.Report.Event(w.task, scope.Event{
			Warning: true, Reason: "NotCancelled",
			Message: "The task was deleted and could not be ended on the node, which may still carry it out: " + explain(err),
		})
	}
	return 0, r.letGo(ctx, w.task)
}

// stop ends what a task has under way on nodes.
func (r *Reconciler) stop(ctx context.Context, w *world) error {
	if w.node == nil || string(w.node.UID) != w.task.Status.TargetUID {
		return nil // nothing of it is left
	}
	if kind := nodetask.KindOf(w.task); kind != nil {
		if step := kind.Step(w.task.Status.Step); step != nil && step.Cancel != nil {
			return step.Cancel(ctx, w)
		}
	}
	id, err := uuid.Parse(w.task.Status.TaskID)
	if err != nil {
		return nil //nolint:nilerr // it has no id, so nothing was sent
	}
	return w.Cancel(ctx, w.node, id)
}

// Cancel ends a task on a node. One whose end is under way has been cancelled.
func (w *world) Cancel(ctx context.Context, node *v1alpha1.SeiNode, id uuid.UUID) error {
	err := w.Agents.Delete(ctx, keyOf(node), id)
	refusal, refused := errors.AsType[*agents.Refusal](err)
	if agents.NotFound(err) || refused && refusal.Reason == api.ReasonStillRunning {
		return nil
	}
	return err
}

// explain says why a sidecar could not be asked, without what differs each time.
func explain(err error) string {
	if errors.Is(err, agents.ErrNotConnected) {
		return "its sidecar does not answer."
	}
	if refusal, ok := errors.AsType[*agents.Refusal](err); ok {
		return refusal.Message
	}
	return "its sidecar did not answer in time."
}
