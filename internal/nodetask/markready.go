package nodetask

import (
	"context"
	"time"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/sidecar/tasks"
)

// MarkReady approves the node to run. With keys from Secrets it approves these keys
// and no others. On a held node it fails.
var _ = register(Kind{
	Name: v1alpha1.TaskKindMarkReady, Timeout: 2 * time.Minute, Mutates: true, KeepsPod: true,
	HasPayload: func(spec *v1alpha1.SeiNodeTaskSpec) bool { return spec.MarkReady != nil },
	Steps: []Step{{
		Name: "mark-ready", Task: tasks.TypeMarkReady,
		Params: func(ctx context.Context, w World) (any, error) {
			keys, err := w.Keys(ctx)
			return tasks.MarkReady{PublicKey: keys.PublicKey, NodeID: keys.NodeID}, err
		},
	}},
})
