package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// unapproved says that the sidecar answers and has no approval.
var unapproved = sidecar(func(s *Sidecar) { s.Status.Approved = false })

// failed says that the last bootstrap failed this long ago.
func failed(ago time.Duration) edit {
	return func(in *Input) {
		ended(v1alpha1.PlanBootstrap, v1alpha1.PlanOutcomeFailed, ago, 1)(in)
		admitted(in)
		phase(v1alpha1.PhaseFailed)(in)
	}
}

// reapproving gives the node a plan that approves it again.
func reapproving(in *Input) {
	in.Node.Status.Plan = newPlan(*in, v1alpha1.PlanReapprove, v1alpha1.ReasonNotApproved, "It is approved again.")
}

// updating gives the node a plan that replaces its pod.
func updating(in *Input) {
	in.Node.Status.Plan = newPlan(*in, v1alpha1.PlanNodeUpdate, v1alpha1.ReasonImageChanged, "The image changed.")
}

// onlyAPerson are the reasons in the table below that pass only when somebody acts.
var onlyAPerson = map[v1alpha1.ConditionReason]bool{
	v1alpha1.ReasonInvalidSpec: true, v1alpha1.ReasonTooFewWitnesses: true, v1alpha1.ReasonForeignStatefulSet: true, v1alpha1.ReasonDataVolumeLost: true,
}

func TestDecide(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		in         Input
		step       Step
		reason     v1alpha1.ConditionReason
		after      time.Duration
		starts     v1alpha1.PlanType
		slot       v1alpha1.UpdateCause
		superseded bool
		says       []string
	}{
		"a new node is brought up": {
			in: fresh(), step: Start, starts: v1alpha1.PlanBootstrap, reason: v1alpha1.ReasonBootstrapping, says: []string{"first time"},
		},
		"a node that waits is brought up": {
			in: fresh(phase(v1alpha1.PhasePending)), step: Start, starts: v1alpha1.PlanBootstrap, reason: v1alpha1.ReasonBootstrapping,
		},
		"a paused node stands still": {
			in: fresh(paused, unrenderable), step: Frozen, reason: v1alpha1.ReasonPaused, says: []string{"paused"},
		},
		"a plan of a paused node stands still": {
			in: fresh(at(TaskApplyService), paused), step: Frozen, reason: v1alpha1.ReasonPaused,
		},
		"a spec that cannot be rendered": {
			in: fresh(unrenderable), step: Blocked, reason: v1alpha1.ReasonInvalidSpec, says: []string{"would not be safe"},
		},
		"a spec that can no longer be rendered stops the plan": {
			in: fresh(at(TaskApplyService), unrenderable), step: Blocked, reason: v1alpha1.ReasonInvalidSpec,
		},
		"a gate is shut that a person opens": {
			in: fresh(tracks(claimUID)), step: Blocked, reason: v1alpha1.ReasonDataVolumeLost, says: []string{"accept-new-volume"},
		},
		"a gate is shut that nothing watches": {
			in: fresh(seed), step: Blocked, reason: v1alpha1.ReasonWaiting, after: lookAgain, says: []string{"node key"},
		},
		"a plan is carried on with": {
			in: fresh(at(TaskApplyService)), step: Continue, reason: v1alpha1.ReasonProgressing, says: []string{"Bootstrap"},
		},
		"a plan is carried on with, whatever gate shuts meanwhile": {
			in: fresh(hasClaim(), usedBy("job-1"), at(TaskApplyService)), step: Continue, reason: v1alpha1.ReasonProgressing,
		},
		"an edit of the image supersedes a plan": {
			in: fresh(at(TaskDiscoverPeers), newImage), step: Start, superseded: true,
			starts: v1alpha1.PlanBootstrap, reason: v1alpha1.ReasonBootstrapping,
		},
		"an edit that changes neither the pod nor the configuration supersedes a plan": {
			in: fresh(at(TaskDiscoverPeers), spec(func(s *v1alpha1.SeiNodeSpec) {
				s.Peers = []v1alpha1.PeerSource{{Static: &v1alpha1.StaticPeers{Addresses: []string{"id@a:26656"}}}}
			})),
			step: Start, superseded: true, starts: v1alpha1.PlanBootstrap, reason: v1alpha1.ReasonBootstrapping,
		},
		"another template by a new operator supersedes a plan": {
			in:   fresh(at(TaskDiscoverPeers), func(in *Input) { in.Want.TemplateHash = "another" }),
			step: Start, superseded: true, starts: v1alpha1.PlanBootstrap, reason: v1alpha1.ReasonBootstrapping,
		},
		"another configuration by a new operator supersedes a plan": {
			in:   fresh(at(TaskDiscoverPeers), func(in *Input) { in.Want.ConfigHash = "another" }),
			step: Start, superseded: true, starts: v1alpha1.PlanBootstrap, reason: v1alpha1.ReasonBootstrapping,
		},
		"an edit supersedes a plan and finds a gate shut": {
			in: fresh(at(TaskDiscoverPeers), seed), step: Blocked, superseded: true, reason: v1alpha1.ReasonWaiting, after: lookAgain,
		},
		"a plan that approves again does not care for an edit that changes neither pod nor configuration": {
			in:   running(reapproving, func(in *Input) { in.Node.Status.AdmittedSpecHash = "another" }),
			step: Continue, reason: v1alpha1.ReasonProgressing, says: []string{"Reapprove"},
		},
		"another pod supersedes a plan that approves again": {
			in: running(reapproving, newImage), step: Start, superseded: true, starts: v1alpha1.PlanNodeUpdate,
			reason: v1alpha1.ReasonImageChanged, slot: v1alpha1.UpdateCauseEdit,
		},
		"another configuration supersedes a plan that approves again": {
			in: running(reapproving, override("y")), step: Start, superseded: true, starts: v1alpha1.PlanConfigUpdate,
			reason: v1alpha1.ReasonConfigChanged, slot: v1alpha1.UpdateCauseEdit,
		},
		"an update that waits after a failure does not keep a node from being approved again": {
			in:   running(newTemplate, unapproved, ended(v1alpha1.PlanNodeUpdate, v1alpha1.PlanOutcomeFailed, 0, 1)),
			step: Start, starts: v1alpha1.PlanReapprove, reason: v1alpha1.ReasonNotApproved,
		},
		"a new approval failed just now": {
			in:   running(unapproved, ended(v1alpha1.PlanReapprove, v1alpha1.PlanOutcomeFailed, 0, 1)),
			step: BackOff, reason: v1alpha1.ReasonPlanFailed, after: 15 * time.Second, says: []string{"Reapprove failed"},
		},
		"bringing it up failed just now": {
			in: fresh(failed(0)), step: BackOff, reason: v1alpha1.ReasonPlanFailed, after: 15 * time.Second,
			says: []string{"Bootstrap failed", "it broke", "sei.io/retry"},
		},
		"bringing it up failed a while ago, almost": {
			in: fresh(failed(15*time.Second - 1)), step: BackOff, reason: v1alpha1.ReasonPlanFailed, after: 1,
		},
		"bringing it up failed a while ago": {
			in: fresh(failed(15 * time.Second)), step: Start, starts: v1alpha1.PlanBootstrap, reason: v1alpha1.ReasonBootstrapping,
		},
		"a shut gate is told of before a failure": {
			in: fresh(failed(0), tracks(claimUID)), step: Blocked, reason: v1alpha1.ReasonDataVolumeLost,
		},
		"a node at rest": {
			in: running(), step: Idle, reason: v1alpha1.ReasonSettled, says: []string{"Nothing"},
		},
		"another image is rolled out": {
			in: running(newImage, unapproved), step: Start, starts: v1alpha1.PlanNodeUpdate, reason: v1alpha1.ReasonImageChanged,
			slot: v1alpha1.UpdateCauseEdit, says: []string{"seid:v7"},
		},
		"another configuration is put in place": {
			in: running(override("y")), step: Start, starts: v1alpha1.PlanConfigUpdate, reason: v1alpha1.ReasonConfigChanged,
			slot: v1alpha1.UpdateCauseEdit, says: []string{"app.x"},
		},
		"a new operator wants another pod": {
			in: running(newTemplate), step: Start, starts: v1alpha1.PlanNodeUpdate, reason: v1alpha1.ReasonTemplateChanged, slot: v1alpha1.UpdateCauseOperator,
		},
		"an update finds a gate shut": {
			in: running(newImage, noClaim), step: Blocked, reason: v1alpha1.ReasonDataVolumeLost,
		},
		"an update failed just now": {
			in:   running(newTemplate, ended(v1alpha1.PlanNodeUpdate, v1alpha1.PlanOutcomeFailed, 0, 1)),
			step: BackOff, reason: v1alpha1.ReasonPlanFailed, after: 15 * time.Second, says: []string{"NodeUpdate failed"},
		},
		"an update is carried on with": {
			in: running(updating, noPod), step: Continue, reason: v1alpha1.ReasonProgressing, says: []string{"NodeUpdate"},
		},
		"an edit supersedes an update": {
			in: running(updating, newImage), step: Start, superseded: true, starts: v1alpha1.PlanNodeUpdate, reason: v1alpha1.ReasonImageChanged,
			slot: v1alpha1.UpdateCauseEdit,
		},
		"an edit of the configuration supersedes an update of the pod": {
			in: running(updating, override("y")), step: Start, superseded: true, starts: v1alpha1.PlanConfigUpdate, reason: v1alpha1.ReasonConfigChanged,
			slot: v1alpha1.UpdateCauseEdit,
		},
		"an edit back to what runs leaves nothing to do": {
			in:   running(updating, func(in *Input) { in.Node.Status.Plan.TemplateHash = "another" }),
			step: Idle, superseded: true, reason: v1alpha1.ReasonSettled,
		},
		"a node that lost its approval gets it back": {
			in: running(unapproved), step: Start, starts: v1alpha1.PlanReapprove, reason: v1alpha1.ReasonNotApproved, says: []string{"not approved"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Decide(test.in)
			want := Decision{Step: test.step, Reason: test.reason, After: test.after, Stalled: test.step == Blocked && onlyAPerson[test.reason]}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Decision{}, "Message", "Plan", "Superseded", "Slot")); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
			saysAll(t, got.Message, test.says)
			if (got.Superseded != nil) != test.superseded {
				t.Errorf("what is superseded: %+v", got.Superseded)
			}
			if (got.Slot != nil) != (test.slot != "") || got.Slot != nil && got.Slot.Cause != test.slot {
				t.Errorf("the slot is %+v", got.Slot)
			}
			if (got.Plan != nil) != (test.starts != "") {
				t.Fatalf("the plan is %+v", got.Plan)
			}
			if got.Plan != nil && (got.Plan.Type != test.starts || got.Plan.Reason != string(got.Reason) || got.Plan.Message != got.Message) {
				t.Errorf("the plan is %+v and the decision %+v", got.Plan, got)
			}
		})
	}
}

func TestWhoGetsAnApprovalBack(t *testing.T) {
	t.Parallel()
	approvedAs := func(uid string) edit {
		return sidecar(func(s *Sidecar) { s.Status.Approval = api.Approval{NodeUID: uid} })
	}
	for name, test := range map[string]struct {
		in   Input
		want bool
	}{
		"one without any approval on its volume":     {in: running(unapproved), want: true},
		"one with its own approval on its volume":    {in: running(unapproved, approvedAs("node-uid")), want: true},
		"not one that is approved":                   {in: running()},
		"not one that is held":                       {in: running(unapproved, sidecar(func(s *Sidecar) { s.Status.Held = true }))},
		"not one whose sidecar does not answer":      {in: running(unapproved, sidecar(func(s *Sidecar) { s.Connected = false }))},
		"not one after another was approved":         {in: running(unapproved, approvedAs("other-uid"))},
		"not one without a volume":                   {in: running(unapproved, noClaim)},
		"not one that never had a volume":            {in: running(unapproved, func(in *Input) { in.Node.Status.DataVolume = nil })},
		"not one on another volume":                  {in: running(unapproved, hasClaim(claimed(otherUID), marked(nodeUID)))},
		"not one on a volume without its mark":       {in: running(unapproved, hasClaim())},
		"not one on a volume with another's mark":    {in: running(unapproved, hasClaim(marked(otherUID)))},
		"not one that is still to be brought up yet": {in: running(unapproved, phase(v1alpha1.PhaseInitializing))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Decide(test.in)
			if reapproves := got.Plan != nil && got.Plan.Type == v1alpha1.PlanReapprove; reapproves != test.want {
				t.Errorf("it decides %+v", got)
			}
		})
	}
}

func TestANodeThatIsMadeAgainIsNotBroughtUpForTheFirstTime(t *testing.T) {
	t.Parallel()
	for message, in := range map[string]Input{
		"The node is brought up for the first time.":                                    fresh(hasClaim()),
		"The node is brought up again, on the volume that it was brought up on before.": fresh(hasClaim(marked(otherUID))),
	} {
		if got := bootstrapMessage(in); got != message {
			t.Errorf("it says %q, want %q", got, message)
		}
	}
}

func TestAPlanSaysWhatItLeadsTo(t *testing.T) {
	t.Parallel()
	in := fresh(newImage)
	got := Decide(in).Plan
	want := &v1alpha1.Plan{
		ID: "00000000-0000-0000-0000-000000000000", Type: v1alpha1.PlanBootstrap, Reason: "Bootstrapping",
		Message: "The node is brought up for the first time.", Progress: "Bootstrap 0/10", Generation: 2,
		TemplateHash: in.Want.TemplateHash, ConfigHash: in.Want.ConfigHash, StartTime: metav1.NewTime(now),
	}
	for _, task := range tasksOf(in, v1alpha1.PlanBootstrap) {
		want.Tasks = append(want.Tasks, v1alpha1.PlanTask{Type: task, Status: v1alpha1.PlanTaskPending})
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(v1alpha1.Plan{}, "ID")); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if len(got.ID) != len(want.ID) {
		t.Errorf("its id is %q", got.ID)
	}
}

// TestAPlanKeepsNoMoreOfAMessageThanTheAPIServerTakes: otherwise its status would be
// refused for ever.
func TestAPlanKeepsNoMoreOfAMessageThanTheAPIServerTakes(t *testing.T) {
	t.Parallel()
	// The bound is inside of one of the letters that take three bytes.
	for letter, want := range map[string]int{"x": 256, "€": 255} {
		in := running(spec(func(s *v1alpha1.SeiNodeSpec) { s.Image = strings.Repeat(letter, 400) }))
		got := Decide(in)
		if len(got.Plan.Message) != want || !strings.HasPrefix(got.Message, got.Plan.Message) {
			t.Errorf("of %q the plan keeps %d bytes: %q", letter, len(got.Plan.Message), got.Plan.Message)
		}
	}
}

func TestIDsOfPlans(t *testing.T) {
	t.Parallel()
	base := Decide(fresh()).Plan.ID
	// An id must never change with the version of the operator: a plan outlives it.
	if want := "b8f9887f-5bcd-5ef8-8feb-c630a3c02a8e"; base != want {
		t.Errorf("the id is %s, want %s", base, want)
	}
	for name, other := range map[string]Input{
		"another node":       fresh(func(in *Input) { in.Node.UID = otherUID }),
		"another time":       fresh(func(in *Input) { in.Seen.Now = now.Add(1) }),
		"another kind of it": running(unapproved),
	} {
		if Decide(other).Plan.ID == base {
			t.Errorf("%s has the same id", name)
		}
	}
}

func TestIDsOfTasks(t *testing.T) {
	t.Parallel()
	p := Decide(fresh()).Plan
	if got, want := TaskID(p, 3).String(), "bd9cac54-afd4-5092-bbae-5e3e6da9d509"; got != want {
		t.Errorf("the id is %s, want %s", got, want)
	}
	twin := p.DeepCopy()
	twin.Tasks[3].Type = TaskReplacePod
	if TaskID(p, 3) == TaskID(twin, 3) {
		t.Error("tasks of other types have the same id")
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	for task, want := range map[string]string{
		TaskEnsureDataPVC: "Bootstrap 0/10", TaskApplyNodeConfig: "Bootstrap 1/10", TaskMarkReady: "Bootstrap 9/10",
	} {
		if got := Progress(fresh(at(task)).Node.Status.Plan); got != want {
			t.Errorf("at %s the progress is %q, want %q", task, got, want)
		}
	}
}

// TestWhatIsDoneMeanwhile: while an update waits for its turn.
func TestWhatIsDoneMeanwhile(t *testing.T) {
	t.Parallel()
	waiting := Decision{Step: Waiting, Superseded: &v1alpha1.PlanRecord{Message: "the last one"}}
	failedApproval := ended(v1alpha1.PlanReapprove, v1alpha1.PlanOutcomeFailed, 0, 1)
	for name, test := range map[string]struct {
		in   Input
		next Decision
		want Step
	}{
		"nothing, where nothing is missing":          {in: running(), next: waiting, want: Waiting},
		"a new approval":                             {in: running(unapproved), next: waiting, want: Start},
		"nothing, if a new approval failed":          {in: running(unapproved, failedApproval), next: waiting, want: Waiting},
		"the update itself, if it starts":            {in: running(unapproved), next: Decision{Step: Start}, want: Start},
		"a failed approval is told of all by itself": {in: running(unapproved, failedApproval), next: Decision{Step: Idle}, want: BackOff},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Meanwhile(test.in, test.next)
			if got.Step != test.want || got.Superseded != test.next.Superseded {
				t.Errorf("it decides %+v", got)
			}
			if approves := got.Plan != nil && got.Plan.Type == v1alpha1.PlanReapprove; approves != (name == "a new approval") {
				t.Errorf("the plan is %+v", got.Plan)
			}
		})
	}
}

func TestASupersededPlanIsRecorded(t *testing.T) {
	t.Parallel()
	got := Decide(fresh(at(TaskDiscoverPeers), newImage)).Superseded
	want := &v1alpha1.PlanRecord{
		Type: v1alpha1.PlanBootstrap, Outcome: v1alpha1.PlanOutcomeSuperseded, Reason: "Superseded",
		Message:   "The spec was edited since the last plan was made.",
		StartTime: metav1.NewTime(now.Add(-time.Minute)), CompletionTime: metav1.NewTime(now),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}
