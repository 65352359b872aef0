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
		"a plan that approves again does not care for an edit": {
			in:   running(reapproving, newImage, override("y")),
			step: Continue, reason: v1alpha1.ReasonProgressing, says: []string{"Reapprove"},
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
			want := Decision{Step: test.step, Reason: test.reason, After: test.after}
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
	in := running(spec(func(s *v1alpha1.SeiNodeSpec) { s.Image = strings.Repeat("é", 255) }))
	got := Decide(in)
	if len(got.Plan.Message) > 256 || len(got.Plan.Message) < 250 || !strings.HasPrefix(got.Message, got.Plan.Message) {
		t.Errorf("the plan says %q", got.Plan.Message)
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

func TestRecord(t *testing.T) {
	t.Parallel()
	bootstrap, again := v1alpha1.PlanBootstrap, v1alpha1.PlanReapprove
	broke, done := v1alpha1.PlanOutcomeFailed, v1alpha1.PlanOutcomeComplete
	for name, test := range map[string]struct {
		before   edit
		outcome  v1alpha1.PlanOutcome
		failures int32
	}{
		"the first plan fails":                      {before: func(*Input) {}, outcome: broke, failures: 1},
		"the third plan in a row fails":             {before: ended(bootstrap, broke, time.Hour, 2), outcome: broke, failures: 3},
		"a plan fails after one that did not":       {before: ended(bootstrap, done, time.Hour, 7), outcome: broke, failures: 1},
		"a plan fails after one of another type":    {before: ended(again, broke, time.Hour, 7), outcome: broke, failures: 1},
		"a plan is complete after one that failed":  {before: ended(bootstrap, broke, time.Hour, 2), outcome: done},
		"a plan is superseded after one that fails": {before: ended(bootstrap, broke, time.Hour, 2), outcome: v1alpha1.PlanOutcomeSuperseded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := fresh(at(TaskConfigApply), test.before, annotated(v1alpha1.AnnotationRetry, "1"))
			want := &v1alpha1.PlanRecord{
				Type: bootstrap, Outcome: test.outcome, Reason: "Why", Message: "how", Failures: test.failures, Retry: "1",
				StartTime: metav1.NewTime(now.Add(-time.Minute)), CompletionTime: metav1.NewTime(now),
			}
			if diff := cmp.Diff(want, Record(in, test.outcome, "Why", "how")); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
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

func TestBackOff(t *testing.T) {
	t.Parallel()
	broke := v1alpha1.PlanOutcomeFailed
	failures := func(n int32) edit {
		return func(in *Input) {
			ended(v1alpha1.PlanBootstrap, broke, time.Second, n)(in)
			admitted(in)
		}
	}
	for name, test := range map[string]struct {
		in   Input
		want time.Duration
	}{
		"nothing ever failed":               {in: fresh(admitted)},
		"another type of plan failed":       {in: fresh(failures(1), func(in *Input) { in.Node.Status.LastPlan.Type = v1alpha1.PlanReapprove })},
		"the last plan was complete":        {in: fresh(failures(1), func(in *Input) { in.Node.Status.LastPlan.Outcome = v1alpha1.PlanOutcomeComplete })},
		"a record without a count":          {in: fresh(failures(0)), want: 14 * time.Second},
		"once":                              {in: fresh(failures(1)), want: 14 * time.Second},
		"twice":                             {in: fresh(failures(2)), want: 29 * time.Second},
		"three times":                       {in: fresh(failures(3)), want: 59 * time.Second},
		"six times":                         {in: fresh(failures(6)), want: 479 * time.Second},
		"seven times":                       {in: fresh(failures(7)), want: 599 * time.Second},
		"for ever":                          {in: fresh(failures(2_000_000_000)), want: 599 * time.Second},
		"it is over to the second":          {in: fresh(failures(1), func(in *Input) { in.Seen.Now = now.Add(14 * time.Second) })},
		"it is long over":                   {in: fresh(failures(1), func(in *Input) { in.Seen.Now = now.Add(time.Hour) })},
		"it failed this very moment":        {in: fresh(failures(1), func(in *Input) { in.Seen.Now = now.Add(-time.Second) }), want: 15 * time.Second},
		"it failed at a time yet to come":   {in: fresh(failures(1), func(in *Input) { in.Seen.Now = now.Add(-time.Hour) })},
		"the spec was edited since":         {in: fresh(failures(1), newImage)},
		"a person asks for it":              {in: fresh(failures(1), annotated(v1alpha1.AnnotationRetry, "please"))},
		"a person asked for it back then":   {in: fresh(failures(1), asked("please", "please")), want: 14 * time.Second},
		"a person asked, and asks again":    {in: fresh(failures(1), asked("please", "please!"))},
		"a person asked at great length":    {in: fresh(failures(1), asked(strings.Repeat("x", 256), strings.Repeat("x", 300))), want: 14 * time.Second},
		"a person asked in another script":  {in: fresh(failures(1), asked(strings.Repeat("x", 255), strings.Repeat("x", 255)+"é")), want: 14 * time.Second},
		"and all of it was remembered":      {in: fresh(failures(1), asked(strings.Repeat("x", 254)+"é", strings.Repeat("x", 254)+"éé")), want: 14 * time.Second},
		"a person asked with one more mark": {in: fresh(failures(1), asked(strings.Repeat("x", 254), strings.Repeat("x", 255)))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := backOff(test.in, v1alpha1.PlanBootstrap); got != test.want {
				t.Errorf("it waits %s, want %s", got, test.want)
			}
		})
	}
}

// asked is what the annotation said when the last plan ended, and what it says now.
func asked(before, after string) edit {
	return func(in *Input) {
		in.Node.Status.LastPlan.Retry = before
		annotated(v1alpha1.AnnotationRetry, after)(in)
	}
}
