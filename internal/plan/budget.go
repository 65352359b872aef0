package plan

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/render"
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
	if render.Edited(in.Node.Status.AdmittedSpecHash, in.Want.SpecHash) {
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
	return reason != "" && reason != v1alpha1.ReasonPodUnreachable || hasOtherKeys(in)
}

// MayWait tells whether an update has to wait for others. Only what the operator itself
// caused has to, and the node that failed is always let in: how else would it be put right.
func MayWait(in Input, slot *v1alpha1.UpdateSlot) bool {
	return slot != nil && slot.Cause == v1alpha1.UpdateCauseOperator && in.Node.Status.Slot == nil
}

// Admit decides whether an update may start now, given why it is needed and who else of
// the chain takes a place.
func Admit(in Input, slot *v1alpha1.UpdateSlot, why string, others []Neighbour, maxConcurrent int) *Gate {
	if !MayWait(in, slot) {
		return nil
	}
	for _, other := range others {
		if other.Failed {
			return &Gate{
				Reason: v1alpha1.ReasonWaitingForBudget,
				Message: fmt.Sprintf("%s Waits, because the same update failed on node %s: %s. It goes on when that node is ready, when it is asked to try again by the annotation %s, or with another version.",
					why, other.Name, other.Message, v1alpha1.AnnotationRetry),
			}
		}
	}
	if len(others) >= maxConcurrent {
		return &Gate{
			Reason: v1alpha1.ReasonWaitingForBudget,
			// No name of another node is in it: that would be a write for each that comes first.
			Message: fmt.Sprintf("%s Waits for its turn; at most %d of this chain are updated at once.", why, maxConcurrent),
		}
	}
	return nil
}

// configSettles is how long after a restart in place it takes until the kubelet would
// have noticed that seid does not come back.
const configSettles = 40 * time.Second

// SlotEnds tells whether a node no longer takes a place in the budget: it is done,
// or it stands still by somebody's decision. Otherwise it tells when to look again
// because of the time alone.
func SlotEnds(node *v1alpha1.SeiNode, now time.Time, conditions func(v1alpha1.ConditionType) metav1.ConditionStatus) (ends bool, wait time.Duration) {
	is := func(kind v1alpha1.ConditionType) bool { return conditions(kind) == metav1.ConditionTrue }
	last := node.Status.LastPlan
	switch {
	case node.DeletionTimestamp != nil, is(v1alpha1.ConditionPaused):
		return true, 0
	case node.Status.Plan != nil:
		return false, 0
	case is(v1alpha1.ConditionHeld), is(v1alpha1.ConditionUpgradeHalted):
		return true, 0
	case !is(v1alpha1.ConditionReady):
		return false, 0
	case last != nil && last.Type == v1alpha1.PlanConfigUpdate:
		wait = max(0, last.CompletionTime.Add(configSettles).Sub(now))
	}
	return wait == 0, wait
}

// Freezes tells whether a neighbour's failed update keeps others from the same. The
// hashes are what the neighbour wants now: when that is something else, the freeze is
// over. It is not when somebody pauses or holds the neighbour to look into it.
func Freezes(node *v1alpha1.SeiNode, templateHash, configHash string) bool {
	last := node.Status.LastPlan
	return last != nil && last.Outcome == v1alpha1.PlanOutcomeFailed && last.Slot != nil && last.Slot.Cause == v1alpha1.UpdateCauseOperator &&
		(last.Slot.TemplateHash == templateHash || last.Slot.TemplateHash == configHash) && retryValue(node) == last.Retry &&
		!meta.IsStatusConditionTrue(node.Status.Conditions, string(v1alpha1.ConditionReady))
}
