package operator_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/test/cluster"
)

// The tests in this file are the acceptance criteria of seed 003, a changed template
// rolls, and of the budget within which it does.

const newSidecar = "registry.example.com/sidecar:v2"

func TestSeed003ATemplateChangeWithoutAnImageChangeRolls(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.fullNode("alpha"))
	before := r.ready("alpha")
	r.edit("alpha", func(n *v1alpha1.SeiNode) { n.Spec.PodLabels = map[string]v1alpha1.LabelValue{"team": "one"} })
	r.pod("alpha", "a pod with the label", func(p *corev1.Pod) bool { return p.Labels["team"] == "one" })
	after := r.until("alpha", "the node to be ready with another template", func(n *v1alpha1.SeiNode) bool {
		return isReady(n) && n.Status.PodTemplateHash != before.Status.PodTemplateHash
	})
	if after.Status.CurrentImage != image || after.Status.LastPlan.Type != v1alpha1.PlanNodeUpdate {
		t.Errorf("the image is %s, the last plan %+v", after.Status.CurrentImage, after.Status.LastPlan)
	}
}

// Somebody else's edit of the template is drift, and no pod is replaced for it.
func TestSeed003AForeignEditOfTheTemplateIsPutRight(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.fullNode("alpha"))
	r.ready("alpha")
	pod := r.pod("alpha", "the pod", func(*corev1.Pod) bool { return true })
	set := &appsv1.StatefulSet{}
	r.get("alpha", set)
	change(r, set, func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = "registry.example.com/evil:v1" })
	r.statefulSet("alpha", "the template to be put right", func(s *appsv1.StatefulSet) bool {
		return s.Generation > set.Generation && s.Spec.Template.Spec.Containers[0].Image == image
	})
	r.ready("alpha")
	if now := r.pod("alpha", "the pod", func(*corev1.Pod) bool { return true }); now.UID != pod.UID {
		t.Error("the pod was replaced")
	}
}

// A node from before templates had a hash is not rolled for having none.
func TestSeed003NoHashIsNoDrift(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.fullNode("alpha"))
	r.ready("alpha")
	r.stop()
	set, pod := &appsv1.StatefulSet{}, r.pod("alpha", "the pod", func(*corev1.Pod) bool { return true })
	r.get("alpha", set)
	change(r, set, func(s *appsv1.StatefulSet) { delete(s.Spec.Template.Annotations, v1alpha1.AnnotationTemplateHash) })
	change(r, pod, func(p *corev1.Pod) { delete(p.Annotations, v1alpha1.AnnotationTemplateHash) })
	r.start()
	r.settled("alpha")
	if now := r.pod("alpha", "the pod", func(*corev1.Pod) bool { return true }); now.UID != pod.UID {
		t.Error("the pod was replaced")
	}
}

// fleet brings up nodes of one chain.
func (r *rig) fleet(count int) []string {
	r.t.Helper()
	var names []string
	for i := range count {
		names = append(names, fmt.Sprintf("node-%d", i))
		r.create(r.fullNode(names[i]))
	}
	for _, name := range names {
		r.ready(name)
	}
	return names
}

// upgrade starts an operator that wants another sidecar.
func (r *rig) upgrade(sidecar string) {
	r.t.Helper()
	r.stop()
	r.config.Platform.SidecarImage = sidecar
	r.start()
}

// A new default of the platform rolls a fleet one node after the other.
func TestSeed003APlatformDefaultRollsWithinTheBudget(t *testing.T) {
	t.Parallel()
	w := &writes{}
	r := newRig(t, w.record)
	names := r.fleet(5)
	atMostOne := r.watchSlots()
	r.upgrade(newSidecar)
	for _, name := range names {
		r.until(name, "the node to have the new sidecar", func(n *v1alpha1.SeiNode) bool {
			return isReady(n) && n.Status.CurrentSidecarImage == newSidecar && n.Status.Slot == nil
		})
	}
	if most := atMostOne(); most != 1 {
		t.Errorf("up to %d nodes were updated at once", most)
	}
	if deleted := w.of("delete", "Pod"); len(deleted) != len(names) {
		t.Errorf("%d pods of %d were deleted", len(deleted), len(names))
	}
}

func TestSeed003NothingRollsWhenOnlyTheOperatorRestarted(t *testing.T) {
	t.Parallel()
	w := &writes{}
	r := newRig(t, w.record)
	names := r.fleet(3)
	w.forget()
	r.stop()
	r.start()
	for _, name := range names {
		r.settled(name)
	}
	if deleted := w.of("delete", "Pod"); len(deleted) != 0 {
		t.Errorf("pods were deleted: %v", deleted)
	}
}

// An evicted pod of a node that waits for its turn comes back as it was; a deleted
// StatefulSet comes back from the current spec, and is counted.
func TestDisturbedWhileWaitingForTheBudget(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fleet(3)
	r.stop()
	// The first to be updated gets stuck.
	release := []func(){}
	for i := range 3 {
		release = append(release, r.sidecars.Node(r.namespace, fmt.Sprintf("node-%d", i)).Block("mark-ready"))
	}
	old := r.config.Platform.SidecarImage
	r.config.Platform.SidecarImage = newSidecar
	r.start()
	var waiting []string
	each(t, "two nodes to wait", func() bool {
		waiting = nil
		for i := range 3 {
			node := &v1alpha1.SeiNode{}
			r.get(fmt.Sprintf("node-%d", i), node)
			if has(v1alpha1.ConditionNodeUpdateInProgress, metav1.ConditionFalse, v1alpha1.ReasonWaitingForBudget)(node) {
				waiting = append(waiting, node.Name)
			}
		}
		return len(waiting) == 2
	})
	pod := r.pod(waiting[0], "the pod", func(*corev1.Pod) bool { return true })
	r.delete(pod)
	back := r.pod(waiting[0], "the pod to come back", func(p *corev1.Pod) bool { return p.UID != pod.UID })
	if got := sidecarImage(&corev1.PodTemplateSpec{Spec: back.Spec}); got != old {
		t.Errorf("the evicted pod came back with %s", got)
	}
	set := &appsv1.StatefulSet{}
	r.get(waiting[1], set)
	r.delete(set)
	cluster.Eventually(t, r.person, r.key(waiting[1]), "the StatefulSet to come back", func(s *appsv1.StatefulSet) bool {
		return s.UID != set.UID && sidecarImage(&s.Spec.Template) == newSidecar
	})
	for _, f := range release {
		f()
	}
	for i := range 3 {
		r.until(fmt.Sprintf("node-%d", i), "the node to have the new sidecar", func(n *v1alpha1.SeiNode) bool {
			return isReady(n) && n.Status.CurrentSidecarImage == newSidecar && n.Status.Slot == nil
		})
	}
}
