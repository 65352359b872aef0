package status

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/scope"
)

// Transitions are the events that tell of a change of the status. They follow from
// the change alone, so nothing is told twice.
func Transitions(before, after *v1alpha1.SeiNodeStatus) []scope.Event {
	var events []scope.Event
	for _, found := range []*scope.Event{
		planEnded(before, after), planStarted(before, after), tracked(before, after), updateWaits(before, after), readyChanged(before, after),
		fellIntoTrouble(before, after, v1alpha1.ConditionSigningKeyReady), fellIntoTrouble(before, after, v1alpha1.ConditionNodeKeyReady),
		fellIntoTrouble(before, after, v1alpha1.ConditionDataVolumeReady), problemCame(before, after),
	} {
		if found != nil {
			events = append(events, *found)
		}
	}
	return events
}

func told(warning bool, reason, format string, args ...any) *scope.Event {
	return &scope.Event{Warning: warning, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func planEnded(before, after *v1alpha1.SeiNodeStatus) *scope.Event {
	last, earlier := after.LastPlan, before.LastPlan
	if last == nil || earlier != nil && last.CompletionTime.Equal(&earlier.CompletionTime) && last.Outcome == earlier.Outcome {
		return nil
	}
	return told(last.Outcome == v1alpha1.PlanOutcomeFailed, "Plan"+string(last.Outcome), "%s: %s", last.Type, last.Message)
}

func planStarted(before, after *v1alpha1.SeiNodeStatus) *scope.Event {
	if after.Plan == nil || before.Plan != nil && before.Plan.ID == after.Plan.ID {
		return nil
	}
	return told(false, "PlanStarted", "%s: %s", after.Plan.Type, after.Plan.Message)
}

// tracked tells of a StatefulSet that came back. That the first one is there goes
// without saying.
func tracked(before, after *v1alpha1.SeiNodeStatus) *scope.Event {
	if before.StatefulSet != nil || after.StatefulSet == nil || before.Phase != v1alpha1.PhaseRunning {
		return nil
	}
	return told(false, "StatefulSetTracked", "The StatefulSet %s (uid %s) is the node's.", after.StatefulSet.Name, after.StatefulSet.UID)
}

// needsPerson are the reasons for which an update waits until a person does something.
var needsPerson = map[v1alpha1.ConditionReason]bool{
	v1alpha1.ReasonForeignTemplate: true, v1alpha1.ReasonAccessNotGranted: true, v1alpha1.ReasonAuthorityInvalid: true,
	v1alpha1.ReasonForeignObject: true, v1alpha1.ReasonSecretNotFound: true, v1alpha1.ReasonSecretTerminating: true,
}

// updateWaits tells of an update that has to wait for other nodes, of another reason to
// wait (the same update failed elsewhere), and of what would reach the node without one.
func updateWaits(before, after *v1alpha1.SeiNodeStatus) *scope.Event {
	kind := string(v1alpha1.ConditionNodeUpdateInProgress)
	waits, was := meta.FindStatusCondition(after.Conditions, kind), meta.FindStatusCondition(before.Conditions, kind)
	if waits == nil {
		return nil
	}
	forPerson := needsPerson[v1alpha1.ConditionReason(waits.Reason)]
	if !forPerson && waits.Reason != string(v1alpha1.ReasonWaitingForBudget) {
		return nil
	}
	if was != nil && was.Reason == waits.Reason && (forPerson || was.Message == waits.Message) {
		return nil
	}
	return told(forPerson, waits.Reason, "%s", waits.Message)
}

func readyChanged(before, after *v1alpha1.SeiNodeStatus) *scope.Event {
	ready := meta.FindStatusCondition(after.Conditions, string(v1alpha1.ConditionReady))
	was := meta.FindStatusCondition(before.Conditions, string(v1alpha1.ConditionReady))
	switch {
	case ready == nil, was != nil && was.Status == ready.Status && was.Reason == ready.Reason:
		return nil
	case ready.Reason == string(v1alpha1.ReasonNetworkStalled):
		return told(true, ready.Reason, "%s", ready.Message)
	case ready.Status == metav1.ConditionTrue:
		return told(false, "Ready", "%s", ready.Message)
	case quiet[v1alpha1.ConditionReason(ready.Reason)]:
		return nil // the plan's own events say so, or it passes by itself within moments
	}
	stalled := meta.IsStatusConditionTrue(after.Conditions, string(v1alpha1.ConditionStalled))
	return told(stalled || troubles[v1alpha1.ConditionReason(ready.Reason)], ready.Reason, "%s", ready.Message)
}

// fellIntoTrouble tells of a key or a volume that is in trouble while the node runs on.
// What keeps it from running is told with Ready.
func fellIntoTrouble(before, after *v1alpha1.SeiNodeStatus, kind v1alpha1.ConditionType) *scope.Event {
	was, is := meta.FindStatusCondition(before.Conditions, string(kind)), meta.FindStatusCondition(after.Conditions, string(kind))
	ready := meta.FindStatusCondition(after.Conditions, string(v1alpha1.ConditionReady))
	if is == nil || ready == nil || is.Status != metav1.ConditionFalse || was == nil || was.Reason == is.Reason || is.Reason == ready.Reason || !troubles[v1alpha1.ConditionReason(is.Reason)] {
		return nil
	}
	return told(true, is.Reason, "%s", is.Message)
}

// quiet are reasons of Ready that need no event of their own.
var quiet = map[v1alpha1.ConditionReason]bool{
	v1alpha1.ReasonBootstrapping: true, v1alpha1.ReasonUpdating: true, v1alpha1.ReasonPlanFailed: true,
	v1alpha1.ReasonPodNotReady: true, v1alpha1.ReasonCatchingUp: true, v1alpha1.ReasonNotApproved: true,
	v1alpha1.ReasonNoBlocks: true,
}

// troubles are reasons that are worth a warning.
var troubles = map[v1alpha1.ConditionReason]bool{
	v1alpha1.ReasonImagePullBackOff: true, v1alpha1.ReasonCrashLoopBackOff: true, v1alpha1.ReasonOOMKilled: true,
	v1alpha1.ReasonUnschedulable: true, v1alpha1.ReasonPodUnreachable: true, v1alpha1.ReasonUpgradeHalted: true,
	v1alpha1.ReasonVolumeInUse: true, v1alpha1.ReasonSecretNotFound: true, v1alpha1.ReasonKeyIdentityChanged: true,
	v1alpha1.ReasonSecretTerminating: true, v1alpha1.ReasonKeyMalformed: true, v1alpha1.ReasonKeyInUse: true,
	v1alpha1.ReasonDiskNearlyFull: true, v1alpha1.ReasonDataVolumeTerminating: true, v1alpha1.ReasonExpansionFailed: true,
	v1alpha1.ReasonNoPeers: true, v1alpha1.ReasonNoSnapshotFound: true, v1alpha1.ReasonBlockTooOld: true,
}
