package nodetask

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// UpdateNodeImage gives the node another image and is complete when that works. The
// pod is replaced by a plan of the node, as after an edit by hand, so this is the one
// kind that changes the node and does not keep its pod.
var _ = register(Kind{
	Name: v1alpha1.TaskKindUpdateNodeImage, Timeout: time.Hour, Mutates: true,
	HasPayload: func(spec *v1alpha1.SeiNodeTaskSpec) bool { return spec.UpdateNodeImage != nil },
	Refuses: func(in Input) string {
		if in.Fleet != "" {
			return fmt.Sprintf("The node %s belongs to the SeiNodeDeployment %s, which would take the image back: set the image there.", in.Node.Name, in.Fleet)
		}
		return ""
	},
	Steps: []Step{{Name: "set-image", Do: setImage}, {Name: "await-image", Do: awaitImage}},
})

func setImage(ctx context.Context, w World, _ *v1alpha1.TaskOutputs) (Outcome, error) {
	if image := w.Task().Spec.UpdateNodeImage.Image; w.Node().Spec.Image != image {
		if err := w.PatchImage(ctx, image); err != nil {
			return Outcome{}, err
		}
	}
	return Done(""), nil
}

func awaitImage(_ context.Context, w World, outputs *v1alpha1.TaskOutputs) (Outcome, error) {
	node, image := w.Node(), w.Task().Spec.UpdateNodeImage.Image
	status := &node.Status
	switch {
	case node.Spec.Image != image:
		return Failed(fails(v1alpha1.ReasonSuperseded, "The image of the node was changed to %s meanwhile.", node.Spec.Image)), nil
	case updateFailed(status, w.Task().Status.ExecutionStartTime, image):
		return Failed(fails(v1alpha1.ReasonTaskFailed,
			"The update of the node failed: %s The node goes on trying; set spec.image to one that works.", sentence(status.LastPlan.Message))), nil
	case status.ObservedGeneration == node.Generation && status.Plan == nil && status.CurrentImage == image:
		outputs.Image = image
		return Done(fmt.Sprintf("The node runs %s.", image)), nil
	case node.Spec.Paused:
		return Waits(0, "The node is paused, and gets the image when it runs again."), nil
	}
	return Waits(0, "Waits until the node runs %s.%s", image, trouble(status)), nil
}

// updateFailed tells whether an update that began with the task failed, and the image does
// not run, or runs and is not ready.
func updateFailed(status *v1alpha1.SeiNodeStatus, began *metav1.Time, image string) bool {
	last := status.LastPlan
	if last == nil || last.Type != v1alpha1.PlanNodeUpdate || last.Outcome != v1alpha1.PlanOutcomeFailed || began == nil || last.StartTime.Before(began) {
		return false
	}
	ready := meta.IsStatusConditionTrue(status.Conditions, string(v1alpha1.ConditionReady))
	return status.CurrentImage != image || status.Plan == nil && !ready
}

// troubles are the reasons for which a new image does not come to run and that a
// person should hear of.
var troubles = map[v1alpha1.ConditionReason]bool{
	v1alpha1.ReasonImagePullBackOff: true, v1alpha1.ReasonCrashLoopBackOff: true, v1alpha1.ReasonOOMKilled: true,
	v1alpha1.ReasonUnschedulable: true, v1alpha1.ReasonPodUnreachable: true, v1alpha1.ReasonWaitingForSafeStop: true,
}

func trouble(status *v1alpha1.SeiNodeStatus) string {
	ready := meta.FindStatusCondition(status.Conditions, string(v1alpha1.ConditionReady))
	stalled := meta.IsStatusConditionTrue(status.Conditions, string(v1alpha1.ConditionStalled))
	if ready == nil || !stalled && !troubles[v1alpha1.ConditionReason(ready.Reason)] {
		return ""
	}
	return " " + ready.Message
}
