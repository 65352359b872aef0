package plan

import (
	"fmt"
	"time"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// RunningTask is a SeiNodeTask that works on the node and must not lose its pod.
type RunningTask struct {
	Name string
	Kind v1alpha1.SeiNodeTaskKind
	// Until is when it ends at the latest.
	Until time.Time
}

// stops are the tasks of plans that stop seid, or may do so.
var stops = map[string]bool{TaskReplacePod: true, TaskObserveImage: true, TaskRestartSeid: true}

// StopAhead tells whether a plan is going to stop seid, or may be at it. A SeiNodeTask
// that works on the node does not begin while one is.
func StopAhead(p *v1alpha1.Plan) bool {
	if p == nil {
		return false
	}
	for i := range p.Tasks {
		if stops[p.Tasks[i].Type] && p.Tasks[i].Status != v1alpha1.PlanTaskComplete {
			return true
		}
	}
	return false
}

// TaskGate is shut while a SeiNodeTask works on the node, for as long as it may take.
//
// A plan and a SeiNodeTask are different objects, so no lock covers both. Each is
// therefore written down before it does anything, and each then looks for the other
// without a cache: of two that begin at the same moment at least one sees the other.
// The SeiNodeTask that sees a plan, and was not sent to the node yet, steps back; the
// plan that sees a SeiNodeTask waits until that has stepped back or ended. So never
// both go, and never both wait.
func TaskGate(task *RunningTask, now time.Time) *Gate {
	if task == nil || !now.Before(task.Until) {
		return nil
	}
	return &Gate{
		Reason: v1alpha1.ReasonWaitingForTask, After: task.Until.Sub(now),
		Message: fmt.Sprintf("The SeiNodeTask %s (%s) works on the node. seid is stopped when that has ended, at %s at the latest; deleting the SeiNodeTask ends it.",
			task.Name, task.Kind, task.Until.UTC().Format(time.RFC3339)),
	}
}

// WaitsForTask is why the plan under way does not stop seid yet; nil: it does not wait
// for a SeiNodeTask.
func WaitsForTask(in Input) *Gate {
	p := in.Node.Status.Plan
	for i := 0; p != nil && i < len(p.Tasks); i++ {
		if p.Tasks[i].Status != v1alpha1.PlanTaskComplete {
			if !stops[p.Tasks[i].Type] {
				return nil
			}
			return TaskGate(in.Seen.Task, in.Seen.Now)
		}
	}
	return nil
}
