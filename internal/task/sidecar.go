package task

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/sei-operator/sei-operator/internal/agents"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/render"
	"github.com/sei-operator/sei-operator/internal/scope"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

const (
	// quick is how long a worker waits for a task of a sidecar: most are done by then.
	// Whatever takes longer wakes the reconciler when it ends.
	quick = 200 * time.Millisecond
	// sidecarPause is when a sidecar is asked again that had no answer.
	sidecarPause = time.Second
)

// onSidecar has the sidecar carry out a task and returns its result when it is
// complete. The id follows from the plan, and the sidecar is asked for it before it
// is submitted, so nothing is ever run twice, unless its failure was counted here.
func onSidecar(ctx context.Context, s *scope.Scope, index int, taskType string, params any) (Outcome, api.TaskResult, error) {
	if outcome, ready := sidecarThere(s); !ready {
		return outcome, api.TaskResult{}, nil
	}
	current := s.Node.Status.Plan
	id := plan.TaskID(current, index)
	result, err := s.Agents.Task(ctx, s.Key(), id, 0)
	counted := int(current.Tasks[index].Retries)
	switch {
	case agents.NotFound(err), err == nil && result.Status == api.TaskFailed && result.Run <= counted:
		if err == nil {
			taskType, params = result.Type, result.Params // under one id always the same is sent
		}
		if outcome, err := submit(ctx, s, id, taskType, params); outcome.verdict != "" || err != nil {
			return outcome, api.TaskResult{}, err
		}
		result, err = s.Agents.Task(ctx, s.Key(), id, quick)
	}
	if err != nil {
		return unanswered(err), api.TaskResult{}, nil
	}
	switch result.Status {
	case api.TaskCompleted:
		return Done(""), result, nil
	case api.TaskFailed:
		if result.Retryable {
			return Retry(result.Reason, result.Error), result, nil
		}
		return Terminal(result.Reason, result.Error), result, nil
	default:
		return Wait(0, "The sidecar is at it."), result, nil
	}
}

// sidecarThere tells whether there is a sidecar to talk to, and what is waited for
// if there is none.
func sidecarThere(s *scope.Scope) (Outcome, bool) {
	pod := s.Seen.Pod
	switch {
	case pod != nil && pod.DeletionTimestamp != nil:
		return Wait(0, "Waits for the pod %s to end and another to come.", pod.Name), false
	case pod == nil, !s.Seen.Sidecar.Connected:
		// One sentence for all that happens until then: each further one would be a
		// write.
		return Wait(0, "Waits for the pod %s to come up and its sidecar to answer.", render.PodName(s.Node)), false
	}
	return Outcome{}, true
}

func submit(ctx context.Context, s *scope.Scope, id uuid.UUID, taskType string, params any) (Outcome, error) {
	content, err := json.Marshal(params)
	if err != nil {
		return Outcome{}, err
	}
	err = s.Agents.Submit(ctx, s.Key(), api.TaskRequest{ID: id, Type: taskType, Params: content})
	if refusal, ok := errors.AsType[*agents.Refusal](err); ok && !refusal.Retryable {
		return Terminal(refusal.Reason, refusal.Message), nil
	}
	if err != nil {
		return unanswered(err), nil
	}
	return Outcome{}, nil
}

// unanswered is for a call that had no answer, or none that says anything about the
// task. When the stream of the sidecar is back, it wakes us; otherwise we ask again.
func unanswered(err error) Outcome {
	if errors.Is(err, agents.ErrNotConnected) {
		return Wait(0, "Waits for the sidecar to answer.")
	}
	if refusal, ok := errors.AsType[*agents.Refusal](err); ok {
		return Wait(sidecarPause, "The sidecar cannot do it now: %s", refusal.Message)
	}
	// What went wrong on the way differs each time, and would be a write each time.
	return Wait(sidecarPause, "The sidecar did not answer in time.")
}
