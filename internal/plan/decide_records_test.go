package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

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

func TestTheRecordOfAnUpdateKeepsItsPlaceInTheBudget(t *testing.T) {
	t.Parallel()
	slot := v1alpha1.UpdateSlot{Cause: v1alpha1.UpdateCauseOperator, TemplateHash: "x"}
	in := running(updating, has(slot))
	got := Record(in, v1alpha1.PlanOutcomeFailed, "Why", "how").Slot
	if in.Node.Status.Slot.TemplateHash = "changed"; got == nil || *got != slot {
		t.Errorf("the slot is %+v", got)
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
