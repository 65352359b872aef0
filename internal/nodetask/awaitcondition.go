package nodetask

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/sidecar/tasks"
)

// awaitTimeout is how long is waited for a height where nobody says.
const awaitTimeout = 24 * time.Hour

// AwaitCondition waits until the node reaches a height or has caught up. It changes
// nothing, so it neither waits for other tasks nor keeps them waiting.
var _ = register(Kind{
	Name: v1alpha1.TaskKindAwaitCondition, Timeout: awaitTimeout,
	HasPayload: func(spec *v1alpha1.SeiNodeTaskSpec) bool { return spec.AwaitCondition != nil },
	Steps: []Step{{
		Name: "await-condition", Task: tasks.TypeAwaitCondition,
		Params: func(_ context.Context, w World) (any, error) {
			wanted := w.Task().Spec.AwaitCondition
			params := tasks.AwaitCondition{TimeoutSeconds: secondsLeft(w)}
			if wanted.Height != nil {
				params.Height = &tasks.AwaitHeight{TargetHeight: wanted.Height.TargetHeight}
			}
			if wanted.CaughtUp != nil {
				params.CaughtUp = &tasks.AwaitCaughtUp{}
			}
			return params, nil
		},
		Learn: func(_ context.Context, _ World, result json.RawMessage, outputs *v1alpha1.TaskOutputs) error {
			var found tasks.AwaitConditionResult
			if json.Unmarshal(result, &found) == nil {
				outputs.Height = found.Height
			}
			return nil
		},
	}},
})

// secondsLeft is how long a sidecar waits, so that it tells how far the node came
// before the task is given up.
func secondsLeft(w World) int64 {
	return max(1, int64(Deadline(w.Task()).Sub(w.Now())/time.Second)-1)
}
