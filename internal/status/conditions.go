package status

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/render"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

func condition(kind v1alpha1.ConditionType, status metav1.ConditionStatus, reason v1alpha1.ConditionReason, message string) metav1.Condition {
	return metav1.Condition{Type: string(kind), Status: status, Reason: string(reason), Message: message}
}

func isTrue(yes bool) metav1.ConditionStatus {
	if yes {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// conditions are all conditions of a node, in the order of v1alpha1.SeiNodeConditions.
func conditions(in Input) []metav1.Condition {
	ready := summary(in)
	all := []metav1.Condition{
		condition(v1alpha1.ConditionReady, isTrue(ready.ready), ready.Reason, ready.Message),
		reconciling(in, ready), stalled(ready),
		nodeUpdate(in), sidecarReady(in), paused(in), held(in), dataVolume(in),
	}
	for _, key := range []struct {
		condition v1alpha1.ConditionType
		kind      plan.KeyKind
	}{
		{v1alpha1.ConditionSigningKeyReady, plan.SigningKey},
		{v1alpha1.ConditionNodeKeyReady, plan.NodeKey},
		{v1alpha1.ConditionOperatorKeyringReady, plan.OperatorKeyring},
	} {
		all = append(all, keyReady(in, key.condition, key.kind))
	}
	return append(all, stateSync(in), upgradeHalted(in), sidecarHealthy(in))
}

func reconciling(in Input, ready verdict) metav1.Condition {
	status := in.Node.Status
	switch {
	case in.Node.DeletionTimestamp != nil:
		return condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonTerminating, "The node is being deleted.")
	case in.Node.Spec.Paused && !ready.Stalled:
		stopping := in.Seen.Pod != nil
		return condition(v1alpha1.ConditionReconciling, isTrue(stopping), v1alpha1.ReasonPaused, "The node is paused.")
	case ready.Stalled:
		return condition(v1alpha1.ConditionReconciling, metav1.ConditionFalse, ready.Reason, "The operator cannot go on by itself.")
	case status.Plan != nil:
		return condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonProgressing, fmt.Sprintf("The plan %s is carried out.", status.Plan.Type))
	case !ready.ready:
		return condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, ready.Reason, "The node is on its way to being ready.")
	}
	return condition(v1alpha1.ConditionReconciling, metav1.ConditionFalse, v1alpha1.ReasonSettled, "Nothing is under way.")
}

func stalled(ready verdict) metav1.Condition {
	if ready.Stalled {
		return condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, ready.Reason, ready.Message)
	}
	return condition(v1alpha1.ConditionStalled, metav1.ConditionFalse, v1alpha1.ReasonSettled, "Nothing stands in the way that needs a person.")
}

func nodeUpdate(in Input) metav1.Condition {
	kind, p := v1alpha1.ConditionNodeUpdateInProgress, in.Node.Status.Plan
	switch {
	case p != nil && (p.Type == v1alpha1.PlanNodeUpdate || p.Type == v1alpha1.PlanConfigUpdate):
		return condition(kind, metav1.ConditionTrue, v1alpha1.ConditionReason(p.Reason), p.Message)
	case in.Decision.Step == plan.Waiting, in.Decision.Step == plan.BackOff && in.Node.Status.Phase == v1alpha1.PhaseRunning:
		return condition(kind, metav1.ConditionFalse, in.Decision.Reason, in.Decision.Message)
	}
	if found := plan.InTemplate(in.Input); found != nil && found.Stays() {
		return condition(kind, metav1.ConditionFalse, v1alpha1.ReasonForeignTemplate, found.Message)
	}
	return condition(kind, metav1.ConditionFalse, v1alpha1.ReasonUpToDate, "No update is under way.")
}

func sidecarReady(in Input) metav1.Condition {
	kind, sidecar := v1alpha1.ConditionSidecarReady, in.Seen.Sidecar
	if before := lastKnown(in, kind); before != nil && sidecar.New && in.Seen.Pod != nil {
		// A restart of the operator is no news about the node.
		return *before
	}
	due, _ := sidecarDue(in)
	switch {
	case in.Seen.Pod == nil && (in.Node.Status.Plan == nil || in.Node.Spec.Paused):
		return condition(kind, metav1.ConditionFalse, v1alpha1.ReasonNoPod, "There is no pod.")
	case !sidecar.Connected && due > 0:
		return condition(kind, metav1.ConditionFalse, v1alpha1.ReasonPodStarting, "The pod is not up yet.")
	case !sidecar.Connected:
		message := "The sidecar does not answer."
		if sidecar.Problem != "" {
			message = "The sidecar does not answer: " + sidecar.Problem
		}
		return condition(kind, metav1.ConditionUnknown, v1alpha1.ReasonUnreachable, message)
	case !sidecar.Status.Approved:
		return condition(kind, metav1.ConditionFalse, v1alpha1.ReasonNotApproved, "The sidecar answers and waits for the approval to run seid.")
	}
	return condition(kind, metav1.ConditionTrue, v1alpha1.ReasonApproved, "The sidecar answers and the node is approved to run.")
}

// paused is True when the pod is gone, and not before: others rely on it to use the
// volume.
func paused(in Input) metav1.Condition {
	kind := v1alpha1.ConditionPaused
	switch {
	case !in.Node.Spec.Paused:
		return condition(kind, metav1.ConditionFalse, v1alpha1.ReasonNotPaused, "The node is not paused.")
	case waitsToStop(in) != nil:
		return condition(kind, metav1.ConditionFalse, waitsToStop(in).Reason, waitsToStop(in).Message)
	case in.Seen.Pod != nil:
		return condition(kind, metav1.ConditionFalse, v1alpha1.ReasonStopping, fmt.Sprintf("The pod %s is still there.", in.Seen.Pod.Name))
	case !plan.Stopped(in.Input):
		return condition(kind, metav1.ConditionFalse, v1alpha1.ReasonStopping, "The StatefulSet is not scaled down yet.")
	}
	return condition(kind, metav1.ConditionTrue, v1alpha1.ReasonPaused, fmt.Sprintf("The pod is gone and the claim %s is free.", render.ClaimName(in.Node)))
}

// waitsToStop is why a pause or a deletion does not stop seid yet; nil: it does.
func waitsToStop(in Input) *plan.Gate {
	if replicas, gate := plan.Replicas(in.Input); replicas > 0 {
		return gate
	}
	return nil
}

// held stays as it was while nobody can tell: the hold is on the volume.
func held(in Input) metav1.Condition {
	kind, sidecar := v1alpha1.ConditionHeld, in.Seen.Sidecar
	if before := lastKnown(in, kind); before != nil && !sidecar.Connected {
		return *before
	}
	if sidecar.Status.Held {
		return condition(kind, metav1.ConditionTrue, v1alpha1.ReasonHeld, heldMessage(in))
	}
	return condition(kind, metav1.ConditionFalse, v1alpha1.ReasonNotHeld, "The node is not held.")
}

// lastKnown is a condition as it was last written; nil: it never was.
func lastKnown(in Input, kind v1alpha1.ConditionType) *metav1.Condition {
	return meta.FindStatusCondition(in.Persisted.Conditions, string(kind))
}

func heldMessage(in Input) string {
	message := "A hold keeps seid from running until it is released with a SeiNodeTask of kind ReleaseHold."
	if why := in.Seen.Sidecar.Status.HeldReason; why != "" {
		message += " It was placed because: " + why
	}
	return message
}

func dataVolume(in Input) metav1.Condition {
	verdict := plan.Volume(in.Input)
	return condition(v1alpha1.ConditionDataVolumeReady, verdict.Status, verdict.Reason, verdict.Message)
}

// keyReady stays as it was while nobody looks at the key, because the node is being
// deleted. A keyring may be added later, and what was said without one is then no
// longer true.
func keyReady(in Input, kind v1alpha1.ConditionType, key plan.KeyKind) metav1.Condition {
	if !slices.Contains(plan.KeysOf(&in.Node.Spec), key) {
		return condition(kind, metav1.ConditionFalse, v1alpha1.ReasonNotConfigured, fmt.Sprintf("The spec names no %s.", key))
	}
	_, looked := in.Seen.Keys[key]
	if before := lastKnown(in, kind); !looked && before != nil && before.Reason != string(v1alpha1.ReasonNotConfigured) {
		return *before
	}
	gate := plan.KeyTrouble(in.Input, key)
	switch {
	case !looked:
		return condition(kind, metav1.ConditionUnknown, gate.Reason, gate.Message)
	case gate != nil:
		return condition(kind, metav1.ConditionFalse, gate.Reason, gate.Message)
	}
	if key == plan.SigningKey && endsWith(in, v1alpha1.ReasonSignedElsewhere) {
		return condition(kind, metav1.ConditionFalse, v1alpha1.ReasonSignedElsewhere, signedElsewhereMessage(in))
	}
	if why := in.Seen.Sidecar.Status.SignGuard.Message; key == plan.SigningKey && in.Seen.Sidecar.Connected && why != "" {
		return condition(kind, metav1.ConditionTrue, v1alpha1.ReasonSignStateGuarded, why+" seid looks for signatures of its own key before it signs, and does not sign while it finds any.")
	}
	message := fmt.Sprintf("The %s is there and well-formed, and no other node uses it.", key)
	if lease := plan.UnreadableRecord(in.Input); key == plan.SigningKey && lease != "" {
		message += fmt.Sprintf(" The annotation %s of the Lease %s cannot be read: restore it, or it is written anew at the next signature.", v1alpha1.AnnotationSigned, lease)
	}
	return condition(kind, metav1.ConditionTrue, v1alpha1.ReasonKeyValid, message)
}

// signedElsewhereMessage says what a person can do. That the sign state is accepted is the
// last of it. All of it fits into a condition: a person needs both heights to decide.
func signedElsewhereMessage(in Input) string {
	status := in.Seen.Sidecar.Status
	message := "seid does not sign: its key signed some of the last blocks."
	if why := status.SignGuard.Message; why != "" {
		message += " " + why
	}
	// Without the height nothing is offered: a wrong one would accept another sign state later.
	if status.SignHeight == nil {
		return message + " Stop the other signer for good: seid is tried again by itself."
	}
	return message + " " + acceptMessage(plan.SignStateAcceptance(in.Input, *status.SignHeight), *status.SignHeight)
}

// acceptMessage says how the sign state at this height is accepted, and what is wrong with
// an annotation that should do it and does not.
func acceptMessage(acceptance plan.Acceptance, height int64) string {
	const annotation, stop = v1alpha1.AnnotationAcceptSignState, "Stop the other signer for good. If there is none, "
	switch acceptance {
	case plan.AcceptanceUnreadable:
		return fmt.Sprintf(stop+"set %s=%d: the value that it has is not a height.", annotation, height)
	case plan.AcceptanceOfOther:
		return fmt.Sprintf(stop+"set %s=%d: the value that it has is another height.", annotation, height)
	case plan.AcceptanceUsed:
		return fmt.Sprintf(stop+"remove %s=%d and set it again: it counted once already.", annotation, height)
	case plan.AcceptanceRecorded:
		return fmt.Sprintf("%s=%d is recorded: seid is started with it as soon as the pod sees it.", annotation, height)
	case plan.AcceptanceMissing:
	}
	return fmt.Sprintf("Stop the other signer for good: seid is tried again by itself. If there is none and the chain stands still, set %s=%d.", annotation, height)
}

func stateSync(in Input) metav1.Condition {
	kind, count := v1alpha1.ConditionStateSyncReady, len(in.Want.Witnesses)
	switch {
	case in.Node.Spec.Snapshot() == nil:
		return condition(kind, metav1.ConditionFalse, v1alpha1.ReasonNotConfigured, "The node does not start from a snapshot.")
	case count < plan.MinWitnesses:
		return condition(kind, metav1.ConditionFalse, v1alpha1.ReasonTooFewWitnesses, fmt.Sprintf("State sync needs at least %d RPC servers and has %d.", plan.MinWitnesses, count))
	}
	if found := searchesInVain(in); in.Seen.Pod != nil && found != nil {
		return condition(kind, metav1.ConditionFalse, found.Reason, found.Message)
	}
	return condition(kind, metav1.ConditionTrue, v1alpha1.ReasonWitnessesFound, fmt.Sprintf("There are %d RPC servers to verify a snapshot against.", count))
}

func upgradeHalted(in Input) metav1.Condition {
	kind, upgrade := v1alpha1.ConditionUpgradeHalted, in.Seen.Sidecar.Status.Upgrade
	if before := lastKnown(in, kind); before != nil && !in.Seen.Sidecar.Connected {
		return *before
	}
	switch {
	case upgrade.Halted:
		return condition(kind, metav1.ConditionTrue, v1alpha1.ReasonUpgradeNeeded, upgradeMessage(in))
	case upgrade.Name != "":
		return condition(kind, metav1.ConditionFalse, v1alpha1.ReasonUpgradePending, fmt.Sprintf("The upgrade %q is due at %s.", upgrade.Name, upgradeHeight(upgrade)))
	}
	return condition(kind, metav1.ConditionFalse, v1alpha1.ReasonNoUpgrade, "No upgrade is known.")
}

// upgradeHeight never names a height that is only near the right one as if it were it.
func upgradeHeight(upgrade api.Upgrade) string {
	if upgrade.Rounded {
		return fmt.Sprintf("about height %d", upgrade.Height)
	}
	return fmt.Sprintf("height %d", upgrade.Height)
}

func upgradeMessage(in Input) string {
	upgrade := in.Seen.Sidecar.Status.Upgrade
	if in.Seen.Sidecar.Status.Seid.State == api.SeidRunning {
		return fmt.Sprintf("seid gets no block for %s, where the upgrade %q is due: set spec.image to one that has it. If it has, the chain waits for other validators.", upgradeHeight(upgrade), upgrade.Name)
	}
	return fmt.Sprintf("seid stopped at height %d for the upgrade %q: set spec.image to one that has it.", upgrade.Height, upgrade.Name)
}
