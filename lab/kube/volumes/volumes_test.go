package volumes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func size(s string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(s)}
}

func boundClaim(wants, has string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		Spec:   corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{Requests: size(wants)}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: size(has)},
	}
}

func ourVolume(has string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotationProvisionedBy: Driver}},
		Spec:       corev1.PersistentVolumeSpec{Capacity: size(has)},
	}
}

// TestResizeStepByStep plays a resize through without a cluster.
func TestResizeStepByStep(t *testing.T) {
	claim, volume := boundClaim("2Gi", "1Gi"), ourVolume("1Gi")
	take := func(want step) {
		t.Helper()
		got := nextStep(claim, volume)
		if got != want {
			t.Fatalf("step %d, want %d; status %+v", got, want, claim.Status)
		}
		if got == stepGrow {
			volume.Spec.Capacity = claim.Spec.Resources.Requests.DeepCopy()
		} else {
			applyStep(claim, got, metav1.Now())
		}
	}
	take(stepBegin)
	take(stepGrow)
	take(stepFinish)
	take(stepNone)

	claim.Spec.Resources.Requests = size("3Gi")
	claim.Annotations = map[string]string{ResizeAnnotation: ResizeFails}
	take(stepFail)
	take(stepNone)

	// Taken back: the failure is forgotten.
	claim.Spec.Resources.Requests = size("2Gi")
	take(stepFinish)
	take(stepNone)
	if len(claim.Status.Conditions) != 0 || claim.Status.Capacity.Storage().String() != "2Gi" {
		t.Errorf("status: %+v", claim.Status)
	}

	// Allowed again, and raised once more on the way.
	claim.Annotations = nil
	claim.Spec.Resources.Requests = size("3Gi")
	take(stepBegin)
	take(stepGrow)
	claim.Spec.Resources.Requests = size("4Gi")
	take(stepBegin)
	take(stepGrow)
	take(stepFinish)
	take(stepNone)
}

func TestForeignVolumesAreLeftAlone(t *testing.T) {
	claim, volume := boundClaim("2Gi", "1Gi"), ourVolume("1Gi")
	volume.Annotations = nil
	if got := nextStep(claim, volume); got != stepNone {
		t.Errorf("step %d", got)
	}
	volume.Status.Phase = corev1.VolumeReleased
	volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	if mayDelete(volume) {
		t.Error("would delete a volume of somebody else")
	}
	volume.Annotations = map[string]string{annotationProvisionedBy: Driver}
	if !mayDelete(volume) {
		t.Error("would keep a volume of ours")
	}
	volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	if mayDelete(volume) {
		t.Error("would delete a volume that is to be retained")
	}
}
