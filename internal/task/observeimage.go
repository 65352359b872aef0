package task

import (
	"context"

	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/render"
	"github.com/sei-operator/sei-operator/internal/scope"
)

// observeImage waits until the pod that runs is the one that is wanted: made from the
// template that the StatefulSet updates to, its containers started with the images.
// It asks for no more: a node that is halted or held never gets ready, and still has
// its new image.
func observeImage(ctx context.Context, s *scope.Scope, index int) (Outcome, error) {
	set, pod := s.Seen.StatefulSet, s.Seen.Pod
	if outcome, ready := revisionKnown(set); !ready {
		return outcome, nil
	}
	if pod == nil || pod.DeletionTimestamp != nil {
		return Wait(0, "Waits for the new pod."), nil
	}
	if plan.Stale(s.Input) {
		// Somebody touched the template since the pod was replaced.
		return deletePod(ctx, s, index)
	}
	if plan.RunningImage(pod, render.ContainerSeid) != s.Want.SeidImage || plan.RunningImage(pod, render.ContainerSidecar) != s.Want.SidecarImage {
		return Wait(0, "Waits for the containers of pod %s to start.", pod.Name), nil
	}
	return Done(""), nil
}
