package fleet

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/render"
)

// maxNodes is how many nodes a status tells of. There may be more only while a large fleet
// is scaled down.
const maxNodes = 256

// Status is the fleet as it is seen now. Trouble is what the API server refused, or what
// belongs to someone else.
func (v *View) Status(d Decision, trouble []plan.Gate) v1alpha1.SeiNodeDeploymentStatus {
	before := v.Fleet.Status
	status := v1alpha1.SeiNodeDeploymentStatus{
		Conditions:         slices.Clone(before.Conditions),
		ObservedGeneration: v.Fleet.Generation,
		UpdateRevision:     v.Revision,
		Selector:           labels.SelectorFromSet(render.FleetLabels(v.Fleet)).String(),
		Endpoint:           render.FleetEndpoint(v.Fleet),
	}
	for i := range v.members {
		m := &v.members[i]
		if m.foreign == "" {
			v.tally(&status, m)
		}
		if (m.foreign == "" || m.ordinal < Replicas(v.Fleet)) && len(status.Nodes) < maxNodes {
			status.Nodes = append(status.Nodes, summary(m))
		}
	}
	status.CurrentRevision = v.currentRevision()
	for _, c := range v.conditions(&status, d, trouble) {
		c.ObservedGeneration, c.LastTransitionTime = v.Fleet.Generation, metav1.NewTime(v.Now)
		meta.SetStatusCondition(&status.Conditions, c)
	}
	return status
}

// tally counts a node of the fleet.
func (v *View) tally(status *v1alpha1.SeiNodeDeploymentStatus, m *member) {
	if m.state == v1alpha1.FleetNodeTerminating {
		return
	}
	status.Replicas++
	if m.ordinal >= Replicas(v.Fleet) {
		return
	}
	if plan.PodReady(m.pod) && meta.IsStatusConditionTrue(m.node.Status.Conditions, string(v1alpha1.ConditionReady)) {
		status.ReadyReplicas++
	}
	if m.state == v1alpha1.FleetNodeAvailable {
		status.AvailableReplicas++
	}
	if m.done {
		status.UpdatedReplicas++
	}
}

func summary(m *member) v1alpha1.FleetNode {
	node := v1alpha1.FleetNode{Name: m.node.Name, State: m.state}
	if m.foreign != "" {
		return node
	}
	node.Revision, node.Endpoint = m.revision, m.node.Status.Endpoint.DeepCopy()
	if ready := meta.FindStatusCondition(m.node.Status.Conditions, string(v1alpha1.ConditionReady)); ready != nil && ready.Status != metav1.ConditionTrue {
		node.Reason = ready.Reason
	}
	return node
}

// currentRevision identifies the template that the fleet last had as a whole.
func (v *View) currentRevision() string {
	before, nodes := v.Fleet.Status.CurrentRevision, v.wanted()
	if len(nodes) == Replicas(v.Fleet) && !slices.ContainsFunc(nodes, func(m *member) bool { return !m.done }) {
		return v.Revision
	}
	if before != "" {
		return before
	}
	// The status was emptied, or the nodes were there before the fleet. A rollout goes from
	// the highest ordinal down, so the lowest has what they all had.
	for _, m := range nodes {
		if m.foreign == "" && m.revision != "" {
			return m.revision
		}
	}
	return v.Revision
}

// rolling tells whether a changed template is on its way to the nodes.
func (v *View) rolling() bool {
	if v.anyBehind() {
		return true
	}
	was := meta.IsStatusConditionTrue(v.Fleet.Status.Conditions, string(v1alpha1.ConditionProgressing))
	changed := v.currentRevision() != v.Revision
	return (was || changed) && slices.ContainsFunc(v.wanted(), func(m *member) bool {
		return !m.behind && !m.done && m.foreign == "" && m.ordinal >= v.partition()
	})
}

// conditions are all conditions, in the order of v1alpha1.SeiNodeDeploymentConditions.
func (v *View) conditions(status *v1alpha1.SeiNodeDeploymentStatus, d Decision, trouble []plan.Gate) []metav1.Condition {
	ready := v.ready(status, d, trouble)
	return []metav1.Condition{
		condition(v1alpha1.ConditionReady, ready.Reason == v1alpha1.ReasonAllNodesReady, ready.Reason, ready.Message),
		v.reconciling(ready), stalledCondition(ready), v.progressing(status, d), v.rolloutPaused(), v.paused(),
	}
}

func condition(kind v1alpha1.ConditionType, yes bool, reason v1alpha1.ConditionReason, message string) metav1.Condition {
	status := metav1.ConditionFalse
	if yes {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: string(kind), Status: status, Reason: string(reason), Message: message}
}

// ready sums the fleet up. What a person has to do comes before what passes by itself.
func (v *View) ready(status *v1alpha1.SeiNodeDeploymentStatus, d Decision, trouble []plan.Gate) plan.Gate {
	hold, behind := v.hold(), v.anyBehind()
	foreigner := slices.IndexFunc(v.wanted(), func(m *member) bool { return m.foreign != "" })
	switch {
	case v.Fleet.DeletionTimestamp != nil:
		return plan.Gate{Reason: v1alpha1.ReasonTerminating, Message: v.terminating()}
	case foreigner >= 0:
		m := v.wanted()[foreigner]
		return plan.Gate{
			Reason: v1alpha1.ReasonForeignNode, Stalled: true,
			Message: fmt.Sprintf("The SeiNode %s is not touched: %s.", m.node.Name, m.foreign),
		}
	case len(trouble) > 0:
		return trouble[0]
	case v.Fleet.Spec.Paused:
		return plan.Gate{Reason: v1alpha1.ReasonPaused, Message: "The fleet is paused: set spec.paused to false to start its nodes."}
	case behind && hold.reason == v1alpha1.ReasonRolloutStopped:
		return plan.Gate{Reason: hold.reason, Message: hold.message, Stalled: true}
	case behind && hold.reason == v1alpha1.ReasonRolloutPaused:
		return plan.Gate{Reason: hold.reason, Message: hold.message}
	case hold.reason == "" && v.rolling():
		return plan.Gate{Reason: v1alpha1.ReasonRollingOut, Message: v.rolloutMessage(status, d)}
	case int(status.AvailableReplicas) < Replicas(v.Fleet):
		return plan.Gate{Reason: v1alpha1.ReasonNodesNotReady, Message: fmt.Sprintf("%d of %d nodes are ready.%s", status.AvailableReplicas, Replicas(v.Fleet), v.notReady())}
	}
	return plan.Gate{Reason: v1alpha1.ReasonAllNodesReady, Message: fmt.Sprintf("All %d nodes are ready.", Replicas(v.Fleet))}
}

func (v *View) terminating() string {
	if Retains(v.Fleet) {
		return "The fleet is being deleted; its nodes are let go untouched."
	}
	return fmt.Sprintf("The fleet is being deleted with its nodes; %d are left.", len(v.Ours()))
}

// maxNames is how many nodes a message names.
const maxNames = 5

// named are the names of nodes, or of the first of them, with something about each.
func named(nodes []*member, about func(*member) string) string {
	var names []string
	for _, m := range nodes {
		names = append(names, m.node.Name+about(m))
	}
	if more := len(names) - maxNames; more > 0 {
		names = append(names[:maxNames], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

func reasonOf(m *member) string { return " (" + string(m.state) + ")" }

// notReady names the nodes that keep the fleet from being ready.
func (v *View) notReady() string {
	nodes := slices.DeleteFunc(v.wanted(), func(m *member) bool { return m.state == v1alpha1.FleetNodeAvailable })
	if len(nodes) == 0 {
		return ""
	}
	return " Not: " + named(nodes, reasonOf) + "."
}

func (v *View) rolloutMessage(status *v1alpha1.SeiNodeDeploymentStatus, d Decision) string {
	message := fmt.Sprintf("The template %s goes to the nodes: %d of %d are done.", v.Revision, status.UpdatedReplicas, Replicas(v.Fleet))
	updating := slices.DeleteFunc(v.wanted(), func(m *member) bool { return m.behind || m.done || m.foreign != "" })
	if len(updating) > 0 {
		message += " At work: " + named(updating, reasonOf) + "."
	}
	for _, m := range slices.Backward(v.wanted()) {
		if why := d.Waits[m.ordinal]; why != "" {
			return message + fmt.Sprintf(" The next waits: %s.", why)
		}
	}
	return message
}

func (v *View) reconciling(ready plan.Gate) metav1.Condition {
	kind := v1alpha1.ConditionReconciling
	switch {
	case ready.Stalled:
		return condition(kind, false, ready.Reason, "The operator cannot go on by itself.")
	case ready.Reason == v1alpha1.ReasonAllNodesReady:
		return condition(kind, false, v1alpha1.ReasonSettled, "Nothing is under way.")
	case ready.Reason == v1alpha1.ReasonRolloutPaused:
		return condition(kind, false, ready.Reason, "The rollout is paused.")
	case ready.Reason == v1alpha1.ReasonPaused:
		return condition(kind, !v.stopped(), ready.Reason, "The fleet is paused.")
	}
	return condition(kind, true, ready.Reason, "The fleet is on its way to being ready.")
}

func stalledCondition(ready plan.Gate) metav1.Condition {
	if ready.Stalled {
		return condition(v1alpha1.ConditionStalled, true, ready.Reason, ready.Message)
	}
	return condition(v1alpha1.ConditionStalled, false, v1alpha1.ReasonSettled, "Nothing stands in the way that needs a person.")
}

func (v *View) progressing(status *v1alpha1.SeiNodeDeploymentStatus, d Decision) metav1.Condition {
	kind, hold := v1alpha1.ConditionProgressing, v.hold()
	switch {
	case hold.reason != "" && v.anyBehind():
		return condition(kind, false, hold.reason, hold.message)
	case v.rolling():
		return condition(kind, true, v1alpha1.ReasonRollingOut, v.rolloutMessage(status, d))
	}
	held := slices.DeleteFunc(v.wanted(), func(m *member) bool { return !m.behind || m.foreign != "" })
	if len(held) > 0 {
		return condition(kind, false, v1alpha1.ReasonRolledOut, fmt.Sprintf("Every node from ordinal %d on has the template %s; partition holds %d back.", v.partition(), v.Revision, len(held)))
	}
	return condition(kind, false, v1alpha1.ReasonRolledOut, fmt.Sprintf("Every node has the template %s.", v.Revision))
}

func (v *View) rolloutPaused() metav1.Condition {
	kind, hold := v1alpha1.ConditionRolloutPaused, v.hold()
	if hold.reason == v1alpha1.ReasonRolloutPaused || hold.reason == v1alpha1.ReasonRolloutStopped {
		return condition(kind, true, hold.reason, hold.message)
	}
	return condition(kind, false, v1alpha1.ReasonRolloutRunning, "Nothing holds a rollout.")
}

// stopped tells whether the pods of all nodes are gone.
func (v *View) stopped() bool {
	return !slices.ContainsFunc(v.wanted(), func(m *member) bool { return m.foreign == "" && !isStopped(m) })
}

func isStopped(m *member) bool { return m.state == v1alpha1.FleetNodePaused }

func (v *View) paused() metav1.Condition {
	kind := v1alpha1.ConditionPaused
	switch {
	case !v.Fleet.Spec.Paused:
		return condition(kind, false, v1alpha1.ReasonNotPaused, "The fleet is not paused.")
	case !v.stopped():
		left := slices.DeleteFunc(v.wanted(), isStopped)
		return condition(kind, false, v1alpha1.ReasonStopping, "Still stopping: "+named(left, func(*member) string { return "" })+".")
	}
	return condition(kind, true, v1alpha1.ReasonPaused, "The pods of all nodes are gone.")
}

// Retains tells whether the nodes stay when the fleet is deleted: its policy says so, or
// who deleted it did.
func Retains(fleet *v1alpha1.SeiNodeDeployment) bool {
	return fleet.Spec.DeletionPolicy != v1alpha1.DeletionPolicyDelete || slices.Contains(fleet.Finalizers, metav1.FinalizerOrphanDependents)
}
