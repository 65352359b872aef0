package operator_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// The tests in this file are the acceptance criteria of seed 000: a StatefulSet that
// was deleted comes back.

// tracked waits until a node is Ready and tracks another StatefulSet than before.
func (r *rig) tracked(name string, before types.UID) *v1alpha1.SeiNode {
	r.t.Helper()
	return r.until(name, "another StatefulSet to be tracked and the node to be ready", func(n *v1alpha1.SeiNode) bool {
		return n.Status.StatefulSet != nil && n.Status.StatefulSet.UID != before && isReady(n)
	})
}

// sidecarImage is the image of the sidecar in a template.
func sidecarImage(template *corev1.PodTemplateSpec) string {
	for i := range template.Spec.InitContainers {
		if template.Spec.InitContainers[i].Name == "sei-sidecar" {
			return template.Spec.InitContainers[i].Image
		}
	}
	return ""
}

func TestSeed000RecreatedAfterDelete(t *testing.T) {
	t.Parallel()
	w := &writes{}
	r := newRig(t, w.record)
	r.create(r.fullNode("alpha"))
	before := r.ready("alpha")
	claim, ledger := r.claim("alpha"), r.ran("alpha")
	w.forget()

	set := &appsv1.StatefulSet{}
	r.get("alpha", set)
	r.delete(set)
	after := r.tracked("alpha", set.UID)

	live := &appsv1.StatefulSet{}
	r.get("alpha", live)
	if live.UID == set.UID || after.Status.StatefulSet.UID != live.UID {
		t.Errorf("tracked is %s, deleted was %s, there is %s", after.Status.StatefulSet.UID, set.UID, live.UID)
	}
	if now := r.claim("alpha"); now.UID != claim.UID || after.Status.DataVolume.UID != claim.UID {
		t.Errorf("the claim was %s and is %s", claim.UID, now.UID)
	}
	if diff := cmp.Diff(ledger, r.ran("alpha")); diff != "" {
		t.Errorf("tasks were run again (-before +after):\n%s", diff)
	}
	if after.Status.LastPlan.StartTime != before.Status.LastPlan.StartTime {
		t.Errorf("there was another plan: %+v", after.Status.LastPlan)
	}
	if made := w.of("apply", "StatefulSet"); len(made) != 1 {
		t.Errorf("it was written %d times: %v", len(made), w.all())
	}
	if deleted := w.of("delete", "StatefulSet"); len(deleted) != 0 {
		t.Errorf("something was deleted: %v", deleted)
	}
}

func TestSeed000RecreatedFromTheCurrentSpecWithThePlatformsSidecarImage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.fullNode("alpha"))
	r.ready("alpha")
	claim := r.claim("alpha")
	r.stop()
	const newer = "registry.example.com/sidecar:v2"
	r.config.Platform.SidecarImage = newer
	set := &appsv1.StatefulSet{}
	r.get("alpha", set)
	r.delete(set)
	r.start()
	after := r.tracked("alpha", set.UID)
	live := &appsv1.StatefulSet{}
	r.get("alpha", live)
	if got := sidecarImage(&live.Spec.Template); got != newer {
		t.Errorf("the sidecar's image is %s", got)
	}
	pod := r.pod("alpha", "a pod with the new sidecar", func(p *corev1.Pod) bool {
		return sidecarImage(&corev1.PodTemplateSpec{Spec: p.Spec}) == newer
	})
	if pod.Spec.Volumes[0].Name == "" || after.Status.DataVolume.UID != claim.UID {
		t.Errorf("the claim was %s and is %s", claim.UID, after.Status.DataVolume.UID)
	}
}

func TestSeed000DeletedWhileBootstrapIsActiveAndItFinishes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	release := r.sidecars.Node(r.namespace, "alpha").Block("configure-genesis")
	r.create(r.fullNode("alpha"))
	r.began("configure-genesis")
	set := &appsv1.StatefulSet{}
	r.get("alpha", set)
	claim := r.claim("alpha")
	r.delete(set)
	r.statefulSet("alpha", "another StatefulSet", func(s *appsv1.StatefulSet) bool { return s.UID != set.UID })
	release()
	node := r.tracked("alpha", set.UID)
	if node.Status.DataVolume.UID != claim.UID {
		t.Errorf("the claim was %s and is %s", claim.UID, node.Status.DataVolume.UID)
	}
	if diff := cmp.Diff([]string{"configure-genesis#1", "config-apply#1", "config-validate#1", "mark-ready#1"}, r.ran("alpha")); diff != "" {
		t.Errorf("the sidecar ran (-want +got):\n%s", diff)
	}
}

// A pod that outlives its StatefulSet goes on: the new one takes it over.
func TestSeed000DeletedWithoutItsPod(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.fullNode("alpha"))
	r.ready("alpha")
	pod := r.pod("alpha", "the pod", func(*corev1.Pod) bool { return true })
	set := &appsv1.StatefulSet{}
	r.get("alpha", set)
	r.delete(set, orphan)
	r.tracked("alpha", set.UID)
	same := r.pod("alpha", "the pod to have an owner again", func(p *corev1.Pod) bool {
		return len(p.OwnerReferences) == 1 && p.OwnerReferences[0].UID != set.UID
	})
	if same.UID != pod.UID {
		t.Errorf("the pod was replaced")
	}
}
