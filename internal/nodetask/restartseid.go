package nodetask

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/sidecar/tasks"
)

// RestartSeid restarts seid in its container. Sidecar, pod and approval stay. A seid
// that outlives the grace is a failure and is never killed. It is complete when RPC
// answers again, which does not mean that the node has caught up.
var _ = register(Kind{
	Name: v1alpha1.TaskKindRestartSeid, Timeout: 10 * time.Minute, Mutates: true, KeepsPod: true,
	HasPayload: func(spec *v1alpha1.SeiNodeTaskSpec) bool { return spec.RestartSeid != nil },
	Steps: []Step{{
		Name: "restart-seid", Task: tasks.TypeRestartSeid,
		Params: func(_ context.Context, w World) (any, error) {
			return tasks.RestartSeid{Force: skipsSafeStop(w.Node())}, nil
		},
		Learn: func(_ context.Context, _ World, result json.RawMessage, outputs *v1alpha1.TaskOutputs) error {
			var found tasks.RestartSeidResult
			if json.Unmarshal(result, &found) == nil && found.NewInstance != "" {
				outputs.RestartGapSeconds = strconv.FormatFloat(found.GapSeconds, 'f', 3, 64)
			}
			return nil
		},
	}},
})
