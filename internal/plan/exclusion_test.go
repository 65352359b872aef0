package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

func TestTaskGate(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	task := &RunningTask{Name: "restart", Kind: v1alpha1.TaskKindRestartSeid, Until: now.Add(time.Minute)}
	if gate := TaskGate(nil, now); gate != nil {
		t.Errorf("nobody is in the way, and yet: %+v", gate)
	}
	gate := TaskGate(task, now)
	if gate == nil || gate.Reason != v1alpha1.ReasonWaitingForTask || gate.After != time.Minute || gate.Stalled {
		t.Fatalf("the gate is %+v", gate)
	}
	for _, part := range []string{"SeiNodeTask restart (RestartSeid)", "2026-03-04T05:07:07Z"} {
		if !strings.Contains(gate.Message, part) {
			t.Errorf("it says %q and not %q", gate.Message, part)
		}
	}
	if gate := TaskGate(task, task.Until); gate != nil {
		t.Errorf("its time is up, and yet: %+v", gate)
	}
	if gate := TaskGate(task, task.Until.Add(-time.Nanosecond)); gate == nil {
		t.Error("its time is not up")
	}
}

// A plan stops seid until the last task of it is complete that does.
func TestStopAhead(t *testing.T) {
	p := func(tasks ...v1alpha1.PlanTask) *v1alpha1.Plan { return &v1alpha1.Plan{Tasks: tasks} }
	at := func(kind string, status v1alpha1.PlanTaskStatus) v1alpha1.PlanTask {
		return v1alpha1.PlanTask{Type: kind, Status: status}
	}
	for _, c := range []struct {
		name string
		plan *v1alpha1.Plan
		want bool
	}{
		{"no plan", nil, false},
		{"approves only", p(at(TaskMarkReady, v1alpha1.PlanTaskPending)), false},
		{"replaces later", p(at(TaskApplyService, v1alpha1.PlanTaskRunning), at(TaskReplacePod, v1alpha1.PlanTaskPending)), true},
		{"may replace again", p(at(TaskReplacePod, v1alpha1.PlanTaskComplete), at(TaskObserveImage, v1alpha1.PlanTaskRunning)), true},
		{"restarts", p(at(TaskRestartSeid, v1alpha1.PlanTaskRunning)), true},
		{"has replaced", p(at(TaskReplacePod, v1alpha1.PlanTaskComplete), at(TaskObserveImage, v1alpha1.PlanTaskComplete), at(TaskMarkReady, v1alpha1.PlanTaskRunning)), false},
	} {
		if got := StopAhead(c.plan); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// A plan waits for a task only when it has come to where it stops seid.
func TestWaitsForTask(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	in := Input{Node: &v1alpha1.SeiNode{}, Seen: Observation{Now: now, Task: &RunningTask{Name: "restart", Until: now.Add(time.Minute)}}}
	if gate := WaitsForTask(in); gate != nil {
		t.Errorf("without a plan: %+v", gate)
	}
	in.Node.Status.Plan = &v1alpha1.Plan{Tasks: []v1alpha1.PlanTask{
		{Type: TaskApplyService, Status: v1alpha1.PlanTaskRunning}, {Type: TaskReplacePod, Status: v1alpha1.PlanTaskPending},
	}}
	if gate := WaitsForTask(in); gate != nil {
		t.Errorf("before it stops seid: %+v", gate)
	}
	in.Node.Status.Plan.Tasks[0].Status = v1alpha1.PlanTaskComplete
	if gate := WaitsForTask(in); gate == nil {
		t.Error("where it stops seid")
	}
	in.Node.Status.Plan.Tasks[1].Status = v1alpha1.PlanTaskComplete
	if gate := WaitsForTask(in); gate != nil {
		t.Errorf("when it is done: %+v", gate)
	}
	in.Node.Status.Plan.Tasks[1].Status, in.Seen.Task = v1alpha1.PlanTaskRunning, nil
	if gate := WaitsForTask(in); gate != nil {
		t.Errorf("without a task: %+v", gate)
	}
}
