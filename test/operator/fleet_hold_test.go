package operator_test

import (
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/test/cluster"
)

// A pause, and its end, reach every node, also one that refuses the template, and those
// that come after it.
func TestAPauseReachesNodesThatATemplateDoesNot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	size := func(n *v1alpha1.SeiNodeSpec, size string) {
		n.DataVolume = &v1alpha1.DataVolumeSpec{Size: new(quantity(size))}
	}
	r.create(r.deployment("fleet", 3, func(f *v1alpha1.SeiNodeDeployment) { size(&f.Spec.Template.Spec, "1Gi") }))
	r.fleetReady("fleet")
	// What the fleet wants of it from now on the API refuses: a volume does not shrink.
	r.edit("fleet-2", func(n *v1alpha1.SeiNode) { size(&n.Spec, "2Gi") })
	r.fleetUntil("fleet", "the refusal to be told", fleetHas(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonAPIRefused))
	for _, paused := range []bool{true, false} {
		r.editFleet("fleet", func(f *v1alpha1.SeiNodeDeployment) { f.Spec.Paused = paused })
		for _, name := range nodeNames("fleet", 3) {
			r.until(name, "the pause, or its end", func(n *v1alpha1.SeiNode) bool { return n.Spec.Paused == paused })
		}
	}
}

// OnDelete only records: a node takes the template when somebody deletes it.
func TestATemplateThatWaitsForDeletion(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.deployment("fleet", 2, func(f *v1alpha1.SeiNodeDeployment) {
		f.Spec.UpdateStrategy = &v1alpha1.UpdateStrategy{Type: v1alpha1.UpdateStrategyOnDelete}
	}))
	r.fleetReady("fleet")
	r.editFleet("fleet", setImage(image2))
	waits := r.fleetUntil("fleet", "the template to wait", fleetHas(v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonWaitsForDeletion))
	if waits.Status.CurrentRevision == waits.Status.UpdateRevision || waits.Status.UpdatedReplicas != 0 {
		t.Errorf("the status says %+v", waits.Status)
	}
	node := &v1alpha1.SeiNode{}
	r.get("fleet-1", node)
	r.delete(node)
	cluster.Gone[*v1alpha1.SeiNode](t, r.person, r.key("fleet-1"), "a person deleted it")
	r.until("fleet-1", "the node that was deleted", func(n *v1alpha1.SeiNode) bool { return isReady(n) && n.Status.CurrentImage == image2 })
	r.get("fleet-0", node)
	if node.Status.CurrentImage != image {
		t.Errorf("the node that nobody deleted runs %s", node.Status.CurrentImage)
	}
}

// A rollout that is held begins, and goes on, when it is no longer held.
func TestARolloutIsHeld(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.deployment("fleet", 2, func(f *v1alpha1.SeiNodeDeployment) { f.Spec.RolloutPaused = true }))
	r.fleetReady("fleet")
	r.editFleet("fleet", setImage(image2))
	r.fleetUntil("fleet", "the rollout to be held", fleetHas(v1alpha1.ConditionRolloutPaused, metav1.ConditionTrue, v1alpha1.ReasonRolloutPaused))
	node := &v1alpha1.SeiNode{}
	for _, name := range nodeNames("fleet", 2) {
		if r.get(name, node); node.Spec.Image != image {
			t.Errorf("%s has %s", name, node.Spec.Image)
		}
	}
	r.editFleet("fleet", func(f *v1alpha1.SeiNodeDeployment) { f.Spec.RolloutPaused = false })
	for _, name := range nodeNames("fleet", 2) {
		r.until(name, "the image", func(n *v1alpha1.SeiNode) bool { return isReady(n) && n.Status.CurrentImage == image2 })
	}
	r.fleetReady("fleet")
}

// "kubectl scale" and autoscalers use the sub-resource.
func TestAFleetIsScaledByItsSubresource(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	fleet := r.deployment("fleet", 1)
	r.create(fleet)
	r.fleetReady("fleet")
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 2}}
	if err := r.person.SubResource("scale").Update(t.Context(), fleet, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	r.ready("fleet-1")
	r.fleetReady("fleet")
	if err := r.person.SubResource("scale").Get(t.Context(), fleet, scale); err != nil {
		t.Fatal(err)
	}
	if scale.Status.Replicas != 2 || scale.Status.Selector == "" {
		t.Errorf("it says %+v", scale.Status)
	}
}
