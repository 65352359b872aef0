package operator_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/test/cluster"
)

func (r *rig) pause(name string, paused bool) {
	r.t.Helper()
	r.edit(name, func(n *v1alpha1.SeiNode) { n.Spec.Paused = paused })
}

var isPaused = has(v1alpha1.ConditionPaused, metav1.ConditionTrue, v1alpha1.ReasonPaused)

// noPod fails when a paused node has a pod.
func (r *rig) noPod(name string) {
	r.t.Helper()
	var pods corev1.PodList
	if err := r.person.List(r.t.Context(), &pods, client.InNamespace(r.namespace), client.MatchingLabels{v1alpha1.LabelNode: name}); err != nil {
		r.t.Fatal(err)
	}
	if len(pods.Items) > 0 {
		r.t.Errorf("the node is paused and has the pod %s", pods.Items[0].Name)
	}
}

func TestSeed001PausedScalesToZeroAndBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.fullNode("alpha", func(n *v1alpha1.SeiNode) {
		n.Spec.PodAnnotations = map[string]string{"lab.sei.io/termination": "slow"}
	}))
	before := r.ready("alpha")
	r.pause("alpha", true)
	// While the pod ends, nobody may take the volume.
	r.until("alpha", "the pod to be ending", has(v1alpha1.ConditionPaused, metav1.ConditionFalse, v1alpha1.ReasonStopping))
	change(r, r.pod("alpha", "the pod", func(*corev1.Pod) bool { return true }), func(p *corev1.Pod) { p.Annotations = nil })
	r.until("alpha", "the node to be paused", isPaused)
	r.noPod("alpha")
	set := &appsv1.StatefulSet{}
	r.get("alpha", set)
	if *set.Spec.Replicas != 0 {
		t.Errorf("it has %d replicas", *set.Spec.Replicas)
	}
	ledger := len(r.ran("alpha"))
	r.pause("alpha", false)
	after := r.ready("alpha")
	if after.Status.StatefulSet.UID != before.Status.StatefulSet.UID || after.Status.DataVolume.UID != before.Status.DataVolume.UID {
		t.Errorf("the StatefulSet or the volume is another one")
	}
	if after.Status.LastPlan.StartTime != before.Status.LastPlan.StartTime || len(r.ran("alpha")) != ledger {
		t.Errorf("there was another plan: %+v, %v", after.Status.LastPlan, r.ran("alpha"))
	}
}

// The story of seed 000: a Job measures the volume of a paused node.
func TestAJobUsesTheVolumeOfAPausedNode(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.fullNode("alpha"))
	r.ready("alpha")
	r.pause("alpha", true)
	r.until("alpha", "the node to be paused", isPaused)

	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "measure"},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "measure", Image: "registry.example.com/measure:v1"}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-alpha"},
			}}},
		}}},
	}
	r.create(job)
	cluster.Eventually(t, r.person, r.key("measure"), "the Job to be done", func(j *batchv1.Job) bool { return j.Status.Succeeded == 1 })
	r.pause("alpha", false)
	r.ready("alpha")
}

func TestANodeWaitsForTheVolumeThatSomebodyElseUses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.fullNode("alpha"))
	r.ready("alpha")
	r.pause("alpha", true)
	r.until("alpha", "the node to be paused", isPaused)
	user := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "somebody"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "use", Image: "registry.example.com/use:v1"}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-alpha"},
			}}},
		},
	}
	r.create(user)
	r.until("alpha", "the user to be noticed", has(v1alpha1.ConditionDataVolumeReady, metav1.ConditionFalse, v1alpha1.ReasonVolumeInUse))
	r.pause("alpha", false)
	node := r.until("alpha", "Ready to say so", has(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonVolumeInUse))
	r.noPod("alpha")
	if message := ready(node).Message; !contains(message, "somebody") {
		t.Errorf("the message does not name the pod: %s", message)
	}
	r.delete(user)
	r.ready("alpha")
}

func TestAnImageEditedWhilePausedNeverBootsTheOldOne(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.fullNode("alpha"))
	r.ready("alpha")
	images := r.watchImages("alpha")
	// The edit comes at once with the pause, before it, after it, and together with
	// its end: whatever the pod is doing at that moment.
	for i, edit := range []func(image string){
		func(image string) {
			r.pause("alpha", true)
			r.until("alpha", "the node to be paused", isPaused)
			r.edit("alpha", func(n *v1alpha1.SeiNode) { n.Spec.Image = image })
			r.pause("alpha", false)
		},
		func(image string) {
			r.edit("alpha", func(n *v1alpha1.SeiNode) { n.Spec.Paused, n.Spec.Image = true, image })
			r.until("alpha", "the node to be paused", isPaused)
			r.pause("alpha", false)
		},
		func(image string) {
			r.pause("alpha", true)
			r.until("alpha", "the node to be paused", isPaused)
			r.edit("alpha", func(n *v1alpha1.SeiNode) { n.Spec.Paused, n.Spec.Image = false, image })
		},
	} {
		image := []string{"registry.example.com/seid:v2", "registry.example.com/seid:v3", "registry.example.com/seid:v4"}[i]
		edit(image)
		r.until("alpha", "the node to run "+image, func(n *v1alpha1.SeiNode) bool { return isReady(n) && n.Status.CurrentImage == image })
	}
	want := []string{image, "registry.example.com/seid:v2", "registry.example.com/seid:v3", "registry.example.com/seid:v4"}
	if got := images(); !equal(got, want) {
		t.Errorf("pods were made with %v, want %v", got, want)
	}
}

func TestPauseInEveryPhase(t *testing.T) {
	t.Parallel()
	t.Run("Pending", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.create(r.validator("alpha"))
		r.until("alpha", "the node to wait for its key", has(v1alpha1.ConditionSigningKeyReady, metav1.ConditionFalse, v1alpha1.ReasonSecretNotFound))
		r.pause("alpha", true)
		r.until("alpha", "the node to be paused", isPaused)
		r.createKeys("alpha")
		r.pause("alpha", false)
		r.ready("alpha")
	})
	t.Run("Initializing", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		release := r.sidecars.Node(r.namespace, "alpha").Block("configure-genesis")
		r.create(r.fullNode("alpha"))
		r.began("configure-genesis")
		r.pause("alpha", true)
		node := r.until("alpha", "the node to be paused", isPaused)
		if node.Status.Phase != v1alpha1.PhaseInitializing || node.Status.Plan == nil {
			t.Errorf("the phase is %s, the plan %v", node.Status.Phase, node.Status.Plan)
		}
		r.noPod("alpha")
		release()
		r.pause("alpha", false)
		after := r.ready("alpha")
		if after.Status.LastPlan.StartTime != node.Status.Plan.StartTime {
			t.Error("the plan was not carried on with")
		}
	})
	t.Run("Failed", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.sidecars.Node(r.namespace, "alpha").Fail("configure-genesis", 1, "ChainIDMismatch", "it belongs to another chain", false)
		r.create(r.fullNode("alpha"))
		r.until("alpha", "the node to have failed", func(n *v1alpha1.SeiNode) bool { return n.Status.Phase == v1alpha1.PhaseFailed })
		r.pause("alpha", true)
		node := r.until("alpha", "the node to be paused", isPaused)
		if node.Status.Phase != v1alpha1.PhaseFailed {
			t.Errorf("the phase is %s", node.Status.Phase)
		}
		r.noPod("alpha")
		r.edit("alpha", func(n *v1alpha1.SeiNode) {
			n.Spec.Paused = false
			n.Annotations = map[string]string{v1alpha1.AnnotationRetry: "now"}
		})
		r.ready("alpha")
	})
}
