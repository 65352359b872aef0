// Package task carries out plans, one task after the other: one file for each kind
// of task, and one table with their deadlines and budgets.
//
// A task may be cut short anywhere and run again, by this process or the next, so
// each of them looks before it acts.
package task

import (
	"context"
	"fmt"
	"time"

	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/scope"
)

// verdict is how it stands with a task after a run.
type verdict string

const (
	done     verdict = "done"
	waiting  verdict = "waiting"
	failed   verdict = "failed"   // and may be tried again
	terminal verdict = "terminal" // and would fail again
	standing verdict = "standing" // it has not begun, and its time does not count yet
)

// Outcome is what became of one run of a task.
type Outcome struct {
	verdict verdict
	reason  string
	message string
	after   time.Duration
}

// Done means that the task is complete. The message may say what is remarkable about it.
func Done(message string) Outcome { return Outcome{verdict: done, message: message} }

// Wait means that the task goes on when something happens, or after the time, if there is one.
func Wait(after time.Duration, format string, args ...any) Outcome {
	return Outcome{verdict: waiting, message: fmt.Sprintf(format, args...), after: after}
}

// Stand means that somebody else comes first. Until then the time of the task does not
// count.
func Stand(gate *plan.Gate) Outcome {
	return Outcome{verdict: standing, message: gate.Message, after: gate.After}
}

// Retry means that the task failed, and another run may not.
func Retry(reason, message string) Outcome {
	return Outcome{verdict: failed, reason: reason, message: message}
}

// Terminal means that the task failed, and would again.
func Terminal(reason, message string) Outcome {
	return Outcome{verdict: terminal, reason: reason, message: message}
}

// definition is a kind of task.
type definition struct {
	// deadline is how long it may take, waiting and further tries included.
	deadline time.Duration
	// retries is how often it is tried again after a failure.
	retries int32
	// run does the work. An error is a hiccup of the cluster or the network: it is
	// met again or not, and only the deadline counts.
	run func(ctx context.Context, s *scope.Scope, index int) (Outcome, error)
}

// podPatience is how long a task waits for the pod and its sidecar: an image is
// pulled, a volume is made, a Kubernetes node comes up.
const podPatience = 30 * time.Minute

// definitions is the table of all tasks.
var definitions = map[string]definition{
	plan.TaskEnsureDataPVC:           {deadline: 10 * time.Minute, run: ensureDataPVC},
	plan.TaskValidateSigningKey:      {deadline: 10 * time.Minute, run: validateKey(plan.SigningKey)},
	plan.TaskValidateNodeKey:         {deadline: 10 * time.Minute, run: validateKey(plan.NodeKey)},
	plan.TaskValidateOperatorKeyring: {deadline: 10 * time.Minute, run: validateKey(plan.OperatorKeyring)},
	plan.TaskApplyRBACProxyConfig:    {deadline: 5 * time.Minute, run: applyRBACProxyConfig},
	plan.TaskApplyNodeConfig:         {deadline: 5 * time.Minute, run: applyNodeConfig},
	plan.TaskApplyService:            {deadline: 5 * time.Minute, run: applyService},
	plan.TaskApplyStatefulSet:        {deadline: 5 * time.Minute, run: applyStatefulSet},
	// It may wait half an hour for a safe moment, and the pod has ten minutes to end.
	plan.TaskReplacePod: {deadline: time.Hour, run: replacePod},
	// The file may be published long after the node was declared.
	plan.TaskConfigureGenesis: {deadline: 2 * time.Hour, retries: 180, run: configureGenesis},
	plan.TaskDiscoverPeers:    {deadline: podPatience, run: discoverPeers},
	plan.TaskConfigApply:      {deadline: podPatience, retries: 5, run: configApply},
	// Witnesses are other people's machines.
	plan.TaskConfigureStateSync: {deadline: 2 * time.Hour, retries: 180, run: configureStateSync},
	plan.TaskConfigValidate:     {deadline: podPatience, retries: 3, run: configValidate},
	plan.TaskMarkReady:          {deadline: podPatience, retries: 5, run: markReady},
	plan.TaskObserveImage:       {deadline: podPatience, run: observeImage},
	// seid reads its stores before it answers, which takes minutes.
	plan.TaskObserveSeid: {deadline: podPatience, run: observeSeid},
	// It may wait half an hour for a safe moment, and seid takes its time to come up.
	plan.TaskRestartSeid: {deadline: time.Hour, retries: 3, run: restartSeid},
}

// The pause before another try grows with each failure.
const (
	firstPause = 10 * time.Second
	lastPause  = 30 * time.Second
)

func pause(retries int32) time.Duration {
	return min(time.Duration(retries)*firstPause, lastPause)
}
