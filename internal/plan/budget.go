package plan

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// Neighbour is another node of the chain that takes a place in the update budget.
type Neighbour struct {
	Name string
	// Failed: its update failed, and it still wants what it failed to become.
	Failed  bool
	Message string
}

// Cause is why a node drifted. An edit of its own spec is a person's decision. What
// else may change the render, a new operator or another platform setting, hits a
// whole fleet at once.
func Cause(in Input) v1alpha1.UpdateCause {
	if in.Node.Status.AdmittedSpecHash != in.Want.SpecHash {
		return v1alpha1.UpdateCauseEdit
	}
	return v1alpha1.UpdateCauseOperator
}

// Slot is the place in the budget that an update takes; nil: none. A node whose pod
// is broken takes none: it serves nobody, so updating it costs nothing, and may be
// what puts it right.
func Slot(in Input, p *v1alpha1.Plan) *v1alpha1.UpdateSlot {
	if p.Type != v1alpha1.PlanNodeUpdate && p.Type != v1alpha1.PlanConfigUpdate {
		return nil
	}
	if broken(in) && in.Node.Status.Slot == nil {
		return nil
	}
	target := in.Want.TemplateHash
	if p.Type == v1alpha1.PlanConfigUpdate {
		target = in.Want.ConfigHash
	}
	if held := in.Node.Status.Slot; held != nil && held.TemplateHash == target {
		return held // another try at the same has the cause of the first
	}
	return &v1alpha1.UpdateSlot{Cause: Cause(in), TemplateHash: target}
}

// RecreateSlot is the place in the budget that a node takes whose StatefulSet is gone
// and comes back with another template; nil: it comes back as it was, or has a place
// already. It does not wait for one: without a StatefulSet there is no node at all.
func RecreateSlot(in Input) *v1alpha1.UpdateSlot {
	had := in.Node.Status.PodTemplateHash
	if in.Node.Status.Slot != nil || had == "" || in.RenderProblem != "" || had == in.Want.TemplateHash {
		return in.Node.Status.Slot
	}
	return &v1alpha1.UpdateSlot{Cause: v1alpha1.UpdateCauseRecreate, TemplateHash: in.Want.TemplateHash}
}

// broken tells whether the pod is known not to work. A pod on a Kubernetes node that
// does not answer is not known to be broken.
func broken(in Input) bool {
	reason, _ := PodTrouble(in.Seen.Pod, in.Seen.Now)
	return reason != "" && reason != v1alpha1.ReasonPodUnreachable
}

// Admit decides whether an update may start now, given who else of the chain takes a
// place. Only what the operator itself caused has to wait.
func Admit(in Input, slot *v1alpha1.UpdateSlot, others []Neighbour, maxConcurrent int) *Gate {
	if slot == nil || slot.Cause != v1alpha1.UpdateCauseOperator || in.Node.Status.Slot != nil {
		// The node that failed is always let in: how else would it be put right.
		return nil
	}
	for _, other := range others {
		if other.Failed {
			return &Gate{
				Reason: v1alpha1.ReasonWaitingForBudget,
				Message: fmt.Sprintf("The same update failed on node %s, so it goes no further: %s. It goes on when that node is ready, when it is asked to try again by the annotation %s, or with another version.",
					other.Name, other.Message, v1alpha1.AnnotationRetry),
			}
		}
	}
	if len(others) >= maxConcurrent {
		return &Gate{
			Reason:  v1alpha1.ReasonWaitingForBudget,
			Message: fmt.Sprintf("Waits until node %s is updated; at most %d of this chain are updated at once.", others[0].Name, maxConcurrent),
		}
	}
	return nil
}

// SlotEnds tells whether a node no longer takes a place in the budget: it is done,
// or it stands still by somebody's decision.
func SlotEnds(node *v1alpha1.SeiNode, conditions func(v1alpha1.ConditionType) metav1.ConditionStatus) bool {
	switch {
	case node.Status.Plan != nil:
		return false
	case node.DeletionTimestamp != nil, conditions(v1alpha1.ConditionReady) == metav1.ConditionTrue:
		return true
	}
	for _, stands := range []v1alpha1.ConditionType{v1alpha1.ConditionHeld, v1alpha1.ConditionPaused, v1alpha1.ConditionUpgradeHalted} {
		if conditions(stands) == metav1.ConditionTrue {
			return true
		}
	}
	return false
}

// Freezes tells whether a neighbour's failed update keeps others from the same. Want
// is what the neighbour wants now: when that is something else, the freeze is over.
func Freezes(node *v1alpha1.SeiNode, templateHash, configHash string) bool {
	slot, last := node.Status.Slot, node.Status.LastPlan
	return slot != nil && slot.Cause == v1alpha1.UpdateCauseOperator && last != nil && last.Outcome == v1alpha1.PlanOutcomeFailed &&
		(slot.TemplateHash == templateHash || slot.TemplateHash == configHash) && retryValue(node) == last.Retry
}
