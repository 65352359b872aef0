package task

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/scope"
)

// replacePod deletes the pod if it was made from another template than the one that
// is wanted, and waits until it is gone. It never needs the pod to be healthy.
//
// The pod's own revision is compared with the one that the StatefulSet updates to.
// The current revision of the StatefulSet is of no use: with OnDelete it does not
// advance, so that an image that goes from A to B and back would find nothing to do.
func replacePod(ctx context.Context, s *scope.Scope, index int) (Outcome, error) {
	set, pod := s.Seen.StatefulSet, s.Seen.Pod
	if set != nil && set.Generation == 1 && pod == nil {
		return Done(""), nil // it never had another template
	}
	if outcome, ready := revisionKnown(set); !ready {
		return outcome, nil
	}
	if pod == nil || !plan.Stale(s.Input) {
		return Done(""), nil
	}
	if pod.DeletionTimestamp != nil {
		return Wait(0, "Waits for the pod %s to end.", pod.Name), nil
	}
	if s.Node.Status.Plan.Type == v1alpha1.PlanBootstrap && s.Seen.Sidecar.Connected && s.Seen.Sidecar.Status.Approved {
		// It runs seid. Replacing it is for a plan that says so beforehand.
		return Done(fmt.Sprintf("The pod %s is approved to run and stays.", pod.Name)), nil
	}
	return deletePod(ctx, s, index)
}

// deletePod deletes the pod when that is safe, and tells why.
func deletePod(ctx context.Context, s *scope.Scope, index int) (Outcome, error) {
	pod, since := s.Seen.Pod, s.Node.Status.Plan.Tasks[index].StartTime.Time
	if gate := plan.HoldsStop(s.Input, since); gate != nil {
		return Wait(gate.After, "%s", gate.Message), nil
	}
	if gate, err := taskFirst(ctx, s); gate != nil || err != nil {
		return standOr(gate), err
	}
	_, forced := plan.SafeStop(s.Input, since)
	message := fmt.Sprintf("The pod %s is deleted, because it was made from another template. %s", pod.Name, s.Node.Status.Plan.Message)
	if forced {
		message += " seid is stopped although that is not safe at this moment."
	}
	s.Report.Event(s.Node, scope.Event{Warning: forced, Reason: "PodReplaced", Message: message})
	if err := s.Kube.Delete(ctx, "Pod", pod); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return Outcome{}, err
	}
	return Wait(0, "Waits for the pod %s to end.", pod.Name), nil
}

// revisionKnown tells whether the StatefulSet controller has seen the template.
func revisionKnown(set *appsv1.StatefulSet) (Outcome, bool) {
	switch {
	case set == nil:
		return Wait(0, "Waits for the StatefulSet."), false
	case set.Spec.Replicas != nil && *set.Spec.Replicas > 1:
		return Terminal("TooManyReplicas", fmt.Sprintf("The StatefulSet %s has %d replicas; a node has one.", set.Name, *set.Spec.Replicas)), false
	case set.Status.ObservedGeneration < set.Generation, set.Status.UpdateRevision == "":
		return Wait(0, "Waits for Kubernetes to take note of the StatefulSet %s.", set.Name), false
	}
	return Outcome{}, true
}
