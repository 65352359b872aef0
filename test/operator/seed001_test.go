package operator_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/test/cluster"
)

// The tests in this file are the acceptance criteria of seed 001: the StatefulSet is
// tracked by name and uid.

const orphan = client.PropagationPolicy(metav1.DeletePropagationOrphan)

// someStatefulSet is one of a node's name that nobody controls.
func (r *rig) someStatefulSet(name string, change ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	labels := map[string]string{v1alpha1.LabelNode: name}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "other", Image: "registry.example.com/other:v1"}}},
			},
		},
	}
	for _, f := range change {
		f(set)
	}
	return set
}

func TestSeed001TrackedOnStatus(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.fullNode("alpha"))
	node := r.ready("alpha")
	set := &appsv1.StatefulSet{}
	r.get("alpha", set)
	if diff := cmp.Diff(&v1alpha1.ObjectIdentity{Name: "alpha", UID: set.UID}, node.Status.StatefulSet); diff != "" {
		t.Errorf("tracked is (-want +got):\n%s", diff)
	}
	if set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType || *set.Spec.Replicas != 1 {
		t.Errorf("it has the strategy %s and %d replicas", set.Spec.UpdateStrategy.Type, *set.Spec.Replicas)
	}
}

func TestSeed001Adopted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	set := r.someStatefulSet("alpha")
	r.create(set)
	r.create(r.fullNode("alpha"))
	node := r.ready("alpha")
	if node.Status.StatefulSet.UID != set.UID {
		t.Errorf("tracked is %s and not the one that was there, %s", node.Status.StatefulSet.UID, set.UID)
	}
	r.get("alpha", set)
	if !metav1.IsControlledBy(set, node) {
		t.Errorf("its owners are %v", set.OwnerReferences)
	}
}

func TestSeed001AdoptedWithOtherImmutableFields(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	set := r.someStatefulSet("alpha", func(s *appsv1.StatefulSet) {
		s.Spec.ServiceName, s.Spec.PodManagementPolicy = "other", appsv1.ParallelPodManagement
		s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "scratch"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: quantity("1Gi")}},
			},
		}}
	})
	r.create(set)
	r.create(r.fullNode("alpha"))
	node := r.ready("alpha")
	live := &appsv1.StatefulSet{}
	r.get("alpha", live)
	if node.Status.StatefulSet.UID != set.UID || live.UID != set.UID {
		t.Errorf("it was replaced")
	}
	if live.Spec.ServiceName != "other" || live.Spec.PodManagementPolicy != appsv1.ParallelPodManagement || len(live.Spec.VolumeClaimTemplates) != 1 {
		t.Errorf("what cannot be changed is %q, %s and %d templates", live.Spec.ServiceName, live.Spec.PodManagementPolicy, len(live.Spec.VolumeClaimTemplates))
	}
}

// replaceByImpostor puts another StatefulSet in the place of a node's own.
func (r *rig) replaceByImpostor(name string) *appsv1.StatefulSet {
	r.t.Helper()
	set := &appsv1.StatefulSet{}
	r.get(name, set)
	r.delete(set)
	cluster.Gone[*appsv1.StatefulSet](r.t, r.person, r.key(name), "the StatefulSet to be gone")
	impostor := r.someStatefulSet(name)
	r.create(impostor)
	return impostor
}

func TestSeed001ImpostorIsReplacedOnce(t *testing.T) {
	t.Parallel()
	w := &writes{}
	r := newRig(t, w.record)
	r.create(r.fullNode("alpha"))
	r.ready("alpha")
	claim := r.claim("alpha")
	r.stop()
	impostor := r.replaceByImpostor("alpha")
	w.forget()
	r.start()
	node := r.until("alpha", "the impostor to be replaced", func(n *v1alpha1.SeiNode) bool {
		live := &appsv1.StatefulSet{}
		return isReady(n) && n.Status.StatefulSet != nil && r.person.Get(t.Context(), r.key("alpha"), live) == nil &&
			live.UID == n.Status.StatefulSet.UID && live.UID != impostor.UID
	})
	r.settled("alpha")
	if deleted, made := w.of("delete", "StatefulSet"), w.of("apply", "StatefulSet"); len(deleted) != 1 || len(made) != 1 {
		t.Errorf("it was deleted %d times and made %d times: %v", len(deleted), len(made), w.all())
	}
	if node.Status.DataVolume.UID != claim.UID {
		t.Errorf("the claim was %s and is %s", claim.UID, node.Status.DataVolume.UID)
	}
}

func TestSeed001ImpostorDeleteFollowedByAnApplyInTheSamePass(t *testing.T) {
	t.Parallel()
	w := &writes{}
	r := newRig(t, w.record)
	sidecar := r.sidecars.Node(r.namespace, "alpha")
	release := sidecar.Block("configure-genesis")
	r.create(r.fullNode("alpha"))
	r.began("configure-genesis")
	r.stop()
	r.replaceByImpostor("alpha")
	// Another plan follows, whose apply-statefulset meets the impostor.
	r.edit("alpha", func(n *v1alpha1.SeiNode) { n.Spec.Image = "registry.example.com/seid:v2" })
	release()
	w.forget()
	r.start()
	r.until("alpha", "the node to run the edited image", func(n *v1alpha1.SeiNode) bool {
		return isReady(n) && n.Status.CurrentImage == "registry.example.com/seid:v2"
	})
	r.settled("alpha")
	if deleted, made := w.of("delete", "StatefulSet"), w.of("apply", "StatefulSet"); len(deleted) != 1 || len(made) != 1 {
		t.Errorf("it was deleted %d times and made %d times: %v", len(deleted), len(made), w.all())
	}
}

// The operator dies between making a StatefulSet and writing down which one it is.
func TestSeed001CrashBetweenCreateAndRecord(t *testing.T) {
	t.Parallel()
	w := &writes{}
	var made atomic.Bool
	w.refuse(func(write kube.Write) error {
		if write.Subresource == "status" && made.Load() {
			return errors.New("the operator is dead")
		}
		made.CompareAndSwap(false, write.Verb == "apply" && write.Kind == "StatefulSet")
		return nil
	})
	r := newRig(t, w.record)
	r.create(r.fullNode("alpha"))
	fresh := r.statefulSet("alpha", "the StatefulSet to be made", func(*appsv1.StatefulSet) bool { return true })
	r.stop()
	w.refuse(nil)
	w.forget()
	r.start()
	node := r.ready("alpha")
	if node.Status.StatefulSet.UID != fresh.UID {
		t.Errorf("tracked is %s; the one that was made is %s", node.Status.StatefulSet.UID, fresh.UID)
	}
	if deleted := w.of("delete", "StatefulSet"); len(deleted) != 0 {
		t.Errorf("the fresh one was deleted")
	}
}

func TestAForeignStatefulSetIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*appsv1.StatefulSet){
		"that selects other pods": func(s *appsv1.StatefulSet) {
			s.Spec.Selector.MatchLabels = map[string]string{"app": "other"}
			s.Spec.Template.Labels = map[string]string{"app": "other"}
		},
		"that somebody else controls": func(s *appsv1.StatefulSet) {
			s.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: "example.com/v1", Kind: "Database", Name: "other", UID: "0b8f2d5e-9f3f-4d2e-8f2a-6a1f8f4b7c10", Controller: new(true),
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &writes{}
			r := newRig(t, w.record)
			foreign := r.someStatefulSet("alpha", change)
			r.create(foreign)
			r.create(r.fullNode("alpha"))
			r.until("alpha", "the foreign StatefulSet to be told of", has(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonForeignStatefulSet))
			live := &appsv1.StatefulSet{}
			r.get("alpha", live)
			if live.UID != foreign.UID || live.Generation != 1 || len(w.of("apply", "StatefulSet")) != 0 || len(w.of("create", "PersistentVolumeClaim")) != 0 {
				t.Errorf("something was done: %v", w.all())
			}
			r.delete(live)
			r.ready("alpha")
		})
	}
}
