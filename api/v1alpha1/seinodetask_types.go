package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SeiNodeTask is one operation on one node. It runs once and keeps its outcome:
// "kubectl wait --for=condition=Ready" returns when it succeeded,
// "--for=condition=Failed" when it did not.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=snt
// +kubebuilder:selectablefield:JSONPath=`.spec.target.nodeRef.name`
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.kind`
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.target.nodeRef.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`
type SeiNodeTask struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the operation. It cannot be changed.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the spec of a SeiNodeTask cannot be changed: create another SeiNodeTask"
	Spec SeiNodeTaskSpec `json:"spec"`

	// status is how far the operation is.
	// +optional
	Status SeiNodeTaskStatus `json:"status,omitempty"`
}

// SeiNodeTaskList is a list of SeiNodeTasks.
//
// +kubebuilder:object:root=true
type SeiNodeTaskList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SeiNodeTask `json:"items"`
}

// SeiNodeTaskSpec is an operation on a node: the kind, the node, and the payload
// that goes with the kind.
//
// +kubebuilder:validation:XValidation:rule="has(self.restartSeid) == (self.kind == 'RestartSeid')",message="kind RestartSeid goes with \"restartSeid: {}\" and no other payload"
// +kubebuilder:validation:XValidation:rule="has(self.discoverPeers) == (self.kind == 'DiscoverPeers')",message="kind DiscoverPeers goes with \"discoverPeers: {}\" and no other payload"
// +kubebuilder:validation:XValidation:rule="has(self.markReady) == (self.kind == 'MarkReady')",message="kind MarkReady goes with \"markReady: {}\" and no other payload"
// +kubebuilder:validation:XValidation:rule="has(self.holdNode) == (self.kind == 'HoldNode')",message="kind HoldNode goes with \"holdNode: {}\" and no other payload"
// +kubebuilder:validation:XValidation:rule="has(self.releaseHold) == (self.kind == 'ReleaseHold')",message="kind ReleaseHold goes with \"releaseHold: {}\" and no other payload"
// +kubebuilder:validation:XValidation:rule="has(self.resyncNode) == (self.kind == 'ResyncNode')",message="kind ResyncNode goes with \"resyncNode: {}\" and no other payload"
// +kubebuilder:validation:XValidation:rule="has(self.updateNodeImage) == (self.kind == 'UpdateNodeImage')",message="kind UpdateNodeImage goes with \"updateNodeImage: {image: ...}\" and no other payload"
// +kubebuilder:validation:XValidation:rule="has(self.awaitCondition) == (self.kind == 'AwaitCondition')",message="kind AwaitCondition goes with \"awaitCondition\" and no other payload"
// +kubebuilder:validation:XValidation:rule="has(self.awaitNodesAtHeight) == (self.kind == 'AwaitNodesAtHeight')",message="kind AwaitNodesAtHeight goes with \"awaitNodesAtHeight: {targetHeight: ...}\" and no other payload"
type SeiNodeTaskSpec struct {
	// kind of the operation. Each kind has a payload field of its own.
	// +required
	Kind SeiNodeTaskKind `json:"kind"`

	// target is the node that the operation is for.
	// +required
	Target TaskTarget `json:"target"`

	// timeoutSeconds is how long the operation may take once it began. The default
	// depends on the kind.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2592000
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`

	// ttlSecondsAfterFinished deletes the SeiNodeTask this long after it ended.
	// Without it the SeiNodeTask stays.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=31536000
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// restartSeid restarts seid in place; the pod stays. It is done when seid's RPC
	// answers again, which does not mean that the node has caught up.
	// +optional
	RestartSeid *RestartSeidPayload `json:"restartSeid,omitempty"`

	// discoverPeers finds the node's peers anew and writes them into its
	// configuration. The next start of seid uses them.
	// +optional
	DiscoverPeers *DiscoverPeersPayload `json:"discoverPeers,omitempty"`

	// markReady approves the node to run. On a held node it fails.
	// +optional
	MarkReady *MarkReadyPayload `json:"markReady,omitempty"`

	// holdNode stops seid and keeps it stopped, whatever else happens, until the
	// hold is released.
	// +optional
	HoldNode *HoldNodePayload `json:"holdNode,omitempty"`

	// releaseHold ends a hold.
	// +optional
	ReleaseHold *ReleaseHoldPayload `json:"releaseHold,omitempty"`

	// resyncNode deletes the chain's data on the node and syncs it anew; keys and
	// configuration stay. For full nodes only.
	// +optional
	ResyncNode *ResyncNodePayload `json:"resyncNode,omitempty"`

	// updateNodeImage gives the node another image. It is done when the new image runs.
	// +optional
	UpdateNodeImage *UpdateNodeImagePayload `json:"updateNodeImage,omitempty"`

	// awaitCondition waits until the node reaches a height or has caught up.
	// +optional
	AwaitCondition *AwaitConditionPayload `json:"awaitCondition,omitempty"`

	// awaitNodesAtHeight waits until the target, and every other node that a
	// selector chooses, reaches a height.
	// +optional
	AwaitNodesAtHeight *AwaitNodesAtHeightPayload `json:"awaitNodesAtHeight,omitempty"`
}

// SeiNodeTaskKind is a kind of operation.
//
// +kubebuilder:validation:Enum=RestartSeid;DiscoverPeers;MarkReady;HoldNode;ReleaseHold;ResyncNode;UpdateNodeImage;AwaitCondition;AwaitNodesAtHeight
type SeiNodeTaskKind string

// The kinds of operations.
const (
	TaskKindRestartSeid        SeiNodeTaskKind = "RestartSeid"
	TaskKindDiscoverPeers      SeiNodeTaskKind = "DiscoverPeers"
	TaskKindMarkReady          SeiNodeTaskKind = "MarkReady"
	TaskKindHoldNode           SeiNodeTaskKind = "HoldNode"
	TaskKindReleaseHold        SeiNodeTaskKind = "ReleaseHold"
	TaskKindResyncNode         SeiNodeTaskKind = "ResyncNode"
	TaskKindUpdateNodeImage    SeiNodeTaskKind = "UpdateNodeImage"
	TaskKindAwaitCondition     SeiNodeTaskKind = "AwaitCondition"
	TaskKindAwaitNodesAtHeight SeiNodeTaskKind = "AwaitNodesAtHeight"
)

// TaskTarget is the node that an operation is for.
type TaskTarget struct {
	// nodeRef names the SeiNode.
	// +required
	NodeRef NodeReference `json:"nodeRef"`

	// requirePhase is the phase that the node must be in before the operation
	// begins.
	// +optional
	// +kubebuilder:default=Running
	RequirePhase SeiNodePhase `json:"requirePhase,omitempty"`

	// requirePhaseTimeoutSeconds is how long to wait for the node to exist and to
	// be in that phase.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2592000
	// +kubebuilder:default=300
	RequirePhaseTimeoutSeconds *int32 `json:"requirePhaseTimeoutSeconds,omitempty"`
}

// NodeReference names a SeiNode in the same namespace.
type NodeReference struct {
	// name of the SeiNode.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=52
	Name string `json:"name"`
}

// RestartSeidPayload has no settings.
type RestartSeidPayload struct{}

// DiscoverPeersPayload has no settings.
type DiscoverPeersPayload struct{}

// MarkReadyPayload has no settings.
type MarkReadyPayload struct{}

// HoldNodePayload has no settings.
type HoldNodePayload struct{}

// ReleaseHoldPayload has no settings.
type ReleaseHoldPayload struct{}

// ResyncNodePayload has no settings.
type ResyncNodePayload struct{}

// UpdateNodeImagePayload is the image that a node is to run.
type UpdateNodeImagePayload struct {
	// image is the container image of seid.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.matches('\\\\s')",message="image must be one image reference without white space"
	Image string `json:"image"`
}

// AwaitConditionPayload is what to wait for.
//
// +kubebuilder:validation:XValidation:rule="has(self.height) != has(self.caughtUp)",message="awaitCondition must be exactly one of \"height: {targetHeight: ...}\" and \"caughtUp: {}\""
type AwaitConditionPayload struct {
	// height waits for a height.
	// +optional
	Height *AwaitHeight `json:"height,omitempty"`

	// caughtUp waits until the node lags no more than its readiness allows.
	// +optional
	CaughtUp *AwaitCaughtUp `json:"caughtUp,omitempty"`
}

// AwaitHeight is a height to wait for.
type AwaitHeight struct {
	// targetHeight is the height.
	// +required
	// +kubebuilder:validation:Minimum=1
	TargetHeight int64 `json:"targetHeight"`
}

// AwaitCaughtUp has no settings.
type AwaitCaughtUp struct{}

// AwaitNodesAtHeightPayload is a height that several nodes must reach.
type AwaitNodesAtHeightPayload struct {
	// targetHeight is the height.
	// +required
	// +kubebuilder:validation:Minimum=1
	TargetHeight int64 `json:"targetHeight"`

	// selector holds the labels of the further SeiNodes, in the same namespace, to
	// wait for.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k).hasValue())",message="selector must have keys like sei.io/chain or team"
	Selector map[string]LabelValue `json:"selector,omitempty"`
}

// SeiNodeTaskStatus is how far an operation is.
type SeiNodeTaskStatus struct {
	// conditions of the operation. Ready and Failed appear when it ended and do not
	// change any more.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase is how far the operation is.
	// +optional
	Phase SeiNodeTaskPhase `json:"phase,omitempty"`

	// message says for people what the operation waits for or how it ended.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// taskId is the id, on the node, of what the operation is at, written before it
	// is sent there.
	// +optional
	// +kubebuilder:validation:MaxLength=36
	TaskID string `json:"taskId,omitempty"`

	// step is what the operation is at, where it takes several steps. It is written
	// before the step begins.
	// +optional
	// +kubebuilder:validation:MaxLength=48
	Step string `json:"step,omitempty"`

	// targetUID is the uid of the SeiNode that the operation began on.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TargetUID string `json:"targetUID,omitempty"`

	// startTime is when the operation was first seen.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// executionStartTime is when the operation began; the time-out counts from here.
	// +optional
	ExecutionStartTime *metav1.Time `json:"executionStartTime,omitempty"`

	// completionTime is when the operation ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// outputs are what the operation found out.
	// +optional
	Outputs *TaskOutputs `json:"outputs,omitempty"`
}

// Finished tells whether the operation ended, one way or the other.
func (s *SeiNodeTaskStatus) Finished() bool {
	return s.Phase == TaskPhaseComplete || s.Phase == TaskPhaseFailed
}

// SeiNodeTaskPhase is how far an operation is.
//
// +kubebuilder:validation:Enum=Pending;Running;Complete;Failed
type SeiNodeTaskPhase string

// The phases of an operation.
const (
	TaskPhasePending  SeiNodeTaskPhase = "Pending"
	TaskPhaseRunning  SeiNodeTaskPhase = "Running"
	TaskPhaseComplete SeiNodeTaskPhase = "Complete"
	TaskPhaseFailed   SeiNodeTaskPhase = "Failed"
)

// TaskOutputs are what an operation found out; which of them depends on its kind.
type TaskOutputs struct {
	// height that the node, or the slowest of the nodes, had reached.
	// +optional
	Height int64 `json:"height,omitempty"`

	// image that the node runs.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image,omitempty"`

	// peers is the number of peers found.
	// +optional
	Peers *int32 `json:"peers,omitempty"`

	// restartGapSeconds is how long seid's RPC did not answer, as a decimal number.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	RestartGapSeconds string `json:"restartGapSeconds,omitempty"`

	// nodes are the nodes that were waited for and the heights at which they were
	// last seen; of a large fleet the first 64 by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Nodes []NodeHeight `json:"nodes,omitempty"`
}

// NodeHeight is a node and how far it is.
type NodeHeight struct {
	// name of the SeiNode.
	// +required
	// +kubebuilder:validation:MaxLength=52
	Name string `json:"name"`

	// height at which it was last seen; 0 when it was not heard.
	// +required
	Height int64 `json:"height"`
}

// ConditionFailed is True when an operation ended without success. Together with
// Ready it is the one pair of conditions that appears only at the end: both then have
// the same reason, and one of them is True.
const ConditionFailed ConditionType = "Failed"

// Reasons of a SeiNodeTask's Ready and Failed.
const (
	// ReasonTaskComplete: the operation succeeded.
	ReasonTaskComplete ConditionReason = "TaskComplete"
	// ReasonTaskFailed: the operation failed on the node.
	ReasonTaskFailed ConditionReason = "TaskFailed"
	// ReasonTargetNotFound: the node did not appear in time.
	ReasonTargetNotFound ConditionReason = "TargetNotFound"
	// ReasonTargetPhaseNotMet: the node did not reach the required phase in time.
	ReasonTargetPhaseNotMet ConditionReason = "TargetPhaseNotMet"
	// ReasonTargetDeleted: the node was deleted while the operation ran.
	ReasonTargetDeleted ConditionReason = "TargetDeleted"
	// ReasonTimeout: the operation took too long.
	ReasonTimeout ConditionReason = "Timeout"
	// ReasonUnsupportedKind: this operator does not know the kind.
	ReasonUnsupportedKind ConditionReason = "UnsupportedKind"
	// ReasonInvalidPayload: the operation cannot be done to this node, or the node
	// refused its payload. Nothing was done.
	ReasonInvalidPayload ConditionReason = "InvalidPayload"
	// ReasonSuperseded: something newer made the operation pointless.
	ReasonSuperseded ConditionReason = "Superseded"
)
