package nodetask

import (
	"errors"
	"fmt"
	"time"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// Outcome is what became of a look at a step.
type Outcome struct {
	verdict verdict
	failure Failure
	// message is what is waited for, or what is remarkable about a success.
	message string
	after   time.Duration
}

type verdict string

const (
	done      verdict = "done"
	waiting   verdict = "waiting"
	failed    verdict = "failed"
	forestall verdict = "forestalled" // by a plan, before anything was done
)

// Done means that the step is complete.
func Done(message string) Outcome { return Outcome{verdict: done, message: message} }

// Waits means that the step goes on when something happens, or after the time, if
// there is one. What is said must not change with every look: it would be a write.
func Waits(after time.Duration, format string, args ...any) Outcome {
	return Outcome{verdict: waiting, message: fmt.Sprintf(format, args...), after: after}
}

// Failed means that the task ends here.
func Failed(failure *Failure) Outcome { return Outcome{verdict: failed, failure: *failure} }

// PlanFirst is the error of whoever was about to send the first step of a task to the
// node and found a plan that is about to stop seid.
type PlanFirst struct{ Message string }

func (p *PlanFirst) Error() string { return p.Message }

// NotYet is the error of whoever waits for something before a step can be sent.
type NotYet struct{ Message string }

func (n *NotYet) Error() string { return n.Message }

// notYetPause is when to look again at what may come without anybody telling.
const notYetPause = 2 * time.Second

// Forestalled means that a plan came first, and nothing was done.
func Forestalled(format string, args ...any) Outcome {
	return Outcome{verdict: forestall, message: fmt.Sprintf(format, args...)}
}

// Settle decides what a look at a step means for its task.
func Settle(in Input, step string, outcome Outcome) Decision {
	kind := KindOf(in.Task)
	_, index := kind.step(step)
	switch outcome.verdict {
	case done:
		if index+1 < len(kind.Steps) {
			return Decision{Action: Advance, Step: kind.Steps[index+1].Name}
		}
		message := outcome.message
		if message == "" {
			message = "It is done."
		}
		return end(v1alpha1.ReasonTaskComplete, "%s", message)
	case failed:
		return end(outcome.failure.Reason, "%s%s", outcome.failure.Message, aftermath(kind, step))
	case forestall:
		return Decision{Action: StepBack, Message: outcome.message}
	case waiting:
	}
	left := Deadline(in.Task).Sub(in.Now)
	if left <= 0 {
		next := end(v1alpha1.ReasonTimeout, "It was not done within %s. %s%s", Timeout(in.Task), outcome.message, aftermath(kind, step))
		next.Stop = true
		return next
	}
	if outcome.after > 0 {
		left = min(left, outcome.after)
	}
	return Decision{Action: Run, Step: step, Message: outcome.message, After: left}
}

func aftermath(kind *Kind, step string) string {
	if kind.Aftermath == nil {
		return ""
	}
	return " " + kind.Aftermath(step)
}

// OutcomeOf is what the answer of a sidecar, or an error on the way to it, means for a
// step. Other errors than a *Failure are hiccups, and are given back.
func OutcomeOf(answer Answer, err error) (Outcome, error) {
	if failure, ok := errors.AsType[*Failure](err); ok {
		return Failed(failure), nil
	}
	if first, ok := errors.AsType[*PlanFirst](err); ok {
		return Forestalled("%s", first.Message), nil
	}
	if later, ok := errors.AsType[*NotYet](err); ok {
		return Waits(notYetPause, "%s", later.Message), nil
	}
	switch {
	case err != nil:
		return Outcome{}, err
	case answer.Waits != "":
		return Waits(answer.After, "%s", answer.Waits), nil
	case answer.Reason != "":
		return Failed(failureOf(answer)), nil
	}
	return Done(""), nil
}

// OutcomeOfStep is what a step of the operator's own came to.
func OutcomeOfStep(outcome Outcome, err error) (Outcome, error) {
	if err == nil {
		return outcome, nil
	}
	return OutcomeOf(Answer{}, err)
}

// failureOf gives the reason of a sidecar the name that it has for people who wait for
// a SeiNodeTask. The reason of the sidecar begins the message.
func failureOf(answer Answer) *Failure {
	reason := v1alpha1.ReasonTaskFailed
	if known, ok := reasons[answer.Reason]; ok {
		reason = known
	}
	return fails(reason, "%s: %s", answer.Reason, sentence(answer.Message))
}

// sentence ends a text like a sentence, so that another may follow.
func sentence(text string) string {
	if text == "" || text[len(text)-1] == '.' {
		return text
	}
	return text + "."
}
