package derived

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/plan"
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
func applyStatefulSet(ctx context.Context, s *scope.Scope, planned bool) error {
	if err := writeStatefulSet(ctx, s, planned); err != nil {
		return err
	}
	return cleanTemplate(ctx, s, planned)
}

// cleanTemplate removes what somebody else put into the template: the next pod would
// start with it. That rolls nothing: pods are replaced by plans alone.
//
// What comes back after that is left, outside of plans: whoever puts it there does so
// for ever, and so would we.
func cleanTemplate(ctx context.Context, s *scope.Scope, planned bool) error {
	foreign, set := plan.InTemplate(s.Input), s.Seen.StatefulSet
	if s.RenderProblem != "" || foreign == nil || foreign.Fields == nil || foreign.Again && !planned || !plan.OwnsTemplate(s.Input) {
		return nil
	}
	if err := s.Kube.RemoveFields(ctx, set, foreign.Fields, foreign.Note); err != nil {
		return outcome(s, "StatefulSet", set.Name, err)
	}
	s.Report.Event(s.Node, scope.Event{Warning: true, Reason: "ForeignTemplate", Message: foreign.Message + " It was removed."})
	return lookAt(ctx, s, set.UID)
}

func writeStatefulSet(ctx context.Context, s *scope.Scope, current bool) error {
	found := s.Seen.StatefulSet
	if found.Spec.UpdateStrategy.RollingUpdate != nil {
		if err := s.Kube.OnDelete(ctx, found); err != nil {
			return outcome(s, "StatefulSet", found.Name, err)
		}
	}
	current = s.RenderProblem == "" && (current || plan.NothingToRoll(s.Input))
	want, err := assertedStatefulSet(s, current)
	if err != nil {
		return err
	}
	same, err := s.Seen.Owned.StatefulSet(found).Equals(want)
	if err != nil {
		return err
	}
	if same {
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
func assertedStatefulSet(s *scope.Scope, current bool) (*appsv1ac.StatefulSetApplyConfiguration, error) {
	found := s.Seen.StatefulSet
	if s.RenderProblem != "" {
		// What is wanted is not known, but a pause is carried out all the same.
		owned, err := s.Seen.Owned.StatefulSet(found).All()
		if err != nil {
			return nil, err
		}
		want := copyOf(owned)
		want.Spec.Replicas = replicas(s)
		return want, nil
	}
	want := desiredStatefulSet(s)
	if !current && !plan.OwnsTemplate(s.Input) {
		owned, err := s.Seen.Owned.StatefulSet(found).All()
		if err != nil {
			return nil, err
		}
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
	return want, nil
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
	return lookAt(ctx, s, *applied.UID)
}

// lookAt looks at the StatefulSet as it is after it was written.
func lookAt(ctx context.Context, s *scope.Scope, uid types.UID) error {
	found := &appsv1.StatefulSet{}
	switch err := s.Kube.Get(ctx, s.Key(), found); {
	case apierrors.IsNotFound(err) || err == nil && found.UID != uid:
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
	// Its pod goes with it, and that is a stop like any other.
	if gate := plan.HoldsStop(s.Input, plan.StopRequested(s.Input)); gate != nil {
		s.RequeueIn(gate.After)
		s.InTrouble(gate)
		return nil
	}
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
