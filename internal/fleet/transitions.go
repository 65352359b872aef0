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
	for _, told := range []func(before, after *v1alpha1.SeiNodeDeploymentStatus) []Event{
		templateChanged, nodesUpdated, rolloutFinished, rolloutHeld, readyChanged,
	} {
		events = append(events, told(before, after)...)
	}
	return events
}

func tell(warning bool, reason, format string, args ...any) []Event {
	return []Event{{Warning: warning, Reason: reason, Message: fmt.Sprintf(format, args...)}}
}

// underWay tells whether a rollout was not at its end.
func underWay(status *v1alpha1.SeiNodeDeploymentStatus) bool {
	c := find(status, v1alpha1.ConditionProgressing)
	return c.Status == metav1.ConditionTrue || unfinished[v1alpha1.ConditionReason(c.Reason)]
}

func templateChanged(before, after *v1alpha1.SeiNodeDeploymentStatus) []Event {
	from, to := before.UpdateRevision, after.UpdateRevision
	switch {
	case from == "" || from == to:
		return nil
	case underWay(before):
		return tell(false, "RolloutSuperseded", "The template %s takes the place of %s, which has not reached all nodes.", to, from)
	}
	return tell(false, "RolloutStarted", "The template goes from %s to %s. %s", from, to, find(after, v1alpha1.ConditionProgressing).Message)
}

func nodesUpdated(before, after *v1alpha1.SeiNodeDeploymentStatus) []Event {
	had := map[string]string{}
	for _, node := range before.Nodes {
		had[node.Name] = node.Revision
	}
	var events []Event
	for _, node := range after.Nodes {
		if from := had[node.Name]; from != "" && node.Revision != "" && from != node.Revision {
			events = append(events, tell(false, "NodeUpdateStarted", "The node %s gets the template %s in place of %s.", node.Name, node.Revision, from)...)
		}
	}
	return events
}

func rolloutFinished(before, after *v1alpha1.SeiNodeDeploymentStatus) []Event {
	if is := find(after, v1alpha1.ConditionProgressing); is.Reason == string(v1alpha1.ReasonRolledOut) && underWay(before) {
		return tell(false, "RolloutFinished", "%s", is.Message)
	}
	return nil
}

func rolloutHeld(before, after *v1alpha1.SeiNodeDeploymentStatus) []Event {
	is, was := find(after, v1alpha1.ConditionRolloutPaused), find(before, v1alpha1.ConditionRolloutPaused)
	switch {
	case was.Reason == "" || is.Reason == was.Reason:
		return nil
	case is.Status == metav1.ConditionTrue:
		return tell(is.Reason == string(v1alpha1.ReasonRolloutStopped), is.Reason, "%s", is.Message)
	}
	return tell(false, "RolloutResumed", "%s", is.Message)
}

func readyChanged(before, after *v1alpha1.SeiNodeDeploymentStatus) []Event {
	is, was := find(after, v1alpha1.ConditionReady), find(before, v1alpha1.ConditionReady)
	if is.Reason == was.Reason || !told[v1alpha1.ConditionReason(is.Reason)] {
		return nil
	}
	return tell(is.Status != metav1.ConditionTrue && is.Reason != string(v1alpha1.ReasonPaused), is.Reason, "%s", is.Message)
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
