package status

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// batch is how long what is merely worth knowing waits for company.
const batch = 10 * time.Second

// Postpone is how long a change of the status may wait to be written; 0: not at all.
// While a task of a plan has only just begun to wait for its pod, a volume gets
// bound and a container starts within moments of each other. What they change is
// written with the next step of the plan, which is mostly a moment away as well.
func Postpone(before, after *v1alpha1.SeiNodeStatus, now time.Time) time.Duration {
	if equality.Semantic.DeepEqual(before, after) || !equality.Semantic.DeepEqual(essence(before), essence(after)) {
		return 0
	}
	begun := waitingSince(after.Plan)
	if begun == nil {
		return 0
	}
	// One that begins later than now was written by another clock, and holds up nothing.
	if waited := now.Sub(begun.Time); waited >= 0 && waited < batch {
		return batch - waited
	}
	return 0
}

// mayWait are the conditions that a plan changes step by step, and that decide nothing.
var mayWait = []v1alpha1.ConditionType{v1alpha1.ConditionDataVolumeReady, v1alpha1.ConditionSidecarReady, v1alpha1.ConditionSidecarHealthy}

// essence is a status without what may wait.
func essence(status *v1alpha1.SeiNodeStatus) *v1alpha1.SeiNodeStatus {
	rest := status.DeepCopy()
	rest.CurrentImage, rest.CurrentSidecarImage, rest.PodTemplateHash = "", "", ""
	rest.Conditions = slices.DeleteFunc(rest.Conditions, func(c metav1.Condition) bool {
		return slices.Contains(mayWait, v1alpha1.ConditionType(c.Type))
	})
	return rest
}

// waitingSince is when the task began that a plan is at; nil: there is none.
func waitingSince(p *v1alpha1.Plan) *metav1.Time {
	if p == nil {
		return nil
	}
	for i := range p.Tasks {
		if p.Tasks[i].Status == v1alpha1.PlanTaskRunning {
			return p.Tasks[i].StartTime
		}
	}
	return nil
}
