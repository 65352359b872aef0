package nodetask

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

func TestSettle(t *testing.T) {
	waits := Waits(3*time.Second, "The sidecar is at it.")
	failure := Failed(fails(v1alpha1.ReasonTaskFailed, "StillRunning: it did not end."))
	for _, c := range []struct {
		name    string
		task    *v1alpha1.SeiNodeTask
		step    string
		outcome Outcome
		want    Decision
	}{
		{"done", restart(began(0)), "restart-seid", Done(""), Decision{Action: End, Reason: v1alpha1.ReasonTaskComplete, Message: "It is done."}},
		{"done, with a word", restart(began(0)), "restart-seid", Done("Well."), Decision{Action: End, Reason: v1alpha1.ReasonTaskComplete, Message: "Well."}},
		{"the next step", restart(asHold, began(0)), "hold", Done(""), Decision{Action: Advance, Step: "stop-seid"}},
		{"done late is done", restart(began(time.Hour)), "restart-seid", Done(""), Decision{Action: End, Reason: v1alpha1.ReasonTaskComplete, Message: "It is done."}},
		{"failed", restart(began(0)), "restart-seid", failure, Decision{Action: End, Reason: v1alpha1.ReasonTaskFailed, Message: "StillRunning: it did not end."}},
		{"failed, and says what is left", restart(asHold, began(0)), "stop-seid", failure, Decision{Action: End, Reason: v1alpha1.ReasonTaskFailed, Message: "StillRunning: it did not end. The node is held; it is not proven that seid has stopped."}},
		{"a plan came first", restart(began(time.Hour)), "restart-seid", Forestalled("Waits."), Decision{Action: StepBack, Message: "Waits."}},
		{"waits", restart(began(0)), "restart-seid", waits, Decision{Action: Run, Step: "restart-seid", Message: "The sidecar is at it.", After: 3 * time.Second}},
		{"waits for an event", restart(began(0)), "restart-seid", Waits(0, "W."), Decision{Action: Run, Step: "restart-seid", Message: "W.", After: 601 * time.Second}},
		{"waits, with little time left", restart(began(599 * time.Second)), "restart-seid", waits, Decision{Action: Run, Step: "restart-seid", Message: "The sidecar is at it.", After: 2 * time.Second}},
		{"too late", restart(began(601 * time.Second)), "restart-seid", waits, Decision{Action: End, Reason: v1alpha1.ReasonTimeout, Message: "It was not done within 10m0s. The sidecar is at it.", Stop: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			same(t, "the decision", Settle(Input{Task: c.task, Node: runningNode(), Now: now}, c.step, c.outcome), c.want)
		})
	}
}

// Whatever goes wrong after the hold leaves the node held, and says so.
func TestAResyncThatFailsSaysHowItLeavesTheNode(t *testing.T) {
	kind := registry[v1alpha1.TaskKindResyncNode]
	held := false
	for _, step := range kind.Steps {
		says := kind.Aftermath(step.Name)
		if got := strings.Contains(says, "stays held"); got != held {
			t.Errorf("%s: %q", step.Name, says)
		}
		held = held || step.Name == resyncHold
		if destroyed := strings.Contains(says, "data was removed") && !strings.Contains(says, "No data"); destroyed != (step.Name == resyncStateSync || step.Name == resyncRelease) {
			t.Errorf("%s: %q", step.Name, says)
		}
	}
	if first := kind.Steps[0].Name; first != resyncCheck {
		t.Errorf("the first step is %s", first)
	}
}

func TestOutcomeOf(t *testing.T) {
	hiccup := errors.New("hiccup")
	for _, c := range []struct {
		name   string
		answer Answer
		err    error
		want   Outcome
		back   error
	}{
		{"done", Answer{}, nil, Done(""), nil},
		{"waits", Answer{Waits: "w", After: time.Second}, nil, Waits(time.Second, "w"), nil},
		{"failed", Answer{Reason: "StillRunning", Message: "it runs"}, nil, Failed(fails(v1alpha1.ReasonTaskFailed, "StillRunning: it runs.")), nil},
		{"superseded", Answer{Reason: "Superseded", Message: "held."}, nil, Failed(fails(v1alpha1.ReasonSuperseded, "Superseded: held.")), nil},
		{"refused", Answer{Reason: "InvalidParams", Message: "no"}, nil, Failed(fails(v1alpha1.ReasonInvalidPayload, "InvalidParams: no.")), nil},
		{"an old sidecar", Answer{Reason: "UnknownTaskType", Message: "no"}, nil, Failed(fails(v1alpha1.ReasonUnsupportedKind, "UnknownTaskType: no.")), nil},
		{"its time was up", Answer{Reason: "DeadlineExceeded", Message: "no"}, nil, Failed(fails(v1alpha1.ReasonTimeout, "DeadlineExceeded: no.")), nil},
		{"a failure on the way", Answer{}, fails(v1alpha1.ReasonTaskFailed, "no key"), Failed(fails(v1alpha1.ReasonTaskFailed, "no key")), nil},
		{"a plan on the way", Answer{}, &PlanFirst{Message: "plan"}, Forestalled("plan"), nil},
		{"a hiccup", Answer{}, hiccup, Outcome{}, hiccup},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := OutcomeOf(c.answer, c.err)
			same(t, "the outcome", got, c.want)
			same(t, "the error", err, c.back)
		})
	}
}

func TestRecord(t *testing.T) {
	task := restart()
	in := Input{Task: task, Node: runningNode(), Now: now}
	Record(in, wait(0, "Waits."))
	same(t, "the phase", task.Status.Phase, v1alpha1.TaskPhasePending)
	same(t, "the message", task.Status.Message, "Waits.")
	first := task.Status.StartTime

	in.Now = now.Add(time.Minute)
	Record(in, Decision{Action: Begin, Step: "restart-seid"})
	same(t, "the phase", task.Status.Phase, v1alpha1.TaskPhaseRunning)
	same(t, "the node", task.Status.TargetUID, "node-uid")
	same(t, "the id", task.Status.TaskID, StepID(task, "restart-seid").String())
	same(t, "the beginning", task.Status.ExecutionStartTime.Time, in.Now)
	same(t, "when it was first seen", task.Status.StartTime, first)

	Record(in, Decision{Action: StepBack, Message: "A plan."})
	same(t, "the phase", task.Status.Phase, v1alpha1.TaskPhasePending)
	same(t, "the id", task.Status.TaskID+task.Status.Step+task.Status.TargetUID, "")
	if task.Status.ExecutionStartTime != nil {
		t.Error("its time counts though it does not run")
	}

	Record(in, Decision{Action: Begin, Step: "restart-seid"})
	in.Now = now.Add(2 * time.Minute)
	Record(in, end(v1alpha1.ReasonTaskFailed, "%s", strings.Repeat("ä", 2000)))
	same(t, "the phase", task.Status.Phase, v1alpha1.TaskPhaseFailed)
	same(t, "the end", task.Status.CompletionTime.Time, in.Now)
	if len(task.Status.Message) > maxMessage {
		t.Errorf("the message has %d bytes", len(task.Status.Message))
	}
	if !meta.IsStatusConditionTrue(task.Status.Conditions, "Failed") || !meta.IsStatusConditionFalse(task.Status.Conditions, "Ready") {
		t.Errorf("%+v", task.Status.Conditions)
	}
	// It stays so, whatever comes.
	before := task.Status.DeepCopy()
	in.Now = now.Add(time.Hour)
	for _, d := range []Decision{end(v1alpha1.ReasonTaskComplete, "x"), {Action: Begin, Step: "restart-seid"}, wait(0, "x"), {Action: StepBack}, {Action: Run}} {
		Record(in, d)
	}
	if task.Status.Phase != before.Phase || task.Status.Message != before.Message || len(task.Status.Conditions) != 2 || task.Status.Conditions[0] != before.Conditions[0] {
		t.Errorf("it became %+v", task.Status)
	}
	same(t, "the reason", Ended(&task.Status), v1alpha1.ReasonTaskFailed)
}

func TestTransitions(t *testing.T) {
	task := restart()
	at := func(phase v1alpha1.SeiNodeTaskPhase, reason v1alpha1.ConditionReason) *v1alpha1.SeiNodeTaskStatus {
		status := &v1alpha1.SeiNodeTaskStatus{Phase: phase, Message: "M."}
		if reason != "" {
			status.Conditions = []metav1.Condition{{Type: "Ready", Reason: string(reason)}}
		}
		return status
	}
	none, pending, running := at("", ""), at(v1alpha1.TaskPhasePending, ""), at(v1alpha1.TaskPhaseRunning, "")
	complete, failure := at(v1alpha1.TaskPhaseComplete, v1alpha1.ReasonTaskComplete), at(v1alpha1.TaskPhaseFailed, v1alpha1.ReasonTimeout)
	for _, c := range []struct {
		before, after *v1alpha1.SeiNodeTaskStatus
		want          string
		warning       bool
	}{
		{none, pending, "TaskWaits", false},
		{none, running, "TaskStarted", false},
		{none, failure, "Timeout", true},
		{pending, pending, "", false},
		{pending, running, "TaskStarted", false},
		{running, running, "", false},
		{running, pending, "TaskWaits", false},
		{running, complete, "TaskComplete", false},
		{running, failure, "Timeout", true},
		{complete, complete, "", false},
	} {
		var got string
		for _, event := range Transitions(task, c.before, c.after) {
			got += event.Reason
			same(t, "whether it is a warning", event.Warning, c.warning)
			if !strings.Contains(event.Message, "RestartSeid on node alpha") {
				t.Errorf("it says %q", event.Message)
			}
		}
		same(t, string(c.before.Phase)+" to "+string(c.after.Phase), got, c.want)
	}
}

// Ids follow from the task and the step, and from nothing else.
func TestStepIDs(t *testing.T) {
	a, b := restart(), restart(named("other"))
	same(t, "the same", StepID(a, "x"), StepID(a.DeepCopy(), "x"))
	for _, other := range []string{StepID(a, "y").String(), StepID(b, "x").String(), nodeID(a, "x", "n").String()} {
		if other == StepID(a, "x").String() {
			t.Error("two steps have the same id")
		}
	}
}
