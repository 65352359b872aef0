package faults_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/test/faults"
)

// updated tells whether the node is ready and its last plan was of this type, and is
// complete.
func updated(kind v1alpha1.PlanType) func(*faults.Person) bool {
	return func(p *faults.Person) bool {
		last := p.SeiNode().Status.LastPlan
		return last != nil && last.Type == kind && last.Outcome == v1alpha1.PlanOutcomeComplete && p.Ready()
	}
}

// setImage edits the image of seid.
func setImage(image string) func(*faults.Person) {
	return func(p *faults.Person) { p.Edit(func(node *v1alpha1.SeiNode) { node.Spec.Image = image }) }
}

// setOverride edits a setting of seid.
func setOverride(value string) func(*faults.Person) {
	return func(p *faults.Person) {
		p.Edit(func(node *v1alpha1.SeiNode) {
			node.Spec.Overrides = v1alpha1.Overrides{"config.p2p.max-connections": value}
		})
	}
}

// unsafe makes the sidecar say that seid must not be stopped.
func unsafe(p *faults.Person) (safe func()) {
	p.Sidecar().SetSeid(func(s *api.Seid) { s.SafeToStop, s.UnsafeBecause = false, "state sync has just ended" })
	return func() { p.Sidecar().SetSeid(nil) }
}

func waitsForSafeStop(p *faults.Person) func() bool {
	return func() bool { return p.Has(v1alpha1.ConditionReady, v1alpha1.ReasonWaitingForSafeStop) }
}

func TestTheImageOfARunningNodeIsEdited(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name:    "NodeUpdate",
		Prepare: bringUp,
		Act:     setImage(otherImage),
		Done:    func(p *faults.Person) bool { return p.Runs(otherImage) && updated(v1alpha1.PlanNodeUpdate)(p) },
	})
}

func TestAnOverrideOfARunningNodeIsEdited(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name:    "ConfigUpdate",
		Prepare: bringUp,
		Act:     setOverride("77"),
		Done:    updated(v1alpha1.PlanConfigUpdate),
	})
}

// The StatefulSet goes away in the middle of an update, which finishes.
func TestTheStatefulSetIsDeletedInTheMiddleOfAnUpdate(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name:    "StatefulSet deleted in a NodeUpdate",
		Prepare: bringUp,
		Act: func(p *faults.Person) {
			restore := p.CutOff()
			p.Edit(func(node *v1alpha1.SeiNode) { node.Spec.Image = otherImage })
			p.Until("a pod with the new image", func() bool { return p.Runs(otherImage) })
			p.Delete(faults.Node, &appsv1.StatefulSet{})
			p.Until("the StatefulSet to be back", func() bool { return p.Get(faults.Node, &appsv1.StatefulSet{}) })
			restore()
		},
		Done: func(p *faults.Person) bool { return p.Runs(otherImage) && updated(v1alpha1.PlanNodeUpdate)(p) },
	})
}

// The way there is the workload above; this is the way back.
func TestTheImageGoesFromAToBToA(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name: "A to B to A",
		Prepare: func(p *faults.Person) {
			bringUp(p)
			setImage(otherImage)(p)
			p.Until("the node to run B", func() bool { return p.Runs(otherImage) && updated(v1alpha1.PlanNodeUpdate)(p) })
		},
		Act:  setImage(faults.Image),
		Done: func(p *faults.Person) bool { return p.Runs(faults.Image) && updated(v1alpha1.PlanNodeUpdate)(p) },
	})
}

func TestAnUpdateWaitsForASafeMoment(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name:    "NodeUpdate waits for a safe stop",
		Prepare: bringUp,
		Act: func(p *faults.Person) {
			safe := unsafe(p)
			setImage(otherImage)(p)
			p.Until("the update to wait", waitsForSafeStop(p))
			if !p.Runs(faults.Image) {
				t.Error("the pod was stopped")
			}
			safe()
		},
		Done: func(p *faults.Person) bool { return p.Runs(otherImage) && updated(v1alpha1.PlanNodeUpdate)(p) },
	})
}

// The moment never comes, and the restart goes ahead when half an hour is over.
func TestARestartThatNeverGetsSafe(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name:    "ConfigUpdate at the deadline of a safe stop",
		Prepare: bringUp,
		Act: func(p *faults.Person) {
			unsafe(p)
			setOverride("77")(p)
		},
		Done: updated(v1alpha1.PlanConfigUpdate),
	})
}

// The first try fails; another one is made by itself.
func TestAConfigurationThatTheSidecarCannotApplyAtFirst(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name: "ConfigUpdate fails",
		Prepare: func(p *faults.Person) {
			bringUp(p)
			p.Sidecar().Fail(plan.TaskConfigApply, 1, "InvalidConfiguration", "no", false)
		},
		Act:  setOverride("77"),
		Done: updated(v1alpha1.PlanConfigUpdate),
	})
}

func TestAnOverrideIsEditedAgainBeforeItReachedSeid(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name:    "ConfigUpdate superseded",
		Prepare: bringUp,
		Act: func(p *faults.Person) {
			safe := unsafe(p)
			setOverride("77")(p)
			p.Until("the restart to wait", waitsForSafeStop(p))
			setOverride("78")(p)
			p.Until("the new one to wait", func() bool { return p.SeiNode().Status.ObservedGeneration == 3 && waitsForSafeStop(p)() })
			safe()
		},
		Done: updated(v1alpha1.PlanConfigUpdate),
	})
}
