package faults_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/test/faults"
)

// updated tells whether the node is ready and its last plan was of this type.
func updated(kind v1alpha1.PlanType) func(*faults.Person) bool {
	return func(p *faults.Person) bool {
		last := p.SeiNode().Status.LastPlan
		return last != nil && last.Type == kind && p.Ready()
	}
}

func TestTheImageOfARunningNodeIsEdited(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name:    "NodeUpdate",
		Prepare: bringUp,
		Act:     func(p *faults.Person) { p.Edit(func(node *v1alpha1.SeiNode) { node.Spec.Image = otherImage }) },
		Done:    func(p *faults.Person) bool { return p.Runs(otherImage) && updated(v1alpha1.PlanNodeUpdate)(p) },
	})
}

func TestAnOverrideOfARunningNodeIsEdited(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name:    "ConfigUpdate",
		Prepare: bringUp,
		Act: func(p *faults.Person) {
			p.Edit(func(node *v1alpha1.SeiNode) {
				node.Spec.Overrides = v1alpha1.Overrides{"config.p2p.max-connections": "77"}
			})
		},
		Done: updated(v1alpha1.PlanConfigUpdate),
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
