package nodetask

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/scope"
)

// maxMessage is the bound of a message in the status.
const maxMessage = 1024

// Record writes down in the status of a task what was decided. Nothing else does, and
// a task that ended stays as it is.
func Record(in Input, d Decision) {
	status := &in.Task.Status
	if status.Finished() {
		return
	}
	switch d.Action {
	case Wait, Begin, Run, Advance, StepBack, End:
	case Rest, Cancel, LetGo, Expire:
		return
	}
	status.ObservedGeneration = in.Task.Generation
	if status.StartTime == nil {
		status.StartTime = new(metav1.NewTime(in.Now))
	}
	status.Message = plan.Bounded(d.Message, maxMessage)
	switch d.Action {
	case Wait:
		status.Phase = v1alpha1.TaskPhasePending
	case Begin:
		status.Phase = v1alpha1.TaskPhaseRunning
		status.TargetUID = string(in.Node.UID)
		status.ExecutionStartTime = new(metav1.NewTime(in.Now))
		enter(in.Task, d.Step)
	case Advance:
		enter(in.Task, d.Step)
	case StepBack:
		status.Phase, status.TargetUID, status.ExecutionStartTime = v1alpha1.TaskPhasePending, "", nil
		status.Step, status.TaskID = "", ""
	case End:
		finish(in, d)
	case Rest, Run, Cancel, LetGo, Expire:
	}
}

// enter writes down the step that comes next and, where it is the sidecar's, its id.
func enter(task *v1alpha1.SeiNodeTask, name string) {
	task.Status.Step, task.Status.TaskID = name, ""
	if step, _ := KindOf(task).step(name); step.Task != "" {
		task.Status.TaskID = StepID(task, name).String()
	}
	task.Status.Message = fmt.Sprintf("It is at %s.", name)
}

// finish latches how a task ended.
func finish(in Input, d Decision) {
	status := &in.Task.Status
	complete := d.Reason == v1alpha1.ReasonTaskComplete
	status.Phase = v1alpha1.TaskPhaseFailed
	if complete {
		status.Phase = v1alpha1.TaskPhaseComplete
	}
	status.CompletionTime = new(metav1.NewTime(in.Now))
	for _, c := range []struct {
		kind v1alpha1.ConditionType
		is   bool
	}{{v1alpha1.ConditionReady, complete}, {v1alpha1.ConditionFailed, !complete}} {
		value := metav1.ConditionFalse
		if c.is {
			value = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: string(c.kind), Status: value, Reason: string(d.Reason), Message: status.Message,
			ObservedGeneration: in.Task.Generation, LastTransitionTime: metav1.NewTime(in.Now),
		})
	}
}

// Ended is the reason for which a task ended; empty: it did not.
func Ended(status *v1alpha1.SeiNodeTaskStatus) v1alpha1.ConditionReason {
	if c := meta.FindStatusCondition(status.Conditions, string(v1alpha1.ConditionReady)); status.Finished() && c != nil {
		return v1alpha1.ConditionReason(c.Reason)
	}
	return ""
}

// Transitions are the events that tell of a change of the status. They follow from the
// change alone, so nothing is told twice.
func Transitions(task *v1alpha1.SeiNodeTask, before, after *v1alpha1.SeiNodeTaskStatus) []scope.Event {
	about := fmt.Sprintf("%s on node %s", task.Spec.Kind, task.Spec.Target.NodeRef.Name)
	switch reason := Ended(after); {
	case before.Phase == after.Phase:
		return nil
	case reason != "":
		return []scope.Event{{
			Warning: reason != v1alpha1.ReasonTaskComplete, Reason: string(reason), Message: about + ": " + after.Message,
		}}
	case after.Phase == v1alpha1.TaskPhaseRunning:
		return []scope.Event{{Reason: "TaskStarted", Message: about + " begins."}}
	case before.Phase == v1alpha1.TaskPhaseRunning:
		return []scope.Event{{Reason: "TaskWaits", Message: about + " waits again: " + after.Message}}
	}
	return []scope.Event{{Reason: "TaskWaits", Message: about + ": " + after.Message}}
}

// Working is the task that works on a node and must not lose the pod; nil: none does.
func Working(tasks []v1alpha1.SeiNodeTask, now time.Time) *plan.RunningTask {
	for i := range tasks {
		task := &tasks[i]
		kind := KindOf(task)
		if kind == nil || !kind.KeepsPod || task.Status.Phase != v1alpha1.TaskPhaseRunning || !now.Before(Deadline(task)) {
			continue
		}
		return &plan.RunningTask{Name: task.Name, Kind: kind.Name, Until: Deadline(task)}
	}
	return nil
}

// Ahead is the task whose turn it is on the node that another is for; nil: nobody's.
func Ahead(tasks []v1alpha1.SeiNodeTask, of *v1alpha1.SeiNodeTask) *v1alpha1.SeiNodeTask {
	for i := range tasks {
		kind := KindOf(&tasks[i])
		if tasks[i].UID != of.UID && kind != nil && kind.Mutates && tasks[i].Status.Phase == v1alpha1.TaskPhaseRunning {
			return &tasks[i]
		}
	}
	return nil
}
