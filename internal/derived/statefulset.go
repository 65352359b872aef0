package derived

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/render"
	"github.com/sei-operator/sei-operator/internal/scope"
)

// StatefulSet takes the StatefulSet one step further in its life. It is the only
// function that writes one. With current the template becomes what the spec wants
// now, which is for plans; without, the template that is there stays, because a pod
// that is evicted boots with it, and that must not roll a node outside a plan.
func StatefulSet(ctx context.Context, s *scope.Scope, current bool) (plan.StatefulSetStep, error) {
	step := plan.StatefulSet(s.Input)
	var err error
	switch step.Action {
	case plan.Create:
		err = createStatefulSet(ctx, s)
	case plan.Adopt, plan.Assert:
		err = applyStatefulSet(ctx, s, current)
	case plan.Forget:
		s.Node.Status.Slot = plan.RecreateSlot(s.Input)
		s.Node.Status.StatefulSet = nil
		s.Report.Recreated(s.Node)
		s.Report.Event(s.Node, scope.Event{Warning: true, Reason: "StatefulSetMissing", Message: step.Message + " It is made anew; the data volume stays."})
	case plan.ReplaceImpostor:
		err = deleteImpostor(ctx, s, step)
	case plan.LeaveForeign:
		s.InTrouble(step.Gate)
	case plan.HoldCreation:
		s.RequeueIn(step.Gate.After)
		if s.Node.Status.Phase == v1alpha1.PhaseRunning && step.Gate.Reason != v1alpha1.ReasonWaiting {
			s.InTrouble(step.Gate) // a node that runs by right has no pod
		}
	case plan.AwaitDeletion:
	}
	return step, err
}

func createStatefulSet(ctx context.Context, s *scope.Scope) error {
	want := desiredStatefulSet(s)
	want.ResourceVersion = new(kube.MustNotExist)
	made, err := kube.Apply(ctx, s.Kube, want)
	if err != nil {
		return outcome(s, "StatefulSet", s.Node.Name, err)
	}
	return track(ctx, s, made, true)
}

// applyStatefulSet writes the StatefulSet that is there, if it is not as it has to be.
func applyStatefulSet(ctx context.Context, s *scope.Scope, current bool) error {
	found := s.Seen.StatefulSet
	if found.Spec.UpdateStrategy.RollingUpdate != nil {
		if err := s.Kube.OnDelete(ctx, found); err != nil {
			return outcome(s, "StatefulSet", found.Name, err)
		}
	}
	owned, err := appsv1ac.ExtractStatefulSet(found, render.FieldManager)
	if err != nil {
		return fmt.Errorf("finding out what is ours of StatefulSet %s: %w", found.Name, err)
	}
	current = s.RenderProblem == "" && (current || plan.NothingToRoll(s.Input))
	want := assertedStatefulSet(s, owned, current)
	if equality.Semantic.DeepEqual(want, owned) {
		s.Node.Status.StatefulSet = &v1alpha1.ObjectIdentity{Name: found.Name, UID: found.UID}
		admit(s, current)
		return nil
	}
	tellForcedStop(s, *want.Spec.Replicas)
	want.UID = &found.UID
	applied, err := kube.Apply(ctx, s.Kube, want)
	if err != nil {
		return outcome(s, "StatefulSet", found.Name, err)
	}
	return track(ctx, s, applied, current)
}

// tellForcedStop tells of a stop at a moment at which it is not safe.
func tellForcedStop(s *scope.Scope, replicas int32) {
	if _, forced := plan.SafeStop(s.Input, plan.StopRequested(s.Input)); forced && replicas == 0 {
		s.TellForcedStop()
	}
}

// assertedStatefulSet is what the StatefulSet that is there has to be.
func assertedStatefulSet(s *scope.Scope, owned *appsv1ac.StatefulSetApplyConfiguration, current bool) *appsv1ac.StatefulSetApplyConfiguration {
	found := s.Seen.StatefulSet
	if s.RenderProblem != "" {
		// What is wanted is not known, but a pause is carried out all the same.
		want := copyOf(owned)
		want.Spec.Replicas = replicas(s)
		return want
	}
	want := desiredStatefulSet(s)
	if !current {
		want.Spec.Template = nil
		if owned.Spec != nil {
			// Leaving it out would make server-side apply remove it.
			want.Spec.Template = owned.Spec.Template
		}
	}
	// They cannot be changed, and one that was adopted may have others.
	want.Spec.ServiceName, want.Spec.PodManagementPolicy = nil, nil
	if found.Spec.ServiceName != "" {
		want.Spec.ServiceName = &found.Spec.ServiceName
	}
	if found.Spec.PodManagementPolicy != "" {
		want.Spec.PodManagementPolicy = &found.Spec.PodManagementPolicy
	}
	return want
}

// desiredStatefulSet is a copy of what is wanted, to be changed at the top.
func desiredStatefulSet(s *scope.Scope) *appsv1ac.StatefulSetApplyConfiguration {
	want := copyOf(s.Want.StatefulSet)
	want.Spec.Replicas = replicas(s)
	return want
}

// replicas is how many pods there shall be. A stop that waits for a safe moment is
// looked at again when its time is over.
func replicas(s *scope.Scope) *int32 {
	count, gate := plan.Replicas(s.Input)
	if gate != nil {
		s.RequeueIn(gate.After)
	}
	return &count
}

func copyOf(set *appsv1ac.StatefulSetApplyConfiguration) *appsv1ac.StatefulSetApplyConfiguration {
	top, meta, spec := *set, *set.ObjectMetaApplyConfiguration, appsv1ac.StatefulSetSpecApplyConfiguration{}
	if set.Spec != nil {
		spec = *set.Spec
	}
	top.ObjectMetaApplyConfiguration, top.Spec = &meta, &spec
	return &top
}

// track remembers which StatefulSet is ours, and looks at it as it now is.
func track(ctx context.Context, s *scope.Scope, applied *appsv1ac.StatefulSetApplyConfiguration, current bool) error {
	s.Node.Status.StatefulSet = &v1alpha1.ObjectIdentity{Name: *applied.Name, UID: *applied.UID}
	admit(s, current)
	found := &appsv1.StatefulSet{}
	switch err := s.Kube.Get(ctx, s.Key(), found); {
	case apierrors.IsNotFound(err) || err == nil && found.UID != *applied.UID:
		return ErrLookAgain // it is gone again already
	case err != nil:
		return err
	}
	s.Seen.StatefulSet = found
	return nil
}

// admit remembers that the spec of this moment reached the node without a plan. A
// plan says itself for which spec it was made.
func admit(s *scope.Scope, current bool) {
	if current && s.Node.Status.Plan == nil && s.Node.Status.Phase == v1alpha1.PhaseRunning {
		s.Node.Status.AdmittedSpecHash = s.Want.SpecHash
	}
}

// deleteImpostor deletes a StatefulSet that took the place of the tracked one, and
// forgets the tracked one in the same step: whoever comes next must not compare a
// fresh one with the reference to the old.
//
// Whether it is an impostor follows from our own status, so that is looked at once
// more without a cache. A stale one would make us delete what we made a moment ago.
func deleteImpostor(ctx context.Context, s *scope.Scope, step plan.StatefulSetStep) error {
	node := &v1alpha1.SeiNode{}
	if err := s.Kube.GetLive(ctx, s.Key(), node); err != nil {
		return err
	}
	tracked := node.Status.StatefulSet
	if node.UID != s.Node.UID || tracked == nil || tracked.UID != s.Node.Status.StatefulSet.UID {
		return ErrLookAgain
	}
	if err := s.Kube.Delete(ctx, "StatefulSet", s.Seen.StatefulSet); err != nil && !apierrors.IsNotFound(err) {
		return outcome(s, "StatefulSet", s.Node.Name, err)
	}
	s.Node.Status.Slot = plan.RecreateSlot(s.Input)
	s.Node.Status.StatefulSet, s.Seen.StatefulSet = nil, nil
	s.Report.Recreated(s.Node)
	s.Report.Event(s.Node, scope.Event{Warning: true, Reason: "ImpostorDeleted", Message: step.Message + " It was deleted and is made anew; the data volume stays."})
	return nil
}
