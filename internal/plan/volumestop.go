package plan

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// volumeAtRisk holds every stop of ours while the claim is being deleted under a pod
// that runs: Kubernetes keeps the claim exactly as long as the pod is there, and the
// data goes with it.
func volumeAtRisk(in Input) *Gate {
	claim, pod := in.Seen.Claim, in.Seen.Pod
	if claim == nil || claim.DeletionTimestamp == nil || pod == nil || pod.DeletionTimestamp != nil || !PodAlive(pod) {
		return nil
	}
	deletes := in.Node.DeletionTimestamp != nil && !imported(in.Node) && in.Node.Spec.DataVolume != nil &&
		in.Node.Spec.DataVolume.DeletionPolicy == v1alpha1.DeletionPolicyDelete
	if deletes || in.Seen.ReclaimPolicy == corev1.PersistentVolumeReclaimRetain || in.Node.Annotations[v1alpha1.AnnotationAcceptVolumeLoss] == string(claim.UID) {
		return nil
	}
	return &Gate{Reason: v1alpha1.ReasonDataVolumeTerminating, Stalled: true, Message: terminatingMessage(in)}
}

// terminatingMessage tells how data is saved whose claim is being deleted.
func terminatingMessage(in Input) string {
	claim := in.Seen.Claim
	switch {
	case in.Node.Status.DataVolume == nil:
		return fmt.Sprintf("The claim %s is being deleted. This node starts when it is gone.", claim.Name)
	case podGone(in):
		return fmt.Sprintf("The claim %s, which holds the data of this node, is being deleted, and no pod keeps it.", claim.Name)
	}
	return fmt.Sprintf("The claim %s is being deleted, and is kept by the pod alone, which is not stopped. Set the reclaim policy of volume %s to Retain to save the data, or give it up with the annotation %s=%s.",
		claim.Name, claim.Spec.VolumeName, v1alpha1.AnnotationAcceptVolumeLoss, claim.UID)
}

// unusable says why a claim cannot be imported; empty: it can.
func unusable(in Input) string {
	claim := in.Seen.Claim
	writable := slices.ContainsFunc(claim.Spec.AccessModes, func(mode corev1.PersistentVolumeAccessMode) bool {
		return mode != corev1.ReadOnlyMany
	})
	switch owner := in.Seen.ClaimOwner; {
	case claim.Status.Phase == corev1.ClaimLost:
		return "its volume is lost"
	case claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode == corev1.PersistentVolumeBlock:
		return "it is a block device, and seid needs a file system"
	case !writable:
		return "it can only be read"
	case owner != "":
		return fmt.Sprintf("it is the data volume of the SeiNode %s, which exists", owner)
	}
	return ""
}

// infeasible tells whether the storage refused to grow a claim for good.
func infeasible(claim *corev1.PersistentVolumeClaim) bool {
	state := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]
	return state == corev1.PersistentVolumeClaimControllerResizeInfeasible || state == corev1.PersistentVolumeClaimNodeResizeInfeasible
}

// Expansion is the size that the claim has to grow to; nil: none. Only a size that a
// person wrote into the spec makes it grow: a new default of the platform must not
// make every volume of a fleet larger. It never shrinks.
func Expansion(in Input) *resource.Quantity {
	claim, volume, tracked := in.Seen.Claim, in.Node.Spec.DataVolume, in.Node.Status.DataVolume
	if volume == nil || volume.Size == nil || imported(in.Node) || in.Node.DeletionTimestamp != nil {
		return nil
	}
	if claim == nil || tracked == nil || claim.UID != tracked.UID || claim.DeletionTimestamp != nil || claim.Status.Phase != corev1.ClaimBound {
		return nil
	}
	if has := claim.Spec.Resources.Requests[corev1.ResourceStorage]; volume.Size.Cmp(has) <= 0 {
		return nil
	}
	return volume.Size
}

// The share of free space, in percent, below which a disk is nearly full, and above
// which it is so no longer. They differ, so that a disk at the limit is not told of
// with every block.
const (
	nearlyFull = 10
	roomAgain  = 13
)

// DiskNearlyFull tells whether the data volume is about to be full. While the sidecar
// is silent it is what it was.
func DiskNearlyFull(in Input) bool {
	before := meta.FindStatusCondition(in.Persisted.Conditions, string(v1alpha1.ConditionDataVolumeReady))
	was := before != nil && before.Reason == string(v1alpha1.ReasonDiskNearlyFull)
	status := in.Seen.Sidecar.Status
	if !in.Seen.Sidecar.Connected || status.TotalBytes == 0 {
		return was
	}
	limit := int64(nearlyFull)
	if was {
		limit = roomAgain
	}
	return status.FreeBytes < status.TotalBytes/100*limit
}
