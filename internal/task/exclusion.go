package task

import (
	"context"

	"github.com/sei-operator/sei-operator/internal/nodetask"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/scope"
)

// taskFirst is the SeiNodeTask that works on the node, if there is one. It is asked
// right before seid is stopped, when the plan that does so is persisted; so what is in
// no cache yet is looked for too. See plan.TaskGate.
func taskFirst(ctx context.Context, s *scope.Scope) (*plan.Gate, error) {
	if gate := plan.TaskGate(s.Seen.Task, s.Seen.Now); gate != nil {
		return gate, nil
	}
	tasks, err := s.Kube.TasksLive(ctx, s.Key())
	if err != nil {
		return nil, err
	}
	s.Seen.Task = nodetask.Working(tasks, s.Seen.Now)
	return plan.TaskGate(s.Seen.Task, s.Seen.Now), nil
}

// standOr lets a task stand behind a gate, if there is one.
func standOr(gate *plan.Gate) Outcome {
	if gate == nil {
		return Outcome{}
	}
	return Stand(gate)
}
