package task

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/derived"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/scope"
)

// Execute carries on with the plan of a node, as far as it gets in one go, and
// writes down in its status how far that is.
func Execute(ctx context.Context, s *scope.Scope) error {
	current := s.Node.Status.Plan
	for i := range current.Tasks {
		if current.Tasks[i].Status == v1alpha1.PlanTaskComplete {
			continue
		}
		finished, err := runTask(ctx, s, i)
		current.Progress = plan.Progress(current)
		if err != nil || !finished {
			return err
		}
		if s.Node.Status.Plan == nil {
			return nil // it failed
		}
	}
	finish(s, v1alpha1.PlanOutcomeComplete, string(v1alpha1.PlanOutcomeComplete), fmt.Sprintf("The plan %s is complete.", current.Type))
	return nil
}

// Freeze lets a plan stand still: the time of a pause does not count.
func Freeze(p *v1alpha1.Plan) {
	for i := range p.Tasks {
		if p.Tasks[i].Status == v1alpha1.PlanTaskRunning {
			p.Tasks[i].Status, p.Tasks[i].StartTime = v1alpha1.PlanTaskPending, nil
		}
	}
}

// runTask runs one task and tells whether it is over.
func runTask(ctx context.Context, s *scope.Scope, index int) (over bool, err error) {
	task := &s.Node.Status.Plan.Tasks[index]
	now := s.Seen.Now
	if wait := untilRetry(task, now); wait > 0 {
		s.RequeueIn(wait)
		return false, nil
	}
	def, known := definitions[task.Type]
	if !known {
		// A plan outlives the operator that made it. Another one is made.
		fail(s, task, "UnknownTask", fmt.Sprintf("This operator does not know the task %s.", task.Type))
		return true, nil
	}
	if task.StartTime == nil {
		task.StartTime = new(metav1.NewTime(now))
	}
	task.Status, task.RetryTime = v1alpha1.PlanTaskRunning, nil
	outcome, err := def.run(ctx, s, index)
	if err != nil {
		outcome = Wait(0, "%s", trouble(task, err))
	}
	if outcome.verdict == failed && task.Retries >= def.retries {
		outcome.verdict = terminal
	}
	if left := task.StartTime.Add(def.deadline).Sub(now); outcome.verdict == waiting || outcome.verdict == failed {
		if left <= 0 {
			outcome = Terminal("DeadlineExceeded", fmt.Sprintf("it was not done within %s: %s", def.deadline, outcome.message))
		}
		s.RequeueIn(left)
	}
	settle(s, task, outcome)
	return outcome.verdict == done || outcome.verdict == terminal, err
}

// trouble is what to tell of an error. What changes from one try to the next is left
// out, because it would be a write each time.
func trouble(task *v1alpha1.PlanTask, err error) string {
	switch {
	case errors.Is(err, derived.ErrLookAgain):
		return task.Message // nothing happened, so there is nothing to tell
	case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
		return err.Error()
	}
	return "The API server did not answer; it is asked again."
}

// settle writes down what became of a run.
func settle(s *scope.Scope, task *v1alpha1.PlanTask, outcome Outcome) {
	took := s.Seen.Now.Sub(task.StartTime.Time)
	task.Message = shortened(outcome.message)
	switch outcome.verdict {
	case done:
		task.Status = v1alpha1.PlanTaskComplete
		s.Report.TaskEnded(task.Type, "complete", took)
	case waiting:
		s.RequeueIn(outcome.after)
	case standing:
		task.Status, task.StartTime = v1alpha1.PlanTaskPending, nil
		s.RequeueIn(outcome.after)
	case failed:
		task.Retries++
		task.Status = v1alpha1.PlanTaskPending
		wait := pause(task.Retries)
		task.RetryTime = new(metav1.NewTime(s.Seen.Now.Add(wait)))
		s.RequeueIn(wait)
		s.Report.TaskEnded(task.Type, "retried", took)
	case terminal:
		s.Report.TaskEnded(task.Type, "failed", took)
		fail(s, task, outcome.reason, outcome.message)
	}
}

// fail ends a plan because of a task.
func fail(s *scope.Scope, task *v1alpha1.PlanTask, reason, message string) {
	task.Status, task.Message = v1alpha1.PlanTaskFailed, shortened(message)
	finish(s, v1alpha1.PlanOutcomeFailed, reason, shortened(fmt.Sprintf("%s: %s", task.Type, message)))
}

// finish ends a plan and moves the node to where the plan led.
func finish(s *scope.Scope, outcome v1alpha1.PlanOutcome, reason, message string) {
	status := &s.Node.Status
	bootstrap := status.Plan.Type == v1alpha1.PlanBootstrap
	if outcome == v1alpha1.PlanOutcomeComplete && plan.Reconfigured(s.Input) {
		status.AppliedConfigHash = status.Plan.ConfigHash
	}
	status.LastPlan = plan.Record(s.Input, outcome, reason, message)
	status.Plan = nil
	switch {
	case bootstrap && outcome == v1alpha1.PlanOutcomeComplete:
		status.Phase = v1alpha1.PhaseRunning
	case bootstrap:
		status.Phase = v1alpha1.PhaseFailed
	}
	// What comes next is decided from what is then there.
	s.RequeueIn(time.Nanosecond)
}

func untilRetry(task *v1alpha1.PlanTask, now time.Time) time.Duration {
	if task.RetryTime == nil {
		return 0
	}
	return task.RetryTime.Sub(now)
}

// maxMessage is the bound of a message in the status.
const maxMessage = 256

func shortened(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	const more = "..."
	cut := maxMessage - len(more)
	for cut > 0 && text[cut]&0xC0 == 0x80 { // not inside a character
		cut--
	}
	return text[:cut] + more
}
