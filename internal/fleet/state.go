package fleet

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/render"
)

// broken are the reasons for which a node does not work until something is done about it.
// One that merely lags is none of them: when the network stumbles all nodes lag at once,
// and that must not be taken for the leave to restart them all.
var broken = map[v1alpha1.ConditionReason]bool{
	v1alpha1.ReasonImagePullBackOff: true, v1alpha1.ReasonCrashLoopBackOff: true, v1alpha1.ReasonOOMKilled: true,
	v1alpha1.ReasonUnschedulable: true, v1alpha1.ReasonUpgradeHalted: true, v1alpha1.ReasonVolumeRuined: true,
	v1alpha1.ReasonPlanFailed: true, v1alpha1.ReasonInvalidSpec: true, v1alpha1.ReasonKeyIdentityChanged: true,
}

// stateOf is how it stands with a node, and how long it takes until it has been ready for
// long enough. What its status says counts only if it is about the node as it now is, and
// if the pod that is there does not tell otherwise: after a restart of the operator, or
// while another node has its attention, a status may be old.
func (v *View) stateOf(node *v1alpha1.SeiNode, pod *corev1.Pod) (v1alpha1.FleetNodeState, time.Duration) {
	ready := meta.FindStatusCondition(node.Status.Conditions, string(v1alpha1.ConditionReady))
	switch {
	case node.DeletionTimestamp != nil:
		return v1alpha1.FleetNodeTerminating, 0
	case node.Spec.Paused && (!stopped(node) || pod != nil):
		return v1alpha1.FleetNodeStopping, 0
	case node.Spec.Paused:
		return v1alpha1.FleetNodePaused, 0
	case !observed(node, ready):
		return v1alpha1.FleetNodeUnknown, 0
	case meta.IsStatusConditionTrue(node.Status.Conditions, string(v1alpha1.ConditionHeld)):
		return v1alpha1.FleetNodeHeld, 0
	case ready.Status == metav1.ConditionTrue:
		return v.readyState(node, pod, ready.LastTransitionTime.Time)
	case ready.Status != metav1.ConditionFalse, ready.Reason == string(v1alpha1.ReasonPodUnreachable):
		return v1alpha1.FleetNodeUnknown, 0
	case !plan.PodReady(pod) && (broken[v1alpha1.ConditionReason(ready.Reason)] || stalled(node)):
		return v1alpha1.FleetNodeBroken, 0
	case busy(node):
		return v1alpha1.FleetNodeUpdating, 0
	}
	return v1alpha1.FleetNodeNotReady, 0
}

// observed tells whether the status of a node is about its spec as it now is.
func observed(node *v1alpha1.SeiNode, ready *metav1.Condition) bool {
	return ready != nil && ready.ObservedGeneration == node.Generation && node.Status.ObservedGeneration == node.Generation
}

// stopped tells whether a node that is paused says that it is stopped. Until then it may
// still serve, and go on serving when somebody ends the pause.
func stopped(node *v1alpha1.SeiNode) bool {
	c := meta.FindStatusCondition(node.Status.Conditions, string(v1alpha1.ConditionPaused))
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == node.Generation
}

func stalled(node *v1alpha1.SeiNode) bool {
	return meta.IsStatusConditionTrue(node.Status.Conditions, string(v1alpha1.ConditionStalled))
}

func (v *View) readyState(node *v1alpha1.SeiNode, pod *corev1.Pod, since time.Time) (v1alpha1.FleetNodeState, time.Duration) {
	if !plan.PodReady(pod) {
		return v1alpha1.FleetNodeUnknown, 0
	}
	if busy(node) {
		return v1alpha1.FleetNodeUpdating, 0
	}
	need := time.Duration(v.Fleet.Spec.MinReadySeconds) * time.Second
	// Another clock may have written it, and be ahead.
	if left := min(need, since.Add(need).Sub(v.Now)); left > 0 {
		return v1alpha1.FleetNodeSettling, left
	}
	return v1alpha1.FleetNodeAvailable, 0
}

// busy tells whether a node is at work on itself, or has work to do that its spec asks for.
func busy(node *v1alpha1.SeiNode) bool {
	if node.Status.Plan != nil || node.Status.Slot != nil {
		return true
	}
	now, err := render.SpecHash(node.Spec)
	return err != nil || render.Edited(node.Status.AdmittedSpecHash, now)
}

// through tells whether a node is through with the template it has. One that stands still
// by somebody's decision need not be ready.
func through(m member) bool {
	switch m.state {
	case v1alpha1.FleetNodeAvailable, v1alpha1.FleetNodePaused:
		return true
	case v1alpha1.FleetNodeHeld:
		return !busy(m.node)
	default:
		return false
	}
}

// failure says why the update of a node failed; empty: it did not, as far as one can tell.
// What is wrong with the pod counts only when it is the new one: the old one may be what
// the update puts right.
func failure(m member) string {
	ready := meta.FindStatusCondition(m.node.Status.Conditions, string(v1alpha1.ConditionReady))
	if ready == nil || ready.Status != metav1.ConditionFalse || !observed(m.node, ready) || m.node.Spec.Paused {
		return ""
	}
	failed := ready.Reason == string(v1alpha1.ReasonPlanFailed) ||
		m.state == v1alpha1.FleetNodeBroken && reachedPod(m.node.Status.Plan)
	if !failed {
		return ""
	}
	return fmt.Sprintf("%s: %s", ready.Reason, ready.Message)
}

// reachedPod tells whether a plan has come so far that seid runs, or should run, as the
// plan wants it.
func reachedPod(p *v1alpha1.Plan) bool {
	if p == nil {
		return true
	}
	for i := range p.Tasks {
		if kind := p.Tasks[i].Type; kind == plan.TaskReplacePod || kind == plan.TaskRestartSeid {
			return p.Tasks[i].Status == v1alpha1.PlanTaskComplete
		}
	}
	return false
}
