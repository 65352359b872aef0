package v1alpha1

// The conditions of a SeiNode beside Ready, Reconciling and Stalled. All of them
// are present once the node was reconciled.
const (
	// ConditionNodeUpdateInProgress is True while a plan changes a running node.
	ConditionNodeUpdateInProgress ConditionType = "NodeUpdateInProgress"
	// ConditionSidecarReady is True while the sidecar answers and the node is approved.
	ConditionSidecarReady ConditionType = "SidecarReady"
	// ConditionPaused is True when the node is paused and its pod is gone.
	ConditionPaused ConditionType = "Paused"
	// ConditionHeld is True while a hold keeps seid from running.
	ConditionHeld ConditionType = "Held"
	// ConditionDataVolumeReady is True when the node's own volume is there and bound.
	ConditionDataVolumeReady ConditionType = "DataVolumeReady"
	// ConditionSigningKeyReady is True when the signing key is there, well-formed
	// and reserved for this node.
	ConditionSigningKeyReady ConditionType = "SigningKeyReady"
	// ConditionNodeKeyReady is True when the node key is there, well-formed and
	// reserved for this node.
	ConditionNodeKeyReady ConditionType = "NodeKeyReady"
	// ConditionOperatorKeyringReady is True when the keyring and its passphrase are there.
	ConditionOperatorKeyringReady ConditionType = "OperatorKeyringReady"
	// ConditionStateSyncReady is True when state sync has the RPC servers it needs.
	ConditionStateSyncReady ConditionType = "StateSyncReady"
	// ConditionUpgradeHalted is True while seid is stopped at the height of an
	// upgrade that its image does not have, or gets no block there.
	ConditionUpgradeHalted ConditionType = "UpgradeHalted"
	// ConditionSidecarHealthy is False while the sidecar reports a problem; the reason is the
	// sidecar's own. Nothing is decided by it.
	ConditionSidecarHealthy ConditionType = "SidecarHealthy"
)

// SeiNodeConditions are all conditions of a SeiNode, in the order in which they
// are shown.
var SeiNodeConditions = []ConditionType{
	ConditionReady, ConditionReconciling, ConditionStalled,
	ConditionNodeUpdateInProgress, ConditionSidecarReady, ConditionPaused, ConditionHeld,
	ConditionDataVolumeReady, ConditionSigningKeyReady, ConditionNodeKeyReady,
	ConditionOperatorKeyringReady, ConditionStateSyncReady, ConditionUpgradeHalted,
	ConditionSidecarHealthy,
}

// Reasons of Ready, Reconciling and Stalled.
const (
	// ReasonRunning: the pod is ready and the node follows the chain.
	ReasonRunning ConditionReason = "Running"
	// ReasonBootstrapping: the node is being brought up for the first time.
	ReasonBootstrapping ConditionReason = "Bootstrapping"
	// ReasonUpdating: the node is being updated.
	ReasonUpdating ConditionReason = "Updating"
	// ReasonCatchingUp: seid runs and lags behind the chain.
	ReasonCatchingUp ConditionReason = "CatchingUp"
	// ReasonNoBlocks: seid runs and has no block yet.
	ReasonNoBlocks ConditionReason = "NoBlocks"
	// ReasonNoPeers: seid is connected with no other node.
	ReasonNoPeers ConditionReason = "NoPeers"
	// ReasonBlockTooOld: others have newer blocks, and seid got none for long.
	ReasonBlockTooOld ConditionReason = "BlockTooOld"
	// ReasonNoSnapshotFound: seid looks for a snapshot to start from, and no peer has one.
	ReasonNoSnapshotFound ConditionReason = "NoSnapshotFound"
	// ReasonNetworkStalled: the node is ready; the chain makes no blocks.
	ReasonNetworkStalled ConditionReason = "NetworkStalled"
	// ReasonPodNotReady: the pod is there and not ready, for no better-known reason.
	ReasonPodNotReady ConditionReason = "PodNotReady"
	// ReasonPodUnreachable: the pod's Kubernetes node does not answer. Nothing is
	// started elsewhere until the pod is known to be gone.
	ReasonPodUnreachable ConditionReason = "PodUnreachable"
	// ReasonUnschedulable: no Kubernetes node takes the pod.
	ReasonUnschedulable ConditionReason = "Unschedulable"
	// ReasonImagePullBackOff: an image cannot be pulled.
	ReasonImagePullBackOff ConditionReason = "ImagePullBackOff"
	// ReasonCrashLoopBackOff: a container ends again and again.
	ReasonCrashLoopBackOff ConditionReason = "CrashLoopBackOff"
	// ReasonOOMKilled: a container was killed because it used too much memory.
	ReasonOOMKilled ConditionReason = "OOMKilled"
	// ReasonDiskNearlyFull: the data volume is nearly full.
	ReasonDiskNearlyFull ConditionReason = "DiskNearlyFull"
	// ReasonVolumeRuined: seid cannot start from what is on the volume.
	ReasonVolumeRuined ConditionReason = "VolumeRuined"
	// ReasonBinaryTooNew: the image has an upgrade that the chain has not reached yet.
	ReasonBinaryTooNew ConditionReason = "BinaryTooNew"
	// ReasonBinaryTooOld: the image lacks an upgrade that the data has behind it.
	ReasonBinaryTooOld ConditionReason = "BinaryTooOld"
	// ReasonSignedElsewhere: seid found signatures of its own key that it did not make.
	ReasonSignedElsewhere ConditionReason = "SignedElsewhere"
	// ReasonHeld: a hold keeps seid from running.
	ReasonHeld ConditionReason = "Held"
	// ReasonUpgradeHalted: seid waits for the image of an upgrade.
	ReasonUpgradeHalted ConditionReason = "UpgradeHalted"
	// ReasonPlanFailed: a plan failed; it is tried again with back-off.
	ReasonPlanFailed ConditionReason = "PlanFailed"
	// ReasonWaitingForBudget: other nodes are updating, and this one waits its turn.
	ReasonWaitingForBudget ConditionReason = "WaitingForBudget"
	// ReasonWaitingForSafeStop: seid must not be stopped at this moment.
	ReasonWaitingForSafeStop ConditionReason = "WaitingForSafeStop"
	// ReasonWaitingForTask: a SeiNodeTask runs that must not lose the pod.
	ReasonWaitingForTask ConditionReason = "WaitingForTask"
	// ReasonForeignStatefulSet: a StatefulSet of this name belongs to someone else.
	ReasonForeignStatefulSet ConditionReason = "ForeignStatefulSet"
	// ReasonForeignObject: another object of a name that this node needs belongs to
	// someone else.
	ReasonForeignObject ConditionReason = "ForeignObject"
	// ReasonAPIRefused: the API server refuses an object of this node, for example
	// because of a policy or a quota.
	ReasonAPIRefused ConditionReason = "APIRefused"
	// ReasonWaiting: something that the node needs is not there yet; the message and
	// the other conditions say what.
	ReasonWaiting ConditionReason = "Waiting"
	// ReasonKeyIdentityChanged: the keys are not those that the node was approved with.
	ReasonKeyIdentityChanged ConditionReason = "KeyIdentityChanged"
	// ReasonAccessNotGranted: the access proxy of the node may not ask the API server who
	// callers are, because nobody gave its ServiceAccount the right to.
	ReasonAccessNotGranted ConditionReason = "AccessNotGranted"
	// ReasonAuthorityInvalid: the authority that nodes get their certificates from
	// cannot be used.
	ReasonAuthorityInvalid ConditionReason = "AuthorityInvalid"
	// ReasonInvalidSpec: the spec cannot be rendered into a safe pod.
	ReasonInvalidSpec ConditionReason = "InvalidSpec"
)

// Reasons of NodeUpdateInProgress.
const (
	ReasonImageChanged        ConditionReason = "ImageChanged"
	ReasonSidecarImageChanged ConditionReason = "SidecarImageChanged"
	ReasonTemplateChanged     ConditionReason = "TemplateChanged"
	ReasonConfigChanged       ConditionReason = "ConfigChanged"
	// ReasonForeignTemplate: somebody else put something into the template of the pod,
	// and the operator does not remove it, or not again.
	ReasonForeignTemplate ConditionReason = "ForeignTemplate"
	ReasonUpToDate        ConditionReason = "UpToDate"
)

// Reasons of SidecarReady.
const (
	// ReasonApproved: the sidecar answers and the node is approved.
	ReasonApproved ConditionReason = "Approved"
	// ReasonNotApproved: the sidecar answers and waits for approval.
	ReasonNotApproved ConditionReason = "NotApproved"
	// ReasonUnreachable: the sidecar does not answer.
	ReasonUnreachable ConditionReason = "Unreachable"
	// ReasonNoPod: there is no pod, so no sidecar.
	ReasonNoPod ConditionReason = "NoPod"
	// ReasonPodStarting: the pod is coming up; its sidecar is not due yet.
	ReasonPodStarting ConditionReason = "PodStarting"
)

// Reasons of SidecarHealthy, beside those that the sidecar gives.
const (
	// ReasonNoProblems: the sidecar reports no problem.
	ReasonNoProblems ConditionReason = "NoProblems"
	// ReasonSidecarProblem: it reports one whose name cannot be a reason.
	ReasonSidecarProblem ConditionReason = "SidecarProblem"
)

// ReasonStopping is the reason of Paused while the pod is still there.
const ReasonStopping ConditionReason = "Stopping"

// ReasonNotHeld is the reason of Held when there is no hold.
const ReasonNotHeld ConditionReason = "NotHeld"

// Reasons of DataVolumeReady.
const (
	// ReasonBound: the claim is bound and is the node's own.
	ReasonBound ConditionReason = "Bound"
	// ReasonNotBound: the claim is there and not bound yet.
	ReasonNotBound ConditionReason = "NotBound"
	// ReasonExpanding: the claim is growing to the size of the spec.
	ReasonExpanding ConditionReason = "Expanding"
	// ReasonExpansionFailed: the claim cannot grow to the size of the spec.
	ReasonExpansionFailed ConditionReason = "ExpansionFailed"
	// ReasonVolumeInUse: another pod uses the claim.
	ReasonVolumeInUse ConditionReason = "VolumeInUse"
	// ReasonDataVolumeLost: the claim that held the node's data is gone.
	ReasonDataVolumeLost ConditionReason = "DataVolumeLost"
	// ReasonDataVolumeTerminating: the claim is being deleted.
	ReasonDataVolumeTerminating ConditionReason = "DataVolumeTerminating"
	// ReasonRetainedVolumeMismatch: a claim of this name holds the data of another node.
	ReasonRetainedVolumeMismatch ConditionReason = "RetainedVolumeMismatch"
	// ReasonImportNotFound: the claim to import does not exist.
	ReasonImportNotFound ConditionReason = "ImportNotFound"
	// ReasonImportInvalid: the claim to import cannot be used.
	ReasonImportInvalid ConditionReason = "ImportInvalid"
)

// Reasons of SigningKeyReady, NodeKeyReady and OperatorKeyringReady.
const (
	// ReasonKeyValid: the Secret is there and holds what it should.
	ReasonKeyValid ConditionReason = "KeyValid"
	// ReasonSecretNotFound: the Secret does not exist.
	ReasonSecretNotFound ConditionReason = "SecretNotFound"
	// ReasonSecretTerminating: the Secret is being deleted.
	ReasonSecretTerminating ConditionReason = "SecretTerminating"
	// ReasonKeyMalformed: the Secret does not hold what it should.
	ReasonKeyMalformed ConditionReason = "KeyMalformed"
	// ReasonKeyInUse: another SeiNode has reserved this key.
	ReasonKeyInUse ConditionReason = "KeyInUse"
	// ReasonSignStateGuarded: the sign state may not know of all that the key signed, and
	// seid looks for its own signatures before it signs.
	ReasonSignStateGuarded ConditionReason = "SignStateGuarded"
)

// Reasons of StateSyncReady.
const (
	// ReasonWitnessesFound: at least two RPC servers are known.
	ReasonWitnessesFound ConditionReason = "WitnessesFound"
	// ReasonTooFewWitnesses: fewer than two RPC servers are known.
	ReasonTooFewWitnesses ConditionReason = "TooFewWitnesses"
)

// Reasons of UpgradeHalted.
const (
	// ReasonUpgradeNeeded: seid stopped at the height of an upgrade it does not have, or
	// gets no block there.
	ReasonUpgradeNeeded ConditionReason = "UpgradeNeeded"
	// ReasonUpgradePending: an upgrade is scheduled at a height not yet reached.
	ReasonUpgradePending ConditionReason = "UpgradePending"
	// ReasonNoUpgrade: no upgrade is known.
	ReasonNoUpgrade ConditionReason = "NoUpgrade"
)
