package nodetask

import (
	"strings"
	"testing"
	"time"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
)

func TestDecide(t *testing.T) {
	seen := func(since time.Duration) func(*v1alpha1.SeiNodeTask) {
		return func(task *v1alpha1.SeiNodeTask) { task.Status.StartTime = ago(since) }
	}
	deleted := func(task *v1alpha1.SeiNodeTask) { task.DeletionTimestamp = ago(0) }
	ended := func(since time.Duration) func(*v1alpha1.SeiNodeTask) {
		return func(task *v1alpha1.SeiNodeTask) {
			task.Status.Phase, task.Status.CompletionTime = v1alpha1.TaskPhaseComplete, ago(since)
		}
	}
	keeps := func(seconds int32) func(*v1alpha1.SeiNodeTask) {
		return func(task *v1alpha1.SeiNodeTask) { task.Spec.TTLSecondsAfterFinished = &seconds }
	}
	kept := func(task *v1alpha1.SeiNodeTask) { task.Finalizers = []string{v1alpha1.FinalizerTask} }
	impatient := func(task *v1alpha1.SeiNodeTask) { task.Spec.Target.RequirePhaseTimeoutSeconds = new(int32(0)) }
	going := func(n *v1alpha1.SeiNode) { n.DeletionTimestamp = ago(0) }
	paused := func(n *v1alpha1.SeiNode) { n.Spec.Paused = true }
	other := restart(named("other"), began(0))
	for _, c := range []struct {
		name  string
		task  *v1alpha1.SeiNodeTask
		node  *v1alpha1.SeiNode
		ahead *v1alpha1.SeiNodeTask
		fleet string
		want  Action
		says  v1alpha1.ConditionReason
		told  string
		after time.Duration
	}{
		{name: "begins", task: restart(), node: runningNode(), want: Begin},
		{name: "no node yet, not seen before", task: restart(), want: Wait, told: "to exist", after: 300 * time.Second},
		{name: "no node yet", task: restart(seen(100 * time.Second)), want: Wait, told: "to exist", after: 201 * time.Second},
		{name: "no node in time", task: restart(seen(301 * time.Second)), want: End, says: v1alpha1.ReasonTargetNotFound},
		{name: "nobody is too early", task: restart(seen(300 * time.Second)), want: Wait, after: time.Second},
		{name: "no node and no patience", task: restart(impatient), want: End, says: v1alpha1.ReasonTargetNotFound},
		{name: "another phase", task: restart(), node: runningNode(func(n *v1alpha1.SeiNode) { n.Status.Phase = v1alpha1.PhaseInitializing }), want: Wait, told: "it is Initializing", after: 300 * time.Second},
		{name: "no phase yet", task: restart(), node: runningNode(func(n *v1alpha1.SeiNode) { n.Status.Phase = "" }), want: Wait, told: "it is Pending", after: 300 * time.Second},
		{name: "another phase for too long", task: restart(seen(time.Hour)), node: runningNode(func(n *v1alpha1.SeiNode) { n.Status.Phase = v1alpha1.PhaseFailed }), want: End, says: v1alpha1.ReasonTargetPhaseNotMet, told: "it is Failed"},
		{name: "a node that goes", task: restart(), node: runningNode(going), want: Wait, told: "it is Terminating", after: 300 * time.Second},
		{name: "a node that is gone for too long", task: restart(seen(time.Hour)), node: runningNode(going), want: End, says: v1alpha1.ReasonTargetPhaseNotMet},
		{name: "a paused node", task: restart(seen(time.Hour)), node: runningNode(paused), want: Wait, told: "paused"},
		{name: "a hold does not wait for a pause", task: restart(asHold), node: runningNode(paused), want: Begin},
		{name: "another's turn", task: restart(), node: runningNode(), ahead: other, want: Wait, told: "SeiNodeTask other (RestartSeid)"},
		{name: "what changes nothing does not wait for others", task: restart(asWait), node: runningNode(updating), ahead: other, want: Begin},
		{name: "a hold waits for nobody", task: restart(asHold), node: runningNode(updating), ahead: other, want: Begin},
		{name: "a plan that stops seid", task: restart(), node: runningNode(updating), want: Wait, told: "plan NodeUpdate"},
		{name: "another image waits for a plan too", task: restart(asImage), node: runningNode(updating), want: Wait, told: "plan NodeUpdate"},
		{name: "a plan that stops nothing", task: restart(), node: runningNode(func(n *v1alpha1.SeiNode) {
			n.Status.Plan = &v1alpha1.Plan{Type: v1alpha1.PlanReapprove, Tasks: []v1alpha1.PlanTask{{Type: plan.TaskMarkReady}}}
		}), want: Begin},
		{name: "an unknown kind", task: restart(func(task *v1alpha1.SeiNodeTask) { task.Spec.Kind = "PaintNode" }), want: End, says: v1alpha1.ReasonUnsupportedKind},
		{name: "no payload", task: restart(func(task *v1alpha1.SeiNodeTask) { task.Spec.RestartSeid = nil }), want: End, says: v1alpha1.ReasonInvalidPayload},
		{name: "resync without witnesses", task: restart(asResync), node: runningNode(), want: End, says: v1alpha1.ReasonInvalidPayload, told: "Nothing was done."},
		{name: "an image of a fleet's node", task: restart(asImage), node: runningNode(), fleet: "fleet", want: End, says: v1alpha1.ReasonInvalidPayload, told: "SeiNodeDeployment fleet"},

		{name: "runs", task: restart(began(0)), node: runningNode(), want: Run},
		{name: "runs whatever the phase", task: restart(began(time.Hour)), node: runningNode(paused, updating, func(n *v1alpha1.SeiNode) { n.Status.Phase = v1alpha1.PhaseFailed }), ahead: other, want: Run},
		{name: "its node is gone", task: restart(began(0)), want: End, says: v1alpha1.ReasonTargetDeleted},
		{name: "its node goes", task: restart(began(0)), node: runningNode(going), want: End, says: v1alpha1.ReasonTargetDeleted},
		{name: "its node is another", task: restart(began(0)), node: runningNode(func(n *v1alpha1.SeiNode) { n.UID = "other" }), want: End, says: v1alpha1.ReasonTargetDeleted},
		{name: "a step of another version", task: restart(began(0), func(task *v1alpha1.SeiNodeTask) { task.Status.Step = "dance" }), node: runningNode(), want: End, says: v1alpha1.ReasonUnsupportedKind, told: "dance"},
		{name: "runs and is deleted", task: restart(began(0), deleted), node: runningNode(), want: Cancel},
		{name: "waits and is deleted", task: restart(deleted), node: runningNode(), want: Rest},
		{name: "waits, is kept, and is deleted", task: restart(deleted, kept), node: runningNode(), want: LetGo},

		{name: "ended and kept", task: restart(ended(0), kept), node: runningNode(), want: LetGo},
		{name: "ended", task: restart(ended(0)), node: runningNode(), want: Rest},
		{name: "ended and deleted", task: restart(ended(0), deleted), node: runningNode(), want: Rest},
		{name: "ended, to be kept a while", task: restart(ended(10*time.Second), keeps(30)), want: Rest, after: 21 * time.Second},
		{name: "ended long ago", task: restart(ended(31*time.Second), keeps(30)), want: Expire},
		{name: "ended long ago and deleted", task: restart(ended(time.Hour), keeps(30), deleted), want: Rest},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Decide(Input{Task: c.task, Node: c.node, Ahead: c.ahead, Fleet: c.fleet, Now: now})
			same(t, "the action", got.Action, c.want)
			same(t, "the reason", got.Reason, c.says)
			same(t, "the time to look again", got.After, c.after)
			if !strings.Contains(got.Message, c.told) {
				t.Errorf("it says %q and not %q", got.Message, c.told)
			}
			if (got.Action == Begin || got.Action == Run) != (got.Step != "") {
				t.Errorf("the step is %q", got.Step)
			}
		})
	}
}

func TestResyncIsForFullNodes(t *testing.T) {
	in := Input{Task: restart(asResync), Node: runningNode(), Witnesses: []string{"a", "b"}, Now: now}
	same(t, "of a full node", Decide(in).Action, Begin)
	in.Node = runningNode(func(n *v1alpha1.SeiNode) { n.Spec.FullNode, n.Spec.Archive = nil, &v1alpha1.ArchiveSpec{} })
	same(t, "of an archive", Decide(in).Reason, v1alpha1.ReasonInvalidPayload)
}

func TestTimeoutAndDeadline(t *testing.T) {
	task := restart()
	same(t, "by default", Timeout(task), 10*time.Minute)
	same(t, "the deadline of one that waits", Deadline(task), time.Time{})
	task.Spec.TimeoutSeconds = new(int32(7))
	same(t, "as wanted", Timeout(task), 7*time.Second)
	began(0)(task)
	same(t, "the deadline", Deadline(task), now.Add(8*time.Second))
	task.Spec.TimeoutSeconds, task.Spec.Kind = nil, "PaintNode"
	same(t, "of an unknown kind", Timeout(task), 0)
}

func TestAheadIsTheOneThatChangesTheNode(t *testing.T) {
	me := restart(named("me"), began(0))
	list := []v1alpha1.SeiNodeTask{*me, *restart(named("waits")), *restart(named("watches"), asWait, began(0))}
	if got := Ahead(list, me); got != nil {
		t.Errorf("%s is ahead", got.Name)
	}
	list = append(list, *restart(named("works"), asImage, began(0)))
	if got := Ahead(list, me); got == nil || got.Name != "works" {
		t.Errorf("%v is ahead", got)
	}
}

func TestWorkingIsTheOneThatKeepsThePod(t *testing.T) {
	list := []v1alpha1.SeiNodeTask{
		*restart(named("waits")), *restart(named("image"), asImage, began(0)), *restart(named("hold"), asHold, began(0)),
		*restart(named("late"), began(11*time.Minute)), *restart(named("ended"), began(0), func(task *v1alpha1.SeiNodeTask) { task.Status.Phase = v1alpha1.TaskPhaseFailed }),
	}
	if got := Working(list, now); got != nil {
		t.Errorf("%+v works", got)
	}
	list = append(list, *restart(named("works"), began(time.Minute)))
	want := plan.RunningTask{Name: "works", Kind: v1alpha1.TaskKindRestartSeid, Until: now.Add(9*time.Minute + time.Second)}
	if got := Working(list, now); got == nil || *got != want {
		t.Errorf("%+v works, not %+v", got, want)
	}
}
