package volumes

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations by which the volume controller, the scheduler and provisioners talk.
const (
	annotationProvisioner   = "volume.kubernetes.io/storage-provisioner"
	annotationSelectedNode  = "volume.kubernetes.io/selected-node"
	annotationProvisionedBy = "pv.kubernetes.io/provisioned-by"
)

// asksUs says whether the volume controller has chosen us to provision the claim.
func asksUs(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Annotations[annotationProvisioner] == Driver && claim.Spec.StorageClassName != nil &&
		claim.Spec.VolumeName == "" && claim.DeletionTimestamp == nil
}

// wantsVolume says whether it is time to: a class that waits for a consumer also
// needs the scheduler's choice of a node.
func wantsVolume(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) bool {
	waits := class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	return !waits || claim.Annotations[annotationSelectedNode] != ""
}

// newVolume is named after the claim's uid, so that making it twice makes it once.
func newVolume(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) *corev1.PersistentVolume {
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "pvc-" + string(claim.UID),
			Annotations: map[string]string{annotationProvisionedBy: Driver},
		},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: claim.Spec.AccessModes,
			Capacity: corev1.ResourceList{
				corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage],
			},
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			},
			StorageClassName: class.Name,
			VolumeMode:       claim.Spec.VolumeMode,
			MountOptions:     class.MountOptions,
		},
	}
	if class.ReclaimPolicy != nil {
		volume.Spec.PersistentVolumeReclaimPolicy = *class.ReclaimPolicy
	}
	return volume
}

// mayDelete says whether a volume of ours has lost its claim and is not to be retained.
func mayDelete(volume *corev1.PersistentVolume) bool {
	return volume.Annotations[annotationProvisionedBy] == Driver &&
		volume.Status.Phase == corev1.VolumeReleased &&
		volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete &&
		volume.DeletionTimestamp == nil
}
