package plan

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/render"
)

// VolumeVerdict is how it stands with the data volume.
type VolumeVerdict struct {
	Status  metav1.ConditionStatus
	Reason  v1alpha1.ConditionReason
	Message string
	// Holds: no pod may be made that mounts it.
	Holds bool
	// Stalled: only a person can change that.
	Stalled bool
}

// Volume judges the claim of the data volume. The order is that of what people
// fear most.
func Volume(in Input) VolumeVerdict {
	claim, tracked := in.Seen.Claim, trackedVolume(in.Node)
	name := render.ClaimName(in.Node)
	bad := func(reason v1alpha1.ConditionReason, stalled bool, format string, args ...any) VolumeVerdict {
		return VolumeVerdict{Status: metav1.ConditionFalse, Reason: reason, Message: fmt.Sprintf(format, args...), Holds: true, Stalled: stalled}
	}
	switch {
	case claim == nil && tracked != nil:
		return bad(v1alpha1.ReasonDataVolumeLost, true, "The claim %s (uid %s), which held the data of this node, is gone. Restore it, or set the annotation %s=%s to start again with an empty volume.",
			tracked.Name, tracked.UID, v1alpha1.AnnotationAcceptNewVolume, tracked.UID)
	case claim == nil && imported(in.Node):
		return bad(v1alpha1.ReasonImportNotFound, false, "The claim %s, which dataVolume.import names, does not exist: create it in namespace %s.", name, in.Node.Namespace)
	case claim == nil:
		return VolumeVerdict{Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotBound, Message: fmt.Sprintf("The claim %s is not made yet.", name)}
	case tracked != nil && claim.UID != tracked.UID:
		return bad(v1alpha1.ReasonDataVolumeLost, true, "The claim %s now has the uid %s; the one that held the data of this node had %s. Nothing uses the new one. Restore the old one, or set the annotation %s=%s to use the new one as it is.",
			name, claim.UID, tracked.UID, v1alpha1.AnnotationAcceptNewVolume, tracked.UID)
	case claim.DeletionTimestamp != nil:
		return bad(v1alpha1.ReasonDataVolumeTerminating, false, "%s", terminatingMessage(in))
	case imported(in.Node) && unusable(in) != "":
		return bad(v1alpha1.ReasonImportInvalid, true, "The claim %s cannot be imported: %s.", name, unusable(in))
	case !imported(in.Node) && mismatch(in) != "":
		return bad(v1alpha1.ReasonRetainedVolumeMismatch, true, "The claim %s belongs to another node: %s. Delete or rename one of the two.", name, mismatch(in))
	case len(in.Seen.OtherPods) > 0:
		return bad(v1alpha1.ReasonVolumeInUse, false, "The claim %s is used by the pod %s; this node starts when that pod is gone.", name, strings.Join(in.Seen.OtherPods, ", "))
	}
	if gate := heldByOther(in, VolumeWish(in)); gate != nil {
		return bad(gate.Reason, gate.Stalled, "%s", gate.Message)
	}
	return ownClaim(in)
}

// ownClaim judges a claim that is the node's own.
func ownClaim(in Input) VolumeVerdict {
	claim := in.Seen.Claim
	is := func(status metav1.ConditionStatus, reason v1alpha1.ConditionReason, format string, args ...any) VolumeVerdict {
		return VolumeVerdict{Status: status, Reason: reason, Message: fmt.Sprintf("The claim %s ", claim.Name) + fmt.Sprintf(format, args...)}
	}
	switch has, wants := claim.Status.Capacity[corev1.ResourceStorage], claim.Spec.Resources.Requests[corev1.ResourceStorage]; {
	case claim.Status.Phase != corev1.ClaimBound:
		return is(metav1.ConditionFalse, v1alpha1.ReasonNotBound, "is not bound to a volume yet.")
	case DiskNearlyFull(in):
		return is(metav1.ConditionFalse, v1alpha1.ReasonDiskNearlyFull, "is nearly full: less than a tenth of it is free. Raise spec.dataVolume.size.")
	case in.ExpansionRefused != "":
		return is(metav1.ConditionFalse, v1alpha1.ReasonExpansionFailed, "cannot grow to %s: %s", in.Node.Spec.DataVolume.Size, in.ExpansionRefused)
	case has.Cmp(wants) < 0 && infeasible(claim):
		return is(metav1.ConditionFalse, v1alpha1.ReasonExpansionFailed, "cannot grow to %s: the storage says that this cannot be done. The node runs on with %s.", &wants, &has)
	case has.Cmp(wants) < 0:
		return is(metav1.ConditionTrue, v1alpha1.ReasonExpanding, "grows from %s to %s.", &has, &wants)
	}
	return is(metav1.ConditionTrue, v1alpha1.ReasonBound, "is bound to volume %s.", claim.Spec.VolumeName)
}

// volumeGate is shut while no pod may mount the volume.
func volumeGate(in Input) *Gate {
	verdict := Volume(in)
	if !verdict.Holds {
		return nil
	}
	return &Gate{Reason: verdict.Reason, Message: verdict.Message, Stalled: verdict.Stalled}
}

// trackedVolume is the volume that holds the node's data. A person may say that it
// is lost for good; the uid in the annotation makes sure that it is meant.
func trackedVolume(node *v1alpha1.SeiNode) *v1alpha1.ObjectIdentity {
	tracked := node.Status.DataVolume
	if tracked != nil && node.Annotations[v1alpha1.AnnotationAcceptNewVolume] == string(tracked.UID) {
		return nil
	}
	return tracked
}

// volumeGivenUp tells whether a person gave up the volume that the node was on, and
// nothing runs on it any more: everything is then set up again, on another.
func volumeGivenUp(in Input) bool {
	had, claim, pod := in.Node.Status.DataVolume, in.Seen.Claim, in.Seen.Pod
	return had != nil && trackedVolume(in.Node) == nil && (claim == nil || claim.UID != had.UID) &&
		(pod == nil || pod.Status.Phase == corev1.PodPending)
}

// makesVolume tells whether a plan is about to make the volume, or to take one.
func makesVolume(p *v1alpha1.Plan) bool {
	return p.Tasks[0].Type == TaskEnsureDataPVC && p.Tasks[0].Status != v1alpha1.PlanTaskComplete
}

func imported(node *v1alpha1.SeiNode) bool {
	return node.Spec.DataVolume != nil && node.Spec.DataVolume.Import != nil
}

// mismatch says what speaks against a claim of the right name; empty: nothing.
func mismatch(in Input) string {
	node, claim := in.Node, in.Seen.Claim
	for _, want := range []struct{ label, value string }{
		{v1alpha1.LabelNode, node.Name}, {v1alpha1.LabelChain, node.Spec.ChainID}, {v1alpha1.LabelMode, string(node.Spec.Mode())},
	} {
		if got := claim.Labels[want.label]; got != want.value {
			return fmt.Sprintf("its label %s is %q and not %q", want.label, got, want.value)
		}
	}
	// A volume that is adopted holds the sign state of one key. With another key that
	// says nothing about what was signed.
	signed, key := claim.Labels[v1alpha1.LabelConsensusAddress], in.Seen.Keys[SigningKey].Address
	if node.Status.DataVolume == nil && signed != "" && key != "" && signed != key {
		return fmt.Sprintf("it holds the sign state of the address %s, and the signing key of this node has the address %s", signed, key)
	}
	return ""
}
