package plan

import (
	"fmt"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// Action is what to do about the StatefulSet.
type Action string

// The actions. There is one function for the whole life of the StatefulSet, and the
// assertion in every reconcile and the tasks of plans both go by it.
const (
	// Create: there is none, and one may be made.
	Create Action = "Create"
	// HoldCreation: there is none, and none may be made yet.
	HoldCreation Action = "HoldCreation"
	// Forget: the one we track is gone. Its reference is cleared and persisted before
	// another is made, so that a crash in between does not make our own fresh object
	// an impostor.
	Forget Action = "Forget"
	// Adopt: there is one that we do not track, and it is ours to take.
	Adopt Action = "Adopt"
	// Assert: there is the one that we track.
	Assert Action = "Assert"
	// ReplaceImpostor: there is one in the place of the one we track. It is deleted
	// and its reference cleared; another is made in a later reconcile.
	ReplaceImpostor Action = "ReplaceImpostor"
	// LeaveForeign: there is one that belongs to someone else.
	LeaveForeign Action = "LeaveForeign"
	// AwaitDeletion: there is one, and it is being deleted.
	AwaitDeletion Action = "AwaitDeletion"
)

// StatefulSetStep is what to do about the StatefulSet, and why.
type StatefulSetStep struct {
	Action  Action
	Message string
	// Gate is what holds it, with HoldCreation and LeaveForeign.
	Gate *Gate
}

// StatefulSet decides what to do about the StatefulSet.
func StatefulSet(in Input) StatefulSetStep {
	live, tracked := in.Seen.StatefulSet, in.Node.Status.StatefulSet
	switch {
	case live == nil && tracked != nil:
		return StatefulSetStep{Action: Forget, Message: fmt.Sprintf("The StatefulSet %s (uid %s) is gone.", tracked.Name, tracked.UID)}
	case live == nil:
		return createStep(in)
	}
	if gate := foreignStatefulSet(in.Node, live); gate != nil {
		return StatefulSetStep{Action: LeaveForeign, Message: gate.Message, Gate: gate}
	}
	switch {
	case live.DeletionTimestamp != nil:
		return StatefulSetStep{Action: AwaitDeletion, Message: fmt.Sprintf("The StatefulSet %s is being deleted; it is made anew when it is gone.", live.Name)}
	case tracked == nil:
		return StatefulSetStep{Action: Adopt, Message: fmt.Sprintf("The StatefulSet %s (uid %s) is taken over.", live.Name, live.UID)}
	case tracked.UID != live.UID:
		return StatefulSetStep{Action: ReplaceImpostor, Message: fmt.Sprintf("The StatefulSet %s has the uid %s and is not the one with the uid %s that the operator made.", live.Name, live.UID, tracked.UID)}
	}
	return StatefulSetStep{Action: Assert, Message: fmt.Sprintf("The StatefulSet %s is there.", live.Name)}
}

// createStep decides whether a StatefulSet may be made.
func createStep(in Input) StatefulSetStep {
	hold := func(gate Gate) StatefulSetStep {
		return StatefulSetStep{Action: HoldCreation, Message: gate.Message, Gate: &gate}
	}
	switch {
	case in.RenderProblem != "":
		return hold(Gate{Reason: v1alpha1.ReasonInvalidSpec, Message: in.RenderProblem, Stalled: true})
	case in.Persisted.StatefulSet != nil:
		return hold(Gate{Reason: v1alpha1.ReasonWaiting, Message: "The reference to the old StatefulSet is cleared first."})
	case in.Node.DeletionTimestamp != nil:
		return hold(Gate{Reason: v1alpha1.ReasonTerminating, Message: "The node is being deleted."})
	case !reachedStatefulSet(in.Node):
		return hold(Gate{Reason: v1alpha1.ReasonBootstrapping, Message: "The StatefulSet is made by the plan that brings the node up."})
	case in.Seen.Claim == nil:
		return hold(Gate{Reason: v1alpha1.ReasonDataVolumeLost, Message: Volume(in).Message, Stalled: true})
	}
	if gate := holdsPod(in); gate != nil {
		return hold(*gate)
	}
	return StatefulSetStep{Action: Create, Message: "The StatefulSet is missing and is made from the current spec."}
}

// holdsPod is what speaks against a pod of this node coming to be. A volume that a pod
// uses for a while is no such thing: then there is a StatefulSet without a pod.
func holdsPod(in Input) *Gate {
	if gate := volumeGate(in); gate != nil && (gate.Reason != v1alpha1.ReasonVolumeInUse || gate.Stalled) {
		return gate
	}
	if gate := keyGate(in); gate != nil {
		return gate
	}
	return ReservationGate(in)
}

// reachedStatefulSet tells whether the node has a StatefulSet by right: it was
// brought up, or the plan that does so has come to the point of making it. Until
// then the volume and the keys are not checked.
func reachedStatefulSet(node *v1alpha1.SeiNode) bool {
	if node.Status.Phase == v1alpha1.PhaseRunning {
		return true
	}
	p := node.Status.Plan
	if p == nil || p.Type != v1alpha1.PlanBootstrap {
		return false
	}
	for i := range p.Tasks {
		if p.Tasks[i].Type == TaskApplyStatefulSet {
			return true
		}
		if p.Tasks[i].Status != v1alpha1.PlanTaskComplete {
			return false
		}
	}
	return false
}

// foreignStatefulSet says to whom a StatefulSet belongs, if not to this node. One
// that nobody controls is ours to take when it selects the pods of this node.
func foreignStatefulSet(node *v1alpha1.SeiNode, live *appsv1.StatefulSet) *Gate {
	if gate := Foreign(node, "StatefulSet", live); gate != nil {
		gate.Reason = v1alpha1.ReasonForeignStatefulSet
		return gate
	}
	selector := live.Spec.Selector
	if metav1.IsControlledBy(live, node) || selector != nil && len(selector.MatchExpressions) == 0 &&
		maps.Equal(selector.MatchLabels, map[string]string{v1alpha1.LabelNode: node.Name}) {
		return nil
	}
	return &Gate{
		Reason: v1alpha1.ReasonForeignStatefulSet, Stalled: true,
		Message: fmt.Sprintf("The StatefulSet %s is not of this node: it selects other pods. It is left alone; delete or rename it, or rename this SeiNode.", live.Name),
	}
}

// Foreign says to whom an object belongs, if someone else controls it.
func Foreign(node *v1alpha1.SeiNode, kind string, object metav1.Object) *Gate {
	if object == nil {
		return nil
	}
	owner := metav1.GetControllerOf(object)
	switch {
	case owner == nil || owner.UID == node.UID:
		return nil
	case owner.Kind == "SeiNode" && owner.Name == node.Name:
		return &Gate{
			Reason:  v1alpha1.ReasonForeignObject,
			Message: fmt.Sprintf("The %s %s belongs to an earlier SeiNode of this name and is being removed by Kubernetes.", kind, object.GetName()),
		}
	}
	return &Gate{
		Reason: v1alpha1.ReasonForeignObject, Stalled: true,
		Message: fmt.Sprintf("The %s %s belongs to %s %s. It is left alone; delete or rename it, or rename this SeiNode.", kind, object.GetName(), owner.Kind, owner.Name),
	}
}

// Replicas is how many pods the StatefulSet shall have, and why not one.
func Replicas(in Input) (int32, *Gate) {
	running := keepsPod(in.Seen.StatefulSet)
	if in.Node.DeletionTimestamp != nil || in.Node.Spec.Paused {
		if gate := HoldsStop(in, StopRequested(in)); gate != nil && running {
			return 1, gate
		}
		return 0, stopReason(in.Node)
	}
	if running {
		return 1, nil
	}
	// From here on a pod would come to be where there is none.
	if gate := volumeGate(in); gate != nil {
		return 0, gate
	}
	if in.Seen.Claim == nil {
		// Whoever makes the claim by hand would let every pod start that waits for it.
		return 0, &Gate{Reason: v1alpha1.ReasonNotBound, Message: Volume(in).Message}
	}
	if gate := holdsPod(in); gate != nil {
		return 0, gate
	}
	return 1, nil
}

func stopReason(node *v1alpha1.SeiNode) *Gate {
	if node.DeletionTimestamp != nil {
		return &Gate{Reason: v1alpha1.ReasonTerminating, Message: "The node is being deleted."}
	}
	return &Gate{Reason: v1alpha1.ReasonPaused, Message: "The node is paused."}
}

// Stopped tells whether there is no pod and none comes back: the StatefulSet is gone,
// or its controller has seen that it shall have none. That we asked for none is not
// enough: the controller may be about to make one that it was asked for before.
func Stopped(in Input) bool {
	if in.Seen.Pod != nil {
		return false
	}
	set := in.Seen.StatefulSet
	if set == nil || foreignStatefulSet(in.Node, set) != nil {
		return true
	}
	return !keepsPod(set) && set.Status.ObservedGeneration >= set.Generation && set.Status.Replicas == 0
}

// StopRequested is since when a pause or a deletion waits to stop seid.
func StopRequested(in Input) time.Time {
	if since := in.Node.Status.StopRequestedTime; since != nil {
		return since.Time
	}
	return in.Seen.Now
}

// keepsPod tells whether a StatefulSet has replicas. One that does not say how many
// has one.
func keepsPod(set *appsv1.StatefulSet) bool {
	return set != nil && (set.Spec.Replicas == nil || *set.Spec.Replicas > 0)
}

// NothingToRoll tells whether the current render may be applied without a plan,
// because no running pod could be affected: there is no pod, or it is on its way
// out. A node that leaves a pause counts: its pod may be going this very moment,
// and an image edited during the pause must never boot the old one.
func NothingToRoll(in Input) bool {
	return leavesPause(in.Node) || podGone(in) && !keepsPod(in.Seen.StatefulSet)
}

// podGone tells whether there is no pod, or only one that is on its way out.
func podGone(in Input) bool {
	return in.Seen.Pod == nil || in.Seen.Pod.DeletionTimestamp != nil
}

// leavesPause tells whether the spec says that the node runs and its status still
// says that it is paused. A pause that waited for a safe moment has stopped nothing:
// the pod runs on.
func leavesPause(node *v1alpha1.SeiNode) bool {
	c := meta.FindStatusCondition(node.Status.Conditions, string(v1alpha1.ConditionPaused))
	return !node.Spec.Paused && c != nil && (c.Reason == string(v1alpha1.ReasonPaused) || c.Reason == string(v1alpha1.ReasonStopping))
}

// orNil keeps a nil pointer from becoming an interface that is not nil.
func orNil[T any, P interface {
	*T
	metav1.Object
}](object P,
) metav1.Object {
	if object == nil {
		return nil
	}
	return object
}

// HasStatefulSet tells whether the node has come as far as to have a StatefulSet,
// and with it a Service and what else belongs to a pod.
func HasStatefulSet(node *v1alpha1.SeiNode) bool {
	return node.Status.StatefulSet != nil || reachedStatefulSet(node)
}
