package operator_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// The tests in this file are the acceptance criteria of seed 002: a new image reaches
// every node, ready or not.

const (
	imageB = "registry.example.com/seid:v2"
	imageC = "registry.example.com/seid:v3"
)

func (r *rig) setImage(name, to string) {
	r.t.Helper()
	r.edit(name, func(n *v1alpha1.SeiNode) { n.Spec.Image = to })
}

// runs waits until a node runs an image and no plan is left.
func (r *rig) runs(name, wanted string) *v1alpha1.SeiNode {
	r.t.Helper()
	return r.until(name, "the node to run "+wanted, func(n *v1alpha1.SeiNode) bool {
		return n.Status.CurrentImage == wanted && n.Status.Plan == nil && n.Status.ObservedGeneration == n.Generation &&
			n.Status.LastPlan != nil && n.Status.LastPlan.Outcome == v1alpha1.PlanOutcomeComplete
	})
}

func TestSeed002AStaleRevisionIsReplaced(t *testing.T) {
	t.Parallel()
	w := &writes{}
	r := newRig(t, w.record)
	r.create(r.fullNode("alpha"))
	before := r.ready("alpha")
	pod := r.pod("alpha", "the pod", func(*corev1.Pod) bool { return true })
	ledger := len(r.ran("alpha"))
	w.forget()
	r.setImage("alpha", imageB)
	r.runs("alpha", imageB)
	node := r.ready("alpha")
	replaced := r.pod("alpha", "the new pod", func(p *corev1.Pod) bool { return p.UID != pod.UID })
	if replaced.Spec.Containers[0].Image != imageB || node.Status.DataVolume.UID != before.Status.DataVolume.UID || node.Status.StatefulSet.UID != before.Status.StatefulSet.UID {
		t.Errorf("the image is %s, the volume %s, the StatefulSet %s", replaced.Spec.Containers[0].Image, node.Status.DataVolume.UID, node.Status.StatefulSet.UID)
	}
	if node.Status.PodTemplateHash == before.Status.PodTemplateHash || node.Status.PodTemplateHash != replaced.Annotations[v1alpha1.AnnotationTemplateHash] {
		t.Errorf("the hash was %s and is %s", before.Status.PodTemplateHash, node.Status.PodTemplateHash)
	}
	if deleted := w.of("delete", "Pod"); len(deleted) != 1 {
		t.Errorf("pods were deleted %d times", len(deleted))
	}
	if diff := cmp.Diff([]string{"mark-ready#1"}, r.ran("alpha")[ledger:]); diff != "" {
		t.Errorf("the sidecar ran (-want +got):\n%s", diff)
	}
	if node.Status.Slot != nil {
		t.Errorf("the node still takes a place in the budget: %+v", node.Status.Slot)
	}
}

func TestSeed002AlreadyConvergedIsANoOp(t *testing.T) {
	t.Parallel()
	w := &writes{}
	r := newRig(t, w.record)
	r.create(r.fullNode("alpha"))
	r.ready("alpha")
	w.forget()
	r.settled("alpha")
	for _, write := range w.all() {
		if write.Subresource != "status" {
			t.Errorf("it wrote: %s", write)
		}
	}
}

// From A to B and back: Kubernetes does not tell by its current revision that there
// is something to do.
func TestSeed002FromAToBToA(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.fullNode("alpha"))
	before := r.ready("alpha")
	for _, to := range []string{imageB, image, imageB, image} {
		r.setImage("alpha", to)
		r.runs("alpha", to)
		r.ready("alpha")
	}
	after := r.ready("alpha")
	if after.Status.PodTemplateHash != before.Status.PodTemplateHash {
		t.Errorf("the hash was %s and is %s", before.Status.PodTemplateHash, after.Status.PodTemplateHash)
	}
}

// A node that never gets ready, because it is halted, held, parked or simply broken,
// gets its new image all the same.
func TestSeed002NodesThatAreNotReady(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*rig){
		"never ready": func(r *rig) {
			change(r, r.pod("alpha", "the pod", func(*corev1.Pod) bool { return true }), func(p *corev1.Pod) {
				p.Annotations["lab.sei.io/readiness"] = "never"
			})
			r.until("alpha", "the node not to be ready", func(n *v1alpha1.SeiNode) bool { return !isReady(n) })
		},
		"halted": func(r *rig) {
			r.sidecars.Node(r.namespace, "alpha").SetUpgrade(api.Upgrade{Name: "v2", Height: 100, Halted: true})
			r.until("alpha", "the halt to be told of", has(v1alpha1.ConditionUpgradeHalted, metav1.ConditionTrue, v1alpha1.ReasonUpgradeNeeded))
		},
		"parked": func(r *rig) {
			r.sidecars.Node(r.namespace, "alpha").SetSeid(func(s *api.Seid) {
				s.State, s.ParkedBecause, s.Message = api.SeidParked, string(v1alpha1.ReasonVolumeRuined), "it cannot start from what is on the volume"
			})
			r.until("alpha", "it to be told why", has(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonVolumeRuined))
		},
		"held": func(r *rig) {
			r.sidecars.Node(r.namespace, "alpha").Hold("somebody looks into it")
			r.until("alpha", "the hold to be told of", has(v1alpha1.ConditionHeld, metav1.ConditionTrue, v1alpha1.ReasonHeld))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.create(r.fullNode("alpha"))
			r.ready("alpha")
			spoil(r)
			r.setImage("alpha", imageB)
			r.runs("alpha", imageB)
		})
	}
}

func TestSeed002WrongUpdatesAreNamedAndCorrectedByAnEdit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.fullNode("alpha"))
	r.ready("alpha")
	claim := r.claim("alpha")
	for wrong, reason := range map[string]v1alpha1.ConditionReason{
		"registry.example.com/seid:pull-fails":  v1alpha1.ReasonImagePullBackOff,
		"registry.example.com/seid:crash-loops": v1alpha1.ReasonCrashLoopBackOff,
		"registry.example.com/seid:oom-killed":  v1alpha1.ReasonOOMKilled,
	} {
		r.setImage("alpha", wrong)
		r.until("alpha", "the trouble to be named "+string(reason), has(v1alpha1.ConditionReady, metav1.ConditionFalse, reason))
	}
	r.edit("alpha", func(n *v1alpha1.SeiNode) {
		n.Spec.Image = imageB
		n.Spec.Scheduling = &v1alpha1.SchedulingSpec{NodeSelector: map[string]string{"example.com/nowhere": "true"}}
	})
	r.until("alpha", "the selector to be named", has(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonUnschedulable))
	r.edit("alpha", func(n *v1alpha1.SeiNode) { n.Spec.Scheduling = nil })
	node := r.ready("alpha")
	if node.Status.CurrentImage != imageB || node.Status.DataVolume.UID != claim.UID || node.Status.Phase != v1alpha1.PhaseRunning {
		t.Errorf("the status is %+v", node.Status)
	}
}

// An edit in the middle of an update is where the node ends, without a pod of what
// came before it where that is not there yet.
func TestSeed002EditedInMidRollout(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.fullNode("alpha"))
	r.ready("alpha")
	release := r.sidecars.Node(r.namespace, "alpha").Block("mark-ready")
	r.setImage("alpha", imageB)
	r.until("alpha", "the update to be at its last task", func(n *v1alpha1.SeiNode) bool {
		return n.Status.Plan != nil && n.Status.CurrentImage == imageB
	})
	r.setImage("alpha", imageC)
	release()
	r.runs("alpha", imageC)
	r.ready("alpha")
}

// The steps at which an update waits for something outside: for a safe moment to stop
// seid, for the new pod, and for its sidecar.
func TestSeed000StatefulSetDeletedAtEachStepOfANodeUpdate(t *testing.T) {
	t.Parallel()
	const wrong = "registry.example.com/seid:pull-fails"
	for name, at := range map[string]func(*rig) (goOn func()){
		"before it is noticed": func(r *rig) func() {
			r.setImage("alpha", imageB)
			return func() {}
		},
		"while it waits for a safe stop": func(r *rig) func() {
			safe := r.unsafe("alpha")
			r.setImage("alpha", imageB)
			r.until("alpha", "the update to wait", has(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWaitingForSafeStop))
			return safe
		},
		"while it waits for the new pod": func(r *rig) func() {
			r.setImage("alpha", wrong)
			r.until("alpha", "the image to be told of", has(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonImagePullBackOff))
			return func() { r.setImage("alpha", imageB) }
		},
		"while it waits for the sidecar": func(r *rig) func() {
			release := r.sidecars.Node(r.namespace, "alpha").Block("mark-ready")
			r.setImage("alpha", imageB)
			r.until("alpha", "the update to be at its last task", func(n *v1alpha1.SeiNode) bool { return n.Status.CurrentImage == imageB })
			return release
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.create(r.fullNode("alpha"))
			before := r.ready("alpha")
			goOn := at(r)
			set := &appsv1.StatefulSet{}
			r.get("alpha", set)
			r.delete(set)
			r.statefulSet("alpha", "the StatefulSet to be back", func(s *appsv1.StatefulSet) bool { return s.UID != set.UID })
			goOn()
			node := r.runs("alpha", imageB)
			r.tracked("alpha", set.UID)
			if node.Status.DataVolume.UID != before.Status.DataVolume.UID {
				t.Error("the volume is another one")
			}
		})
	}
}
