package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/scope"
)

// change edits a status.
type change func(*v1alpha1.SeiNodeStatus)

func lastPlan(outcome v1alpha1.PlanOutcome, when time.Time) change {
	return func(s *v1alpha1.SeiNodeStatus) {
		s.LastPlan = &v1alpha1.PlanRecord{
			Type: v1alpha1.PlanBootstrap, Outcome: outcome, Message: "how it went", CompletionTime: metav1.NewTime(when),
		}
	}
}

func planned(id string) change {
	return func(s *v1alpha1.SeiNodeStatus) {
		s.Plan = &v1alpha1.Plan{ID: id, Type: v1alpha1.PlanReapprove, Message: "why"}
	}
}

func readyIs(status metav1.ConditionStatus, reason v1alpha1.ConditionReason) change {
	return conditionIs(v1alpha1.ConditionReady, status, reason)
}

func conditionIs(kind v1alpha1.ConditionType, status metav1.ConditionStatus, reason v1alpha1.ConditionReason) change {
	return func(s *v1alpha1.SeiNodeStatus) {
		s.Conditions = append(s.Conditions, condition(kind, status, reason, "how it is"))
	}
}

func stalledIs(status metav1.ConditionStatus) change {
	return func(s *v1alpha1.SeiNodeStatus) {
		s.Conditions = append(s.Conditions, condition(v1alpha1.ConditionStalled, status, v1alpha1.ReasonSettled, "so it is"))
	}
}

func updateIs(reason v1alpha1.ConditionReason, message string) change {
	return func(s *v1alpha1.SeiNodeStatus) {
		s.Conditions = append(s.Conditions, condition(v1alpha1.ConditionNodeUpdateInProgress, metav1.ConditionFalse, reason, message))
	}
}

func hasSet(s *v1alpha1.SeiNodeStatus) {
	s.StatefulSet = &v1alpha1.ObjectIdentity{Name: "node", UID: "set-uid"}
}

func inPhase(p v1alpha1.SeiNodePhase) change {
	return func(s *v1alpha1.SeiNodeStatus) { s.Phase = p }
}

func statusWith(changes ...change) *v1alpha1.SeiNodeStatus {
	status := &v1alpha1.SeiNodeStatus{}
	for _, c := range changes {
		c(status)
	}
	return status
}

func TestTransitions(t *testing.T) {
	t.Parallel()
	yes, no := metav1.ConditionTrue, metav1.ConditionFalse
	signing, identity, volume := v1alpha1.ConditionSigningKeyReady, v1alpha1.ConditionNodeKeyReady, v1alpha1.ConditionDataVolumeReady
	complete, broke := v1alpha1.PlanOutcomeComplete, v1alpha1.PlanOutcomeFailed
	runs := inPhase(v1alpha1.PhaseRunning)
	for name, test := range map[string]struct {
		before, after *v1alpha1.SeiNodeStatus
		want          []scope.Event
	}{
		"nothing at all":                  {before: statusWith(), after: statusWith()},
		"a plan starts":                   {before: statusWith(), after: statusWith(planned("1")), want: []scope.Event{{Reason: "PlanStarted", Message: "Reapprove: why"}}},
		"another plan starts":             {before: statusWith(planned("1")), after: statusWith(planned("2")), want: []scope.Event{{Reason: "PlanStarted", Message: "Reapprove: why"}}},
		"a plan goes on":                  {before: statusWith(planned("1")), after: statusWith(planned("1"))},
		"the first plan ends":             {before: statusWith(planned("1")), after: statusWith(lastPlan(complete, now)), want: []scope.Event{{Reason: "PlanComplete", Message: "Bootstrap: how it went"}}},
		"a plan fails":                    {before: statusWith(), after: statusWith(lastPlan(broke, now)), want: []scope.Event{{Warning: true, Reason: "PlanFailed", Message: "Bootstrap: how it went"}}},
		"a plan ends as the last one did": {before: statusWith(lastPlan(broke, now)), after: statusWith(lastPlan(broke, now.Add(time.Second))), want: []scope.Event{{Warning: true, Reason: "PlanFailed", Message: "Bootstrap: how it went"}}},
		"a plan ends otherwise at once":   {before: statusWith(lastPlan(broke, now)), after: statusWith(lastPlan(complete, now)), want: []scope.Event{{Reason: "PlanComplete", Message: "Bootstrap: how it went"}}},
		"a record stays":                  {before: statusWith(lastPlan(broke, now)), after: statusWith(lastPlan(broke, now))},
		"the first StatefulSet":           {before: statusWith(), after: statusWith(hasSet)},
		"a StatefulSet comes back":        {before: statusWith(runs), after: statusWith(runs, hasSet), want: []scope.Event{{Reason: "StatefulSetTracked", Message: "The StatefulSet node (uid set-uid) is the node's."}}},
		"a StatefulSet stays":             {before: statusWith(runs, hasSet), after: statusWith(runs, hasSet)},
		"a StatefulSet is gone":           {before: statusWith(runs, hasSet), after: statusWith(runs)},
		"an update has to wait": {
			before: statusWith(), after: statusWith(updateIs(v1alpha1.ReasonWaitingForBudget, "for one")),
			want: []scope.Event{{Reason: "WaitingForBudget", Message: "for one"}},
		},
		"an update still has to wait": {
			before: statusWith(updateIs(v1alpha1.ReasonWaitingForBudget, "for one")), after: statusWith(updateIs(v1alpha1.ReasonWaitingForBudget, "for one")),
		},
		"an update has to wait for something else": {
			before: statusWith(updateIs(v1alpha1.ReasonWaitingForBudget, "for its turn")), after: statusWith(updateIs(v1alpha1.ReasonWaitingForBudget, "for one that failed")),
			want: []scope.Event{{Reason: "WaitingForBudget", Message: "for one that failed"}},
		},
		"an update that was done has to wait": {
			before: statusWith(updateIs(v1alpha1.ReasonUpToDate, "for one")), after: statusWith(updateIs(v1alpha1.ReasonWaitingForBudget, "for one")),
			want: []scope.Event{{Reason: "WaitingForBudget", Message: "for one"}},
		},
		"an update no longer waits": {
			before: statusWith(updateIs(v1alpha1.ReasonWaitingForBudget, "for one")), after: statusWith(updateIs(v1alpha1.ReasonUpToDate, "done")),
		},
		"somebody put something into the template": {
			before: statusWith(updateIs(v1alpha1.ReasonUpToDate, "done")), after: statusWith(updateIs(v1alpha1.ReasonForeignTemplate, "a probe")),
			want: []scope.Event{{Warning: true, Reason: "ForeignTemplate", Message: "a probe"}},
		},
		"it is still there": {
			before: statusWith(updateIs(v1alpha1.ReasonForeignTemplate, "a probe")), after: statusWith(updateIs(v1alpha1.ReasonForeignTemplate, "a probe, too")),
		},
		"it becomes ready": {
			before: statusWith(readyIs(no, v1alpha1.ReasonCatchingUp)), after: statusWith(readyIs(yes, v1alpha1.ReasonRunning)),
			want: []scope.Event{{Reason: "Ready", Message: "how it is"}},
		},
		"it stays ready": {before: statusWith(readyIs(yes, v1alpha1.ReasonRunning)), after: statusWith(readyIs(yes, v1alpha1.ReasonRunning))},
		"it stays as bad as it was": {
			before: statusWith(readyIs(no, v1alpha1.ReasonHeld)), after: statusWith(readyIs(no, v1alpha1.ReasonHeld), stalledIs(yes)),
		},
		"the same reason is no longer harmless": {
			before: statusWith(readyIs(metav1.ConditionUnknown, v1alpha1.ReasonHeld)), after: statusWith(readyIs(no, v1alpha1.ReasonHeld)),
			want: []scope.Event{{Reason: "Held", Message: "how it is"}},
		},
		"it is paused": {
			before: statusWith(readyIs(yes, v1alpha1.ReasonRunning)), after: statusWith(readyIs(no, v1alpha1.ReasonPaused), stalledIs(no)),
			want: []scope.Event{{Reason: "Paused", Message: "how it is"}},
		},
		"it needs a person": {
			before: statusWith(), after: statusWith(readyIs(no, v1alpha1.ReasonDataVolumeLost), stalledIs(yes)),
			want: []scope.Event{{Warning: true, Reason: "DataVolumeLost", Message: "how it is"}},
		},
		"its key is in trouble while it runs": {
			before: statusWith(readyIs(yes, v1alpha1.ReasonRunning), conditionIs(signing, yes, v1alpha1.ReasonKeyValid)),
			after:  statusWith(readyIs(yes, v1alpha1.ReasonRunning), conditionIs(signing, no, v1alpha1.ReasonKeyIdentityChanged)),
			want:   []scope.Event{{Warning: true, Reason: "KeyIdentityChanged", Message: "how it is"}},
		},
		"its node key is in trouble while it runs": {
			before: statusWith(readyIs(yes, v1alpha1.ReasonRunning), conditionIs(identity, yes, v1alpha1.ReasonKeyValid)),
			after:  statusWith(readyIs(yes, v1alpha1.ReasonRunning), conditionIs(identity, no, v1alpha1.ReasonSecretNotFound)),
			want:   []scope.Event{{Warning: true, Reason: "SecretNotFound", Message: "how it is"}},
		},
		"its volume is in trouble while it runs": {
			before: statusWith(readyIs(yes, v1alpha1.ReasonRunning), conditionIs(volume, yes, v1alpha1.ReasonBound)),
			after:  statusWith(readyIs(yes, v1alpha1.ReasonRunning), conditionIs(volume, no, v1alpha1.ReasonDataVolumeTerminating)),
			want:   []scope.Event{{Warning: true, Reason: "DataVolumeTerminating", Message: "how it is"}},
		},
		"its volume gets into another trouble": {
			before: statusWith(readyIs(yes, v1alpha1.ReasonRunning), conditionIs(volume, no, v1alpha1.ReasonDiskNearlyFull)),
			after:  statusWith(readyIs(yes, v1alpha1.ReasonRunning), conditionIs(volume, no, v1alpha1.ReasonExpansionFailed)),
			want:   []scope.Event{{Warning: true, Reason: "ExpansionFailed", Message: "how it is"}},
		},
		"its volume stays in trouble": {
			before: statusWith(readyIs(yes, v1alpha1.ReasonRunning), conditionIs(volume, no, v1alpha1.ReasonDiskNearlyFull)),
			after:  statusWith(readyIs(yes, v1alpha1.ReasonRunning), conditionIs(volume, no, v1alpha1.ReasonDiskNearlyFull)),
		},
		"its volume is out of trouble": {
			before: statusWith(readyIs(yes, v1alpha1.ReasonRunning), conditionIs(volume, no, v1alpha1.ReasonDiskNearlyFull)),
			after:  statusWith(readyIs(yes, v1alpha1.ReasonRunning), conditionIs(volume, yes, v1alpha1.ReasonBound)),
		},
		"what is wrong with its volume is told with Ready": {
			before: statusWith(readyIs(yes, v1alpha1.ReasonRunning), conditionIs(volume, yes, v1alpha1.ReasonBound)),
			after:  statusWith(readyIs(no, v1alpha1.ReasonDiskNearlyFull), conditionIs(volume, no, v1alpha1.ReasonDiskNearlyFull)),
			want:   []scope.Event{{Warning: true, Reason: "DiskNearlyFull", Message: "how it is"}},
		},
		"its volume is not there yet, which is no trouble": {
			before: statusWith(readyIs(no, v1alpha1.ReasonBootstrapping), conditionIs(volume, no, v1alpha1.ReasonExpanding)),
			after:  statusWith(readyIs(no, v1alpha1.ReasonBootstrapping), conditionIs(volume, no, v1alpha1.ReasonNotBound)),
		},
		"its key was in trouble from the first": {
			before: statusWith(readyIs(yes, v1alpha1.ReasonRunning)),
			after:  statusWith(readyIs(yes, v1alpha1.ReasonRunning), conditionIs(signing, no, v1alpha1.ReasonSecretNotFound)),
		},
		"nobody says whether it is ready": {
			before: statusWith(conditionIs(signing, yes, v1alpha1.ReasonKeyValid)), after: statusWith(conditionIs(signing, no, v1alpha1.ReasonSecretNotFound)),
		},
		"everything at once, in this order": {
			before: statusWith(runs), after: statusWith(runs, hasSet, planned("1"), lastPlan(complete, now), readyIs(yes, v1alpha1.ReasonRunning)),
			want: []scope.Event{
				{Reason: "PlanComplete", Message: "Bootstrap: how it went"},
				{Reason: "PlanStarted", Message: "Reapprove: why"},
				{Reason: "StatefulSetTracked", Message: "The StatefulSet node (uid set-uid) is the node's."},
				{Reason: "Ready", Message: "how it is"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, Transitions(test.before, test.after)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if again := Transitions(test.after, test.after); again != nil {
				t.Errorf("it is told twice: %+v", again)
			}
		})
	}
}

func TestWhichReasonsAreWorthAnEvent(t *testing.T) {
	t.Parallel()
	told := func(reason v1alpha1.ConditionReason) []scope.Event {
		return Transitions(statusWith(), statusWith(readyIs(metav1.ConditionFalse, reason)))
	}
	for _, reason := range []v1alpha1.ConditionReason{
		v1alpha1.ReasonBootstrapping, v1alpha1.ReasonUpdating, v1alpha1.ReasonPlanFailed,
		v1alpha1.ReasonPodNotReady, v1alpha1.ReasonCatchingUp, v1alpha1.ReasonNotApproved,
	} {
		if events := told(reason); events != nil {
			t.Errorf("%s is told of: %+v", reason, events)
		}
	}
	for _, reason := range []v1alpha1.ConditionReason{
		v1alpha1.ReasonImagePullBackOff, v1alpha1.ReasonCrashLoopBackOff, v1alpha1.ReasonOOMKilled, v1alpha1.ReasonUnschedulable,
		v1alpha1.ReasonPodUnreachable, v1alpha1.ReasonUpgradeHalted, v1alpha1.ReasonVolumeInUse, v1alpha1.ReasonSecretNotFound,
		v1alpha1.ReasonKeyIdentityChanged, v1alpha1.ReasonSecretTerminating, v1alpha1.ReasonKeyMalformed, v1alpha1.ReasonKeyInUse,
		v1alpha1.ReasonDiskNearlyFull, v1alpha1.ReasonDataVolumeTerminating, v1alpha1.ReasonExpansionFailed,
	} {
		want := []scope.Event{{Warning: true, Reason: string(reason), Message: "how it is"}}
		if diff := cmp.Diff(want, told(reason)); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	}
}
