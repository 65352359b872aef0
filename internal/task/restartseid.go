package task

import (
	"context"

	"github.com/sei-operator/sei-operator/internal/agents"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/scope"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/tasks"
)

// restartSeid makes seid read its configuration: it ends and starts again in its
// container, and the pod stays. A seid that does not run reads it when it starts.
func restartSeid(ctx context.Context, s *scope.Scope, index int) (Outcome, error) {
	if outcome, ready := sidecarThere(s); !ready {
		return outcome, nil
	}
	forced := false
	// Once it was submitted only its end counts: the new seid is not safe to stop
	// either, when it has only just begun.
	if _, err := s.Agents.Task(ctx, s.Key(), plan.TaskID(s.Node.Status.Plan, index), 0); agents.NotFound(err) {
		var gate *plan.Gate
		if gate, forced = plan.SafeStop(s.Input, s.Node.Status.Plan.Tasks[index].StartTime.Time); gate != nil {
			return Wait(gate.After, "%s", gate.Message), nil
		}
		if gate, err := taskFirst(ctx, s); gate != nil || err != nil {
			return standOr(gate), err
		}
		if forced {
			s.TellForcedStop()
		}
	}
	outcome, result, err := onSidecar(ctx, s, index, tasks.TypeRestartSeid, tasks.RestartSeid{Force: forced})
	if err != nil || result.Status != api.TaskFailed {
		return outcome, err
	}
	if why, stands := standsStill[result.Reason]; stands {
		return Done(why), nil
	}
	return outcome, nil
}

// standsStill are the reasons for which seid does not run and is not to: whatever ends
// that starts it with the new configuration.
var standsStill = map[string]string{
	tasks.ReasonHeld:          "The node is held; seid starts with the new configuration when it is released.",
	tasks.ReasonNotApproved:   "The node is not approved to run; seid starts with the new configuration when it is.",
	tasks.ReasonUpgradeNeeded: "seid waits for the image of an upgrade, and starts with the new configuration then.",
}
