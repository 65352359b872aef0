package nodetask

import (
	"context"
	"time"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/sidecar/tasks"
)

// HoldNode keeps seid from running until the hold is released, and is complete when
// seid is proven to have stopped. A hold always wins, so it waits for nobody: neither
// for other tasks, nor for a plan.
var _ = register(Kind{
	Name: v1alpha1.TaskKindHoldNode, Timeout: 15 * time.Minute, Mutates: true, Urgent: true,
	HasPayload: func(spec *v1alpha1.SeiNodeTaskSpec) bool { return spec.HoldNode != nil },
	Steps: []Step{
		{Name: "hold", Task: tasks.TypeMarkNotReady, Params: func(_ context.Context, w World) (any, error) {
			return tasks.MarkNotReady{Reason: "SeiNodeTask " + w.Task().Name}, nil
		}},
		stopSeid,
	},
	Aftermath: func(step string) string {
		if step == stopSeid.Name {
			return "The node is held; it is not proven that seid has stopped."
		}
		return "It is not known whether the node is held; its condition Held tells."
	},
})

// stopSeid proves that seid of a held node has stopped.
var stopSeid = Step{
	Name: "stop-seid", Task: tasks.TypeStopSeid,
	Params: func(_ context.Context, w World) (any, error) {
		return tasks.StopSeid{Force: skipsSafeStop(w.Node())}, nil
	},
}
