package kube

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/lab/kube/volumes"
)

func createClaim(t *testing.T, ns, class string, annotations map[string]string) *corev1.PersistentVolumeClaim {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data", Annotations: annotations},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	if class != "" {
		claim.Spec.StorageClassName = &class
	}
	claim, err := client.CoreV1().PersistentVolumeClaims(ns).Create(t.Context(), claim, metav1.CreateOptions{})
	must(t, err)
	return claim
}

func waitClaim(t *testing.T, ns, what string, good func(*corev1.PersistentVolumeClaim) bool) *corev1.PersistentVolumeClaim {
	t.Helper()
	return eventually(t, "claim "+what, func(ctx context.Context) (*corev1.PersistentVolumeClaim, error) {
		return client.CoreV1().PersistentVolumeClaims(ns).Get(ctx, "data", metav1.GetOptions{})
	}, good)
}

func bound(claim *corev1.PersistentVolumeClaim) bool { return claim.Status.Phase == corev1.ClaimBound }

func patchClaim(t *testing.T, ns, patch string) error {
	t.Helper()
	_, err := client.CoreV1().PersistentVolumeClaims(ns).Patch(t.Context(), "data", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

const grow = `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`

func hasSize(claim *corev1.PersistentVolumeClaim, size string) bool {
	want := resource.MustParse(size)
	return claim.Status.Capacity.Storage().Cmp(want) == 0
}

// resizing returns the type of the condition that tells about a resize. There are
// others, for example Unused.
func resizing(claim *corev1.PersistentVolumeClaim) corev1.PersistentVolumeClaimConditionType {
	for _, c := range claim.Status.Conditions {
		if c.Type == corev1.PersistentVolumeClaimResizing || c.Type == corev1.PersistentVolumeClaimControllerResizeError {
			return c.Type
		}
	}
	return ""
}

func getVolume(t *testing.T, name string) *corev1.PersistentVolume {
	t.Helper()
	volume, err := client.CoreV1().PersistentVolumes().Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	return volume
}

func TestClaimIsBound(t *testing.T) {
	ns := namespace(t)
	createClaim(t, ns, "", nil)
	claim := waitClaim(t, ns, "bound", bound)
	if claim.Spec.StorageClassName == nil || *claim.Spec.StorageClassName != "standard" || !hasSize(claim, "1Gi") {
		t.Errorf("claim: %+v", claim)
	}
	volume := getVolume(t, claim.Spec.VolumeName)
	if volume.Spec.ClaimRef.UID != claim.UID || volume.Spec.StorageClassName != "standard" {
		t.Errorf("volume: %+v", volume.Spec)
	}
}

func TestClaimWaitsForItsFirstConsumer(t *testing.T) {
	ns, other := namespace(t), namespace(t)
	createClaim(t, ns, "wait", nil)
	// Another claim, made later and bound by now: this one could have been, too.
	createClaim(t, other, "standard", nil)
	waitClaim(t, other, "bound", bound)
	if claim := waitClaim(t, ns, "there", func(*corev1.PersistentVolumeClaim) bool { return true }); claim.Spec.VolumeName != "" {
		t.Errorf("bound without a consumer: %+v", claim)
	}
	spec := podSpec("seid:v1")
	spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}}
	createPod(t, ns, "pod", spec, nil)
	waitPod(t, ns, "pod", "ready", ready)
	waitClaim(t, ns, "bound", bound)

	// A claim in use is protected until its last pod is gone.
	must(t, client.CoreV1().PersistentVolumeClaims(ns).Delete(t.Context(), "data", metav1.DeleteOptions{}))
	waitClaim(t, ns, "terminating", func(c *corev1.PersistentVolumeClaim) bool { return c.DeletionTimestamp != nil })
	must(t, client.CoreV1().Pods(ns).Delete(t.Context(), "pod", metav1.DeleteOptions{}))
	waitGoneClaim(t, ns)
}

func waitGoneClaim(t *testing.T, ns string) {
	t.Helper()
	eventually(t, "claim gone", func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().PersistentVolumeClaims(ns).Get(ctx, "data", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	}, func(gone bool) bool { return gone })
}

func TestVolumeGoesWithItsClaim(t *testing.T) {
	ns := namespace(t)
	createClaim(t, ns, "standard", nil)
	volume := waitClaim(t, ns, "bound", bound).Spec.VolumeName
	must(t, client.CoreV1().PersistentVolumeClaims(ns).Delete(t.Context(), "data", metav1.DeleteOptions{}))
	waitGoneClaim(t, ns)
	eventually(t, "volume gone", func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().PersistentVolumes().Get(ctx, volume, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	}, func(gone bool) bool { return gone })
}

func TestRetainedVolumeStays(t *testing.T) {
	ns, other := namespace(t), namespace(t)
	createClaim(t, ns, "standard", nil)
	name := waitClaim(t, ns, "bound", bound).Spec.VolumeName
	_, err := client.CoreV1().PersistentVolumes().Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`), metav1.PatchOptions{})
	must(t, err)
	must(t, client.CoreV1().PersistentVolumeClaims(ns).Delete(t.Context(), "data", metav1.DeleteOptions{}))
	eventually(t, "volume released", func(ctx context.Context) (*corev1.PersistentVolume, error) {
		return client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	}, func(v *corev1.PersistentVolume) bool { return v.Status.Phase == corev1.VolumeReleased })
	// Another volume is deleted meanwhile: this one could have been, too.
	createClaim(t, other, "standard", nil)
	waitClaim(t, other, "bound", bound)
	must(t, client.CoreV1().PersistentVolumeClaims(other).Delete(t.Context(), "data", metav1.DeleteOptions{}))
	waitGoneClaim(t, other)
	getVolume(t, name)
	must(t, client.CoreV1().PersistentVolumes().Delete(t.Context(), name, metav1.DeleteOptions{}))
}

func TestClaimGrows(t *testing.T) {
	ns := namespace(t)
	created := createClaim(t, ns, "standard", nil)
	waitClaim(t, ns, "bound", bound)
	watch, err := client.CoreV1().PersistentVolumeClaims(ns).Watch(t.Context(), metav1.SingleObject(created.ObjectMeta))
	must(t, err)
	defer watch.Stop()
	must(t, patchClaim(t, ns, grow))
	claim := waitClaim(t, ns, "grown", func(c *corev1.PersistentVolumeClaim) bool { return hasSize(c, "2Gi") })
	if resizing(claim) != "" || len(claim.Status.AllocatedResourceStatuses) != 0 {
		t.Errorf("status: %+v", claim.Status)
	}
	if size := getVolume(t, claim.Spec.VolumeName).Spec.Capacity.Storage(); size.Cmp(resource.MustParse("2Gi")) != 0 {
		t.Errorf("the volume has %s", size)
	}
	// On its way it told that it was being resized.
	for event := range watch.ResultChan() {
		seen := event.Object.(*corev1.PersistentVolumeClaim)
		if hasSize(seen, "2Gi") {
			t.Error("never was Resizing")
			break
		}
		if resizing(seen) == corev1.PersistentVolumeClaimResizing &&
			seen.Status.AllocatedResourceStatuses[corev1.ResourceStorage] == corev1.PersistentVolumeClaimControllerResizeInProgress {
			break
		}
	}
}

func TestClaimThatCannotGrow(t *testing.T) {
	ns, other := namespace(t), namespace(t)
	createClaim(t, ns, "standard", map[string]string{volumes.ResizeAnnotation: volumes.ResizeFails})
	waitClaim(t, ns, "bound", bound)
	must(t, patchClaim(t, ns, grow))
	claim := waitClaim(t, ns, "failed to grow", func(c *corev1.PersistentVolumeClaim) bool {
		return resizing(c) == corev1.PersistentVolumeClaimControllerResizeError
	})
	if got := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]; got != corev1.PersistentVolumeClaimControllerResizeInfeasible {
		t.Errorf("state %s", got)
	}
	eventually(t, "event", func(ctx context.Context) (*corev1.EventList, error) {
		return client.CoreV1().Events(ns).List(ctx, metav1.ListOptions{FieldSelector: "reason=VolumeResizeFailed,type=Warning"})
	}, func(l *corev1.EventList) bool { return len(l.Items) == 1 })
	// Another claim grows meanwhile: this one could have, too.
	createClaim(t, other, "standard", nil)
	waitClaim(t, other, "bound", bound)
	must(t, patchClaim(t, other, grow))
	waitClaim(t, other, "grown", func(c *corev1.PersistentVolumeClaim) bool { return hasSize(c, "2Gi") })
	if claim := waitClaim(t, ns, "there", bound); !hasSize(claim, "1Gi") {
		t.Errorf("status: %+v", claim.Status)
	}
	must(t, patchClaim(t, ns, `{"metadata":{"annotations":{"`+volumes.ResizeAnnotation+`":null}}}`))
	claim = waitClaim(t, ns, "grown", func(c *corev1.PersistentVolumeClaim) bool { return hasSize(c, "2Gi") })
	if resizing(claim) != "" {
		t.Errorf("status: %+v", claim.Status)
	}
}

func TestFixedClassRefusesToGrow(t *testing.T) {
	ns := namespace(t)
	createClaim(t, ns, "fixed", nil)
	waitClaim(t, ns, "bound", bound)
	if err := patchClaim(t, ns, grow); !apierrors.IsForbidden(err) {
		t.Errorf("error: %v", err)
	}
}
