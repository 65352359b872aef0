package nodetask

import (
	"context"
	"time"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/sidecar/tasks"
)

// ReleaseHold ends a hold. A hold that was asked for later stays, and the release is
// superseded by it.
var _ = register(Kind{
	Name: v1alpha1.TaskKindReleaseHold, Timeout: 2 * time.Minute, Mutates: true, KeepsPod: true,
	HasPayload: func(spec *v1alpha1.SeiNodeTaskSpec) bool { return spec.ReleaseHold != nil },
	Steps: []Step{{
		Name: "release-hold", Task: tasks.TypeReleaseHold,
		Params: func(context.Context, World) (any, error) { return tasks.ReleaseHold{}, nil },
	}},
})
