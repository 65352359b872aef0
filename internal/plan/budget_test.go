package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

func has(slot v1alpha1.UpdateSlot) edit {
	return func(in *Input) { in.Node.Status.Slot = &slot }
}

// crashes says that the pod does not stay up.
var crashes = onPod(withContainers(waits("CrashLoopBackOff", "")))

func TestSlot(t *testing.T) {
	t.Parallel()
	byEdit, byOperator := v1alpha1.UpdateCauseEdit, v1alpha1.UpdateCauseOperator
	rolls := func(in Input, cause v1alpha1.UpdateCause) *v1alpha1.UpdateSlot {
		return &v1alpha1.UpdateSlot{Cause: cause, TemplateHash: in.Want.TemplateHash}
	}
	for name, test := range map[string]struct {
		in   Input
		kind v1alpha1.PlanType
		want func(Input) *v1alpha1.UpdateSlot
	}{
		"a bootstrap takes none":    {in: fresh(), kind: v1alpha1.PlanBootstrap},
		"a new approval takes none": {in: running(), kind: v1alpha1.PlanReapprove},
		"an edit of the node": {
			in: running(newImage), kind: v1alpha1.PlanNodeUpdate,
			want: func(in Input) *v1alpha1.UpdateSlot { return rolls(in, byEdit) },
		},
		"a new operator": {
			in: running(newTemplate), kind: v1alpha1.PlanNodeUpdate,
			want: func(in Input) *v1alpha1.UpdateSlot { return rolls(in, byOperator) },
		},
		"a new operator that wants another configuration": {
			in: running(), kind: v1alpha1.PlanConfigUpdate,
			want: func(in Input) *v1alpha1.UpdateSlot {
				return &v1alpha1.UpdateSlot{Cause: byOperator, TemplateHash: in.Want.ConfigHash}
			},
		},
		"a broken pod takes none": {in: running(newTemplate, crashes), kind: v1alpha1.PlanNodeUpdate},
		"a pod out of reach is not known to be broken": {
			in: running(newTemplate, onPod(endsAt(now.Add(-time.Hour)))), kind: v1alpha1.PlanNodeUpdate,
			want: func(in Input) *v1alpha1.UpdateSlot { return rolls(in, byOperator) },
		},
		"a broken pod keeps the one that it has": {
			in:   running(newTemplate, crashes, has(v1alpha1.UpdateSlot{Cause: byEdit, TemplateHash: "another"})),
			kind: v1alpha1.PlanNodeUpdate,
			want: func(Input) *v1alpha1.UpdateSlot { return &v1alpha1.UpdateSlot{Cause: byEdit, TemplateHash: "another"} },
		},
		"another try at the same has the cause of the first": {
			in:   running(newTemplate, has(v1alpha1.UpdateSlot{Cause: byEdit, TemplateHash: "another"})),
			kind: v1alpha1.PlanNodeUpdate,
			want: func(Input) *v1alpha1.UpdateSlot { return &v1alpha1.UpdateSlot{Cause: byEdit, TemplateHash: "another"} },
		},
		"a try at something else has its own": {
			in:   running(newTemplate, has(v1alpha1.UpdateSlot{Cause: byEdit, TemplateHash: "old"})),
			kind: v1alpha1.PlanNodeUpdate,
			want: func(in Input) *v1alpha1.UpdateSlot { return rolls(in, byOperator) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want *v1alpha1.UpdateSlot
			if test.want != nil {
				want = test.want(test.in)
			}
			if diff := cmp.Diff(want, Slot(test.in, &v1alpha1.Plan{Type: test.kind})); diff != "" {
				t.Errorf("slot (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSlotOfAStatefulSetThatComesBack(t *testing.T) {
	t.Parallel()
	taken := v1alpha1.UpdateSlot{Cause: v1alpha1.UpdateCauseEdit, TemplateHash: "x"}
	for name, test := range map[string]struct {
		in   Input
		want *v1alpha1.UpdateSlot
	}{
		"as it was":             {in: running()},
		"with another template": {in: running(newTemplate), want: &v1alpha1.UpdateSlot{Cause: v1alpha1.UpdateCauseRecreate, TemplateHash: "another"}},
		"with another template, and it has a slot": {in: running(newTemplate, has(taken)), want: &taken},
		"as it was, and it has a slot":             {in: running(has(taken)), want: &taken},
		"nobody knows how it was":                  {in: running(newTemplate, func(in *Input) { in.Node.Status.PodTemplateHash = "" })},
		"nobody knows how it shall be":             {in: running(unrenderable)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, RecreateSlot(test.in)); diff != "" {
				t.Errorf("slot (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAdmission(t *testing.T) {
	t.Parallel()
	byOperator := &v1alpha1.UpdateSlot{Cause: v1alpha1.UpdateCauseOperator}
	one, two := Neighbour{Name: "one"}, Neighbour{Name: "two"}
	broke := Neighbour{Name: "three", Failed: true, Message: "it broke"}
	for name, test := range map[string]struct {
		in     Input
		slot   *v1alpha1.UpdateSlot
		others []Neighbour
		max    int
		gate   wantGate
	}{
		"nobody else is updated":             {in: running(), slot: byOperator, max: 1},
		"there is room for one more":         {in: running(), slot: byOperator, others: []Neighbour{one}, max: 2},
		"what needs no slot does not wait":   {in: running(), others: []Neighbour{one, broke}, max: 1},
		"an edit does not wait":              {in: running(), slot: &v1alpha1.UpdateSlot{Cause: v1alpha1.UpdateCauseEdit}, others: []Neighbour{one, broke}, max: 1},
		"a node that has a slot tries again": {in: running(has(*byOperator)), slot: byOperator, others: []Neighbour{one, broke}, max: 1},
		"there is no room": {
			in: running(), slot: byOperator, others: []Neighbour{one, two}, max: 2,
			gate: wantGate{reason: v1alpha1.ReasonWaitingForBudget, says: []string{"Why. Waits", "at most 2"}},
		},
		"it failed elsewhere": {
			in: running(), slot: byOperator, others: []Neighbour{one, broke}, max: 9,
			gate: wantGate{reason: v1alpha1.ReasonWaitingForBudget, says: []string{"Why. Waits", "node three", "it broke", "sei.io/retry"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.gate.check(t, Admit(test.in, test.slot, "Why.", test.others, test.max))
		})
	}
}

func TestWhenASlotEnds(t *testing.T) {
	t.Parallel()
	updated := func(kind v1alpha1.PlanType, ago time.Duration) edit {
		return ended(kind, v1alpha1.PlanOutcomeComplete, ago, 0)
	}
	for name, test := range map[string]struct {
		in   Input
		true v1alpha1.ConditionType
		want bool
		wait time.Duration
	}{
		"it is not ready yet":           {in: running()},
		"it is ready":                   {in: running(), true: v1alpha1.ConditionReady, want: true},
		"it is held":                    {in: running(), true: v1alpha1.ConditionHeld, want: true},
		"it is paused":                  {in: running(), true: v1alpha1.ConditionPaused, want: true},
		"it halted for an upgrade":      {in: running(), true: v1alpha1.ConditionUpgradeHalted, want: true},
		"it needs a person":             {in: running(), true: v1alpha1.ConditionStalled},
		"it is deleted":                 {in: running(deleted), want: true},
		"it is still worked on":         {in: running(reapproving), true: v1alpha1.ConditionReady},
		"it is held while worked on":    {in: running(reapproving), true: v1alpha1.ConditionHeld},
		"it is paused while worked on":  {in: running(reapproving), true: v1alpha1.ConditionPaused, want: true},
		"it is deleted while worked on": {in: running(reapproving, deleted), want: true},
		"its pod was replaced just now": {in: running(updated(v1alpha1.PlanNodeUpdate, 0)), true: v1alpha1.ConditionReady, want: true},
		"seid was restarted just now":   {in: running(updated(v1alpha1.PlanConfigUpdate, time.Second)), true: v1alpha1.ConditionReady, wait: 39 * time.Second},
		"seid was restarted a while ago, almost": {
			in: running(updated(v1alpha1.PlanConfigUpdate, 40*time.Second-1)), true: v1alpha1.ConditionReady, wait: 1,
		},
		"seid was restarted a while ago":     {in: running(updated(v1alpha1.PlanConfigUpdate, 40*time.Second)), true: v1alpha1.ConditionReady, want: true},
		"seid was restarted long ago":        {in: running(updated(v1alpha1.PlanConfigUpdate, time.Hour)), true: v1alpha1.ConditionReady, want: true},
		"seid was restarted and is not back": {in: running(updated(v1alpha1.PlanConfigUpdate, time.Second))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, wait := SlotEnds(test.in.Node, now, func(kind v1alpha1.ConditionType) metav1.ConditionStatus {
				if kind == test.true {
					return metav1.ConditionTrue
				}
				return metav1.ConditionFalse
			})
			if got != test.want || wait != test.wait {
				t.Errorf("it ends: %t, after %s", got, wait)
			}
		})
	}
}

func TestWhatFreezesAnUpdate(t *testing.T) {
	t.Parallel()
	byOperator := v1alpha1.UpdateCauseOperator
	ends := func(outcome v1alpha1.PlanOutcome, cause v1alpha1.UpdateCause, hash string) edit {
		return func(in *Input) {
			ended(v1alpha1.PlanNodeUpdate, outcome, time.Minute, 1)(in)
			in.Node.Status.LastPlan.Slot = &v1alpha1.UpdateSlot{Cause: cause, TemplateHash: hash}
		}
	}
	broke := ends(v1alpha1.PlanOutcomeFailed, byOperator, "template")
	ready := func(status metav1.ConditionStatus) edit {
		return func(in *Input) {
			in.Node.Status.Conditions = []metav1.Condition{{Type: string(v1alpha1.ConditionReady), Status: status}}
		}
	}
	for name, test := range map[string]struct {
		in   Input
		want bool
	}{
		"it failed":                           {in: running(broke), want: true},
		"it failed and is not ready":          {in: running(broke, ready(metav1.ConditionFalse)), want: true},
		"it failed and is ready all the same": {in: running(broke, ready(metav1.ConditionTrue))},
		"it failed with the configuration":    {in: running(ends(v1alpha1.PlanOutcomeFailed, byOperator, "config")), want: true},
		"it wants something else by now":      {in: running(ends(v1alpha1.PlanOutcomeFailed, byOperator, "old"))},
		"it was edited":                       {in: running(ends(v1alpha1.PlanOutcomeFailed, v1alpha1.UpdateCauseEdit, "template"))},
		"it went well":                        {in: running(ends(v1alpha1.PlanOutcomeComplete, byOperator, "template"))},
		"it never was updated":                {in: running()},
		"it failed without a place":           {in: running(ended(v1alpha1.PlanNodeUpdate, v1alpha1.PlanOutcomeFailed, time.Minute, 1))},
		"a person asks for another try":       {in: running(broke, annotated(v1alpha1.AnnotationRetry, "now"))},
		"a person asked for one, and it too":  {in: running(broke, asked("now", "now")), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Freezes(test.in.Node, "template", "config"); got != test.want {
				t.Errorf("it freezes: %t", got)
			}
		})
	}
}
