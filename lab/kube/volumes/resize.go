package volumes

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ResizeAnnotation with the value ResizeFails on a claim makes its volume refuse
// to grow, for as long as it is there.
const (
	ResizeAnnotation = "lab.sei.io/resize"
	ResizeFails      = "fails"
)

// step is what a resize does next. Each step changes one object, and the change
// brings the claim back here for the next one.
type step int

const (
	stepNone   step = iota
	stepBegin       // tell that the volume is being resized
	stepGrow        // raise the volume's capacity
	stepFinish      // raise the claim's capacity
	stepFail        // tell that it cannot be resized
)

// nextStep compares a claim with its volume. Ours is a driver that needs nothing
// done on the node, so that a claim grows whether or not a pod uses it.
func nextStep(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) step {
	if volume.Annotations[annotationProvisionedBy] != Driver || claim.Status.Phase != corev1.ClaimBound ||
		claim.DeletionTimestamp != nil {
		return stepNone
	}
	wanted := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	has := claim.Status.Capacity[corev1.ResourceStorage]
	state := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]
	if wanted.Cmp(has) <= 0 {
		if state != "" {
			return stepFinish // The request was taken back after a failure.
		}
		return stepNone
	}
	if claim.Annotations[ResizeAnnotation] == ResizeFails {
		if state == corev1.PersistentVolumeClaimControllerResizeInfeasible {
			return stepNone
		}
		return stepFail
	}
	if allocated := claim.Status.AllocatedResources[corev1.ResourceStorage]; state != corev1.PersistentVolumeClaimControllerResizeInProgress || allocated.Cmp(wanted) != 0 {
		return stepBegin
	}
	if size := volume.Spec.Capacity[corev1.ResourceStorage]; size.Cmp(wanted) < 0 {
		return stepGrow
	}
	return stepFinish
}

func (p *Provisioner) resize(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	volume, err := p.volumes.Get(claim.Spec.VolumeName)
	if apierrors.IsNotFound(err) {
		return nil // Its event will bring us back.
	}
	if err != nil {
		return err
	}
	step := nextStep(claim, volume)
	switch step {
	case stepNone:
		return nil
	case stepGrow:
		volume = volume.DeepCopy()
		volume.Spec.Capacity[corev1.ResourceStorage] = claim.Spec.Resources.Requests[corev1.ResourceStorage]
		_, err = p.client.CoreV1().PersistentVolumes().Update(ctx, volume, metav1.UpdateOptions{})
	default:
		changed := claim.DeepCopy()
		applyStep(changed, step, metav1.Now())
		_, err = p.client.CoreV1().PersistentVolumeClaims(claim.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // We looked at an old state; the event of the new one is on its way.
	}
	if err == nil {
		p.tell(ctx, claim, step)
	}
	return err
}

// applyStep changes the claim's status as the resizer of a CSI driver does.
func applyStep(claim *corev1.PersistentVolumeClaim, step step, now metav1.Time) {
	status := &claim.Status
	wanted := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	switch step {
	case stepNone, stepGrow: // Nothing of the claim's.
	case stepBegin:
		setResize(status, wanted, corev1.PersistentVolumeClaimControllerResizeInProgress)
		status.Conditions = append(withoutResize(status.Conditions), corev1.PersistentVolumeClaimCondition{
			Type: corev1.PersistentVolumeClaimResizing, Status: corev1.ConditionTrue, LastTransitionTime: now,
		})
	case stepFail:
		setResize(status, wanted, corev1.PersistentVolumeClaimControllerResizeInfeasible)
		status.Conditions = append(withoutResize(status.Conditions), corev1.PersistentVolumeClaimCondition{
			Type: corev1.PersistentVolumeClaimControllerResizeError, Status: corev1.ConditionTrue, LastTransitionTime: now,
			Message: failure(claim),
		})
	case stepFinish:
		status.Capacity = resourceList(status.Capacity)
		if has := status.Capacity[corev1.ResourceStorage]; has.Cmp(wanted) < 0 {
			status.Capacity[corev1.ResourceStorage] = wanted
		}
		status.AllocatedResources = resourceList(status.AllocatedResources)
		status.AllocatedResources[corev1.ResourceStorage] = status.Capacity[corev1.ResourceStorage]
		delete(status.AllocatedResourceStatuses, corev1.ResourceStorage)
		status.Conditions = withoutResize(status.Conditions)
	}
}

func setResize(status *corev1.PersistentVolumeClaimStatus, wanted resource.Quantity, state corev1.ClaimResourceStatus) {
	status.AllocatedResources = resourceList(status.AllocatedResources)
	status.AllocatedResources[corev1.ResourceStorage] = wanted
	if status.AllocatedResourceStatuses == nil {
		status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{}
	}
	status.AllocatedResourceStatuses[corev1.ResourceStorage] = state
}

func resourceList(list corev1.ResourceList) corev1.ResourceList {
	if list == nil {
		return corev1.ResourceList{}
	}
	return list
}

func withoutResize(conditions []corev1.PersistentVolumeClaimCondition) []corev1.PersistentVolumeClaimCondition {
	var kept []corev1.PersistentVolumeClaimCondition
	for _, condition := range conditions {
		switch condition.Type {
		case corev1.PersistentVolumeClaimResizing, corev1.PersistentVolumeClaimControllerResizeError,
			corev1.PersistentVolumeClaimNodeResizeError, corev1.PersistentVolumeClaimFileSystemResizePending:
		default:
			kept = append(kept, condition)
		}
	}
	return kept
}

func failure(claim *corev1.PersistentVolumeClaim) string {
	return fmt.Sprintf("resize volume %q by resizer %q failed: rpc error: code = OutOfRange desc = the volume cannot grow", claim.Spec.VolumeName, Driver)
}

// tell sends the events people look for. They are only words: a lost one is not missed.
func (p *Provisioner) tell(ctx context.Context, claim *corev1.PersistentVolumeClaim, step step) {
	kind := corev1.EventTypeNormal
	var reason, message string
	switch step {
	case stepBegin:
		reason, message = "Resizing", "External resizer is resizing volume "+claim.Spec.VolumeName
	case stepFinish:
		reason, message = "VolumeResizeSuccessful", "Resize volume succeeded"
	case stepFail:
		kind, reason, message = corev1.EventTypeWarning, "VolumeResizeFailed", failure(claim)
	default:
		return
	}
	now := metav1.Now()
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name:      fmt.Sprintf("%s.%x", claim.Name, time.Now().UnixNano()),
			Namespace: claim.Namespace,
		},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace,
			Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
		},
		Type: kind, Reason: reason, Message: message,
		Source:         corev1.EventSource{Component: "external-resizer " + Driver},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	_, _ = p.client.CoreV1().Events(claim.Namespace).Create(ctx, event, metav1.CreateOptions{})
}
