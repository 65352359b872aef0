package faults_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/test/faults"
)

const otherImage = "registry.example.com/seid:v2"

func bringUp(p *faults.Person) { p.Bring(p.FullNode()) }

func TestTheStatefulSetOfARunningNodeIsDeleted(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name:    "StatefulSet deleted",
		Prepare: bringUp,
		Act:     func(p *faults.Person) { p.Delete(faults.Node, &appsv1.StatefulSet{}) },
		Done: func(p *faults.Person) bool {
			return p.Get(faults.Node, &appsv1.StatefulSet{}) && p.Ready()
		},
	})
}

func TestAnImpostorTakesThePlaceOfTheStatefulSet(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name:    "impostor",
		Prepare: bringUp,
		Act: func(p *faults.Person) {
			p.WithoutOperator(func() {
				set := &appsv1.StatefulSet{}
				p.Get(faults.Node, set)
				p.Delete(faults.Node, &appsv1.StatefulSet{})
				p.Rest()
				p.Create(&appsv1.StatefulSet{
					ObjectMeta: metav1.ObjectMeta{Name: set.Name, Labels: set.Labels},
					Spec:       set.Spec,
				})
				p.Rest()
			})
		},
		Done: func(p *faults.Person) bool {
			set := &appsv1.StatefulSet{}
			return p.Get(faults.Node, set) && metav1.IsControlledBy(set, p.SeiNode()) && p.Ready()
		},
	})
}

func TestTheServiceAndTheConfigMapAreDeleted(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name:    "Service and ConfigMap deleted",
		Prepare: bringUp,
		Act: func(p *faults.Person) {
			p.Delete(faults.Node, &corev1.Service{})
			p.Delete(faults.Node+"-config", &corev1.ConfigMap{})
		},
		Done: func(p *faults.Person) bool {
			return p.Get(faults.Node, &corev1.Service{}) && p.Get(faults.Node+"-config", &corev1.ConfigMap{}) && p.Ready()
		},
	})
}

func TestTheImageIsEditedDuringAPause(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name:    "pause, image edited, unpause",
		Prepare: bringUp,
		Act: func(p *faults.Person) {
			p.Edit(func(node *v1alpha1.SeiNode) { node.Spec.Paused = true })
			p.Until("the node to be paused", func() bool { return p.Has(v1alpha1.ConditionPaused, v1alpha1.ReasonPaused) })
			p.Edit(func(node *v1alpha1.SeiNode) { node.Spec.Image = otherImage })
			p.Rest()
			p.Edit(func(node *v1alpha1.SeiNode) { node.Spec.Paused = false })
		},
		Done: func(p *faults.Person) bool { return p.Runs(otherImage) && p.Ready() },
	})
}

func TestANodeThatLostItsApprovalIsApprovedAgain(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name:    "approval lost",
		Prepare: bringUp,
		Act:     func(p *faults.Person) { p.Sidecar().Unapprove() },
		Done: func(p *faults.Person) bool {
			last := p.SeiNode().Status.LastPlan
			return last != nil && last.Type == v1alpha1.PlanReapprove && p.Ready()
		},
	})
}

func TestTheStatusOfARunningNodeIsEmptied(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name:    "status emptied",
		Prepare: bringUp,
		Act:     func(p *faults.Person) { p.EmptyStatus() },
		Done:    (*faults.Person).Ready,
	})
}

func gone(p *faults.Person) bool { return !p.Get(faults.Node, &v1alpha1.SeiNode{}) }

func TestANodeIsDeletedAndItsVolumeStays(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name:    "deletion, volume retained",
		Prepare: bringUp,
		Act:     func(p *faults.Person) { p.Delete(faults.Node, &v1alpha1.SeiNode{}) },
		Done:    gone,
	})
}

func TestANodeIsDeletedWithItsVolume(t *testing.T) {
	faults.Run(t, faults.Workload{
		Name: "deletion, volume deleted",
		Prepare: func(p *faults.Person) {
			p.Bring(p.FullNode(func(node *v1alpha1.SeiNode) {
				node.Spec.DataVolume = &v1alpha1.DataVolumeSpec{DeletionPolicy: v1alpha1.DeletionPolicyDelete}
			}))
		},
		Act:           func(p *faults.Person) { p.Delete(faults.Node, &v1alpha1.SeiNode{}) },
		Done:          gone,
		DeletesVolume: true,
	})
}
