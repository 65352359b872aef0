package fleet

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// Event is something that happened to a fleet.
type Event struct {
	Warning bool
	Reason  string
	Message string
}

// Transitions are the events that tell of a change of the status. They follow from the
// change alone, so nothing is told twice.
func Transitions(before, after *v1alpha1.SeiNodeDeploymentStatus) []Event {
	var events []Event
	tell := func(warning bool, reason, format string, args ...any) {
		events = append(events, Event{Warning: warning, Reason: reason, Message: fmt.Sprintf(format, args...)})
	}
	is, was := find(after, v1alpha1.ConditionProgressing), find(before, v1alpha1.ConditionProgressing)
	switch {
	case before.UpdateRevision == "" || before.UpdateRevision == after.UpdateRevision:
	case was.Status == metav1.ConditionTrue || unfinished[v1alpha1.ConditionReason(was.Reason)]:
		tell(false, "RolloutSuperseded", "The template %s takes the place of %s, which has not reached all nodes.", after.UpdateRevision, before.UpdateRevision)
	default:
		tell(false, "RolloutStarted", "The template goes from %s to %s. %s", before.UpdateRevision, after.UpdateRevision, is.Message)
	}
	events = append(events, nodesUpdated(before, after)...)
	if is.Reason == string(v1alpha1.ReasonRolledOut) && (was.Status == metav1.ConditionTrue || unfinished[v1alpha1.ConditionReason(was.Reason)]) {
		tell(false, "RolloutFinished", "%s", is.Message)
	}
	if event := pauseChanged(before, after); event != nil {
		events = append(events, *event)
	}
	ready, readyBefore := find(after, v1alpha1.ConditionReady), find(before, v1alpha1.ConditionReady)
	if ready.Reason != readyBefore.Reason && told[v1alpha1.ConditionReason(ready.Reason)] {
		tell(ready.Status != metav1.ConditionTrue && ready.Reason != string(v1alpha1.ReasonPaused), ready.Reason, "%s", ready.Message)
	}
	return events
}

// nodesUpdated tells of each node that gets another template.
func nodesUpdated(before, after *v1alpha1.SeiNodeDeploymentStatus) []Event {
	had := map[string]string{}
	for _, node := range before.Nodes {
		had[node.Name] = node.Revision
	}
	var events []Event
	for _, node := range after.Nodes {
		if from := had[node.Name]; from != "" && node.Revision != "" && from != node.Revision {
			events = append(events, Event{Reason: "NodeUpdateStarted", Message: fmt.Sprintf("The node %s gets the template %s in place of %s.", node.Name, node.Revision, from)})
		}
	}
	return events
}

// pauseChanged tells of a rollout that is held, or goes on.
func pauseChanged(before, after *v1alpha1.SeiNodeDeploymentStatus) *Event {
	is, was := find(after, v1alpha1.ConditionRolloutPaused), find(before, v1alpha1.ConditionRolloutPaused)
	switch {
	case was.Reason == "" || is.Reason == was.Reason:
		return nil
	case is.Status == metav1.ConditionTrue:
		return &Event{Warning: is.Reason == string(v1alpha1.ReasonRolloutStopped), Reason: is.Reason, Message: is.Message}
	}
	return &Event{Reason: "RolloutResumed", Message: is.Message}
}

// unfinished are the reasons of Progressing of a rollout that stands still.
var unfinished = map[v1alpha1.ConditionReason]bool{
	v1alpha1.ReasonRolloutPaused: true, v1alpha1.ReasonRolloutStopped: true, v1alpha1.ReasonWaitsForDeletion: true,
}

// told are the reasons of Ready that no other event tells of.
var told = map[v1alpha1.ConditionReason]bool{
	v1alpha1.ReasonAllNodesReady: true, v1alpha1.ReasonForeignNode: true, v1alpha1.ReasonForeignObject: true,
	v1alpha1.ReasonAPIRefused: true, v1alpha1.ReasonPaused: true,
}

func find(status *v1alpha1.SeiNodeDeploymentStatus, kind v1alpha1.ConditionType) metav1.Condition {
	if c := meta.FindStatusCondition(status.Conditions, string(kind)); c != nil {
		return *c
	}
	return metav1.Condition{}
}
