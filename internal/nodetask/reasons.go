package nodetask

import (
	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/tasks"
)

// reasons are those of sidecars that have a name of their own here. All others are
// TaskFailed.
var reasons = map[string]v1alpha1.ConditionReason{
	api.ReasonInvalidParams:    v1alpha1.ReasonInvalidPayload,
	api.ReasonUnknownTaskType:  v1alpha1.ReasonUnsupportedKind,
	api.ReasonDeadlineExceeded: v1alpha1.ReasonTimeout,
	tasks.ReasonSuperseded:     v1alpha1.ReasonSuperseded,
}
