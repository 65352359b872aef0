package plan

import (
	"strconv"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// Acceptance is what a person's annotation does for the sign state on the volume.
type Acceptance string

// What it does.
const (
	// AcceptanceMissing: there is no annotation, or it is not recorded yet.
	AcceptanceMissing Acceptance = "Missing"
	// AcceptanceUnreadable: the annotation is not a height.
	AcceptanceUnreadable Acceptance = "Unreadable"
	// AcceptanceOfOther: it has another height than the sign state.
	AcceptanceOfOther Acceptance = "OfOther"
	// AcceptanceRecorded: it counts for the next start of seid.
	AcceptanceRecorded Acceptance = "Recorded"
	// AcceptanceUsed: seid signed under it once, and it does not count again.
	AcceptanceUsed Acceptance = "Used"
)

// SignStateAcceptance is what the annotation does for a sign state at this height. An
// annotation that does nothing looks like one that was not read yet, so the condition says it.
func SignStateAcceptance(in Input, height int64) Acceptance {
	_, annotated := in.Node.Annotations[v1alpha1.AnnotationAcceptSignState]
	accepted := acceptedSignState(in.Node)
	switch {
	case !annotated:
		return AcceptanceMissing
	case accepted == nil:
		return AcceptanceUnreadable
	case *accepted != height:
		return AcceptanceOfOther
	}
	_, _, lease, known := signingLease(in)
	switch {
	case !known || !usedUp(lease.Signed, *accepted):
		return AcceptanceMissing
	case in.Seen.Claim.UID == lease.Signed.Volume && stillAccepted(in.Node, lease.Signed) != nil:
		return AcceptanceRecorded
	}
	return AcceptanceUsed
}

// usedUp tells whether this height was accepted before. It counts once: the same
// annotation does not accept what the volume is put back to later.
func usedUp(record SignRecord, accepted int64) bool {
	return record.Accepted != nil && *record.Accepted == accepted
}

// acceptedSignState is the height of the sign state that a person accepts; nil: none.
func acceptedSignState(node *v1alpha1.SeiNode) *int64 {
	height, err := strconv.ParseInt(node.Annotations[v1alpha1.AnnotationAcceptSignState], 10, 64)
	if err != nil || height < 0 {
		return nil
	}
	return &height
}

// stillAccepted is the height of the sign state that a person accepted and still accepts;
// nil: none. A Lease outlives the annotation, and what was accepted once must not turn the
// guard off for another node or volume.
func stillAccepted(node *v1alpha1.SeiNode, record SignRecord) *int64 {
	accepted := acceptedSignState(node)
	if accepted == nil || record.Accepted == nil || *accepted != *record.Accepted || *accepted != record.Height {
		return nil
	}
	return accepted
}
