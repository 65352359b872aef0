package nodetask

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
)

// Input is what is decided from.
type Input struct {
	Task *v1alpha1.SeiNodeTask
	// Node is the one that the task names; nil: there is none.
	Node *v1alpha1.SeiNode
	// Ahead is the task whose turn it is on this node; nil: nobody's.
	Ahead *v1alpha1.SeiNodeTask
	// Fleet is the SeiNodeDeployment that the node belongs to; empty: none.
	Fleet string
	// Witnesses are the RPC servers for state sync of the node.
	Witnesses []string
	Now       time.Time
}

// Action is what to do about a task.
type Action string

// The actions.
const (
	// Rest: nothing is left to do.
	Rest Action = "Rest"
	// Wait: it does not begin yet.
	Wait Action = "Wait"
	// Begin: it is written down that it runs. Nothing is done before that.
	Begin Action = "Begin"
	// Run: its step is carried on with.
	Run Action = "Run"
	// Advance: the next step is written down.
	Advance Action = "Advance"
	// StepBack: it began at the same moment as a plan, and waits again. Nothing was done.
	StepBack Action = "StepBack"
	// End: it ended, with Reason.
	End Action = "End"
	// Cancel: it is being deleted and may be under way on the node.
	Cancel Action = "Cancel"
	// LetGo: it is over, and its finalizer is not needed any more.
	LetGo Action = "LetGo"
	// Expire: it ended long enough ago to be deleted.
	Expire Action = "Expire"
)

// Decision is what to do about a task, and why.
type Decision struct {
	Action  Action
	Reason  v1alpha1.ConditionReason
	Message string
	// Step is the one to begin with, or to go on with.
	Step string
	// Stop: what the step began on nodes is to be ended first.
	Stop bool
	// After is how long to wait at most before deciding again; 0: for ever.
	After time.Duration
}

func end(reason v1alpha1.ConditionReason, format string, args ...any) Decision {
	return Decision{Action: End, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func wait(after time.Duration, format string, args ...any) Decision {
	return Decision{Action: Wait, Message: fmt.Sprintf(format, args...), After: after}
}

// Decide decides about a task.
func Decide(in Input) Decision {
	status := &in.Task.Status
	deleted, ours := in.Task.DeletionTimestamp != nil, slices.Contains(in.Task.Finalizers, v1alpha1.FinalizerTask)
	switch {
	case status.Finished() && ours, deleted && status.Phase != v1alpha1.TaskPhaseRunning && ours:
		return Decision{Action: LetGo}
	case status.Finished():
		return afterwards(in)
	case deleted && status.Phase != v1alpha1.TaskPhaseRunning:
		return Decision{Action: Rest} // others keep it
	case deleted:
		return Decision{Action: Cancel}
	}
	kind := KindOf(in.Task)
	switch {
	case kind == nil:
		return end(v1alpha1.ReasonUnsupportedKind, "This operator does not know the kind %s; a newer one may.", in.Task.Spec.Kind)
	case !kind.HasPayload(&in.Task.Spec):
		return end(v1alpha1.ReasonInvalidPayload, "The task has no payload that this operator knows for the kind %s.", kind.Name)
	case status.Phase == v1alpha1.TaskPhaseRunning:
		return running(in, kind)
	}
	return pending(in, kind)
}

// afterwards decides about a task that ended.
func afterwards(in Input) Decision {
	ttl, ended := in.Task.Spec.TTLSecondsAfterFinished, in.Task.Status.CompletionTime
	if ttl == nil || ended == nil || in.Task.DeletionTimestamp != nil {
		return Decision{Action: Rest}
	}
	if left := over(*ended, seconds(*ttl)).Sub(in.Now); left > 0 {
		return Decision{Action: Rest, After: left}
	}
	return Decision{Action: Expire}
}

// pending decides whether a task begins.
func pending(in Input, kind *Kind) Decision {
	if notYet := target(in); notYet != nil {
		return *notYet
	}
	if kind.Refuses != nil {
		if why := kind.Refuses(in); why != "" {
			return end(v1alpha1.ReasonInvalidPayload, "%s Nothing was done.", why)
		}
	}
	switch {
	case kind.Urgent:
	case in.Node.Spec.Paused:
		return wait(0, "Waits because the node %s is paused; it begins when spec.paused is false.", in.Node.Name)
	case kind.Mutates && in.Ahead != nil:
		return wait(0, "Waits for the SeiNodeTask %s (%s), which works on the node %s.", in.Ahead.Name, in.Ahead.Spec.Kind, in.Node.Name)
	case kind.Mutates && plan.StopAhead(in.Node.Status.Plan):
		return wait(0, "Waits for the plan %s of the node %s, which stops seid.", in.Node.Status.Plan.Type, in.Node.Name)
	}
	return Decision{Action: Begin, Step: kind.Steps[0].Name, Message: "It begins."}
}

// target decides whether the node is as the task wants it to begin; nil: it is.
func target(in Input) *Decision {
	name, phase := in.Task.Spec.Target.NodeRef.Name, in.Task.Spec.Target.RequirePhase
	if in.Node != nil && in.Node.DeletionTimestamp == nil && in.Node.Status.Phase == phase {
		return nil
	}
	began := in.Now
	if first := in.Task.Status.StartTime; first != nil {
		began = over(*first, patience(in.Task))
	} else {
		began = began.Add(patience(in.Task))
	}
	left := began.Sub(in.Now)
	var next Decision
	switch {
	case in.Node == nil && left <= 0:
		next = end(v1alpha1.ReasonTargetNotFound, "There was no SeiNode %s within %s.", name, patience(in.Task))
	case in.Node == nil:
		next = wait(left, "Waits for the SeiNode %s to exist.", name)
	case left <= 0:
		next = end(v1alpha1.ReasonTargetPhaseNotMet, "The node %s was not %s within %s; it is %s.", name, phase, patience(in.Task), phaseOf(in.Node))
	default:
		next = wait(left, "Waits for the node %s to be %s; it is %s.", name, phase, phaseOf(in.Node))
	}
	return &next
}

func phaseOf(node *v1alpha1.SeiNode) v1alpha1.SeiNodePhase {
	switch {
	case node.DeletionTimestamp != nil:
		return v1alpha1.PhaseTerminating
	case node.Status.Phase == "":
		return v1alpha1.PhasePending
	}
	return node.Status.Phase
}

// running decides about a task that began. Its node's phase does not matter any more.
func running(in Input, kind *Kind) Decision {
	step, _ := kind.step(in.Task.Status.Step)
	name := in.Task.Spec.Target.NodeRef.Name
	switch {
	case in.Node == nil, string(in.Node.UID) != in.Task.Status.TargetUID:
		return end(v1alpha1.ReasonTargetDeleted, "The node %s (uid %s) was deleted while the task ran.", name, in.Task.Status.TargetUID)
	case in.Node.DeletionTimestamp != nil:
		return end(v1alpha1.ReasonTargetDeleted, "The node %s is being deleted while the task runs.", name)
	case step == nil:
		return end(v1alpha1.ReasonUnsupportedKind, "This operator does not know the step %q of the kind %s, which another version began.", in.Task.Status.Step, kind.Name)
	}
	return Decision{Action: Run, Step: step.Name}
}

// Deadline is when a task that runs is given up.
func Deadline(task *v1alpha1.SeiNodeTask) time.Time {
	if task.Status.ExecutionStartTime == nil {
		return time.Time{}
	}
	return over(*task.Status.ExecutionStartTime, Timeout(task))
}

// Timeout is how long a task may take once it began.
func Timeout(task *v1alpha1.SeiNodeTask) time.Duration {
	if given := task.Spec.TimeoutSeconds; given != nil {
		return seconds(*given)
	}
	if kind := KindOf(task); kind != nil {
		return kind.Timeout
	}
	return 0
}

// patience is how long a task waits for its node to exist and to be in its phase.
func patience(task *v1alpha1.SeiNodeTask) time.Duration {
	if given := task.Spec.Target.RequirePhaseTimeoutSeconds; given != nil {
		return seconds(*given)
	}
	return 0
}

// over is when a time after a moment is over. Moments are kept in whole seconds, and
// nobody's time is up early.
func over(moment metav1.Time, d time.Duration) time.Time {
	return moment.Truncate(time.Second).Add(time.Second + d)
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }
