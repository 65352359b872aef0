package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// SeiNodeDeployment is a fleet of like SeiNodes, made from one template and
// updated a few at a time.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=snd
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.updatedReplicas`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableReplicas`
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.template.spec.image`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Chain",type=string,priority=1,JSONPath=`.spec.template.spec.chainId`
// +kubebuilder:printcolumn:name="Revision",type=string,priority=1,JSONPath=`.status.updateRevision`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 49",message="metadata.name is too long: use at most 49 characters, so that the names of the nodes, <name>-<ordinal>, stay within 52"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be usable as a Service name: lower-case letters, digits and '-', a letter first and no '-' last"
type SeiNodeDeployment struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name is at most 49 characters
	// and usable as a Service name.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the fleet as it is wanted.
	// +required
	Spec SeiNodeDeploymentSpec `json:"spec"`

	// status is the fleet as it was last seen.
	// +optional
	Status SeiNodeDeploymentStatus `json:"status,omitempty"`
}

// SeiNodeDeploymentList is a list of SeiNodeDeployments.
//
// +kubebuilder:object:root=true
type SeiNodeDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SeiNodeDeployment `json:"items"`
}

// SeiNodeDeploymentSpec is the fleet as it is wanted.
//
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || self.replicas <= 1 || !has(self.template.spec.validator) || !(has(self.template.spec.validator.signingKey) || has(self.template.spec.validator.nodeKey) || has(self.template.spec.validator.operatorKeyring))",message="a template with a signing key, node key or operator keyring allows at most one replica, since two nodes with one key sign twice: write replicas: 1 and one SeiNodeDeployment for each key"
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || self.replicas <= 1 || !has(self.template.spec.seed)",message="a template for a seed allows at most one replica, since a seed has a node key of its own: write replicas: 1 and one SeiNodeDeployment for each seed"
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || self.replicas <= 1 || !has(self.template.spec.dataVolume) || !has(self.template.spec.dataVolume.__import__)",message="a template with an imported volume allows at most one replica: write replicas: 1 and one SeiNodeDeployment for each volume"
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || self.replicas <= 1 || !has(self.template.spec.externalAddress)",message="a template with an external address allows at most one replica: write replicas: 1 and one SeiNodeDeployment for each address"
type SeiNodeDeploymentSpec struct {
	// replicas is the number of nodes, 0 to 100. They are called <name>-0,
	// <name>-1 and so on; scaling down removes the highest first.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=1
	Replicas *int32 `json:"replicas,omitempty"`

	// template is what every node of the fleet is made from.
	// +required
	Template SeiNodeTemplate `json:"template"`

	// updateStrategy says how a changed template reaches the nodes.
	// +optional
	UpdateStrategy *UpdateStrategy `json:"updateStrategy,omitempty"`

	// paused pauses every node of the fleet: their pods are scaled to zero. When it
	// is unset, nodes that someone else paused stay paused.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// rolloutPaused holds the rollout of a changed template where it is; the nodes
	// go on running.
	// +optional
	RolloutPaused bool `json:"rolloutPaused,omitempty"`

	// deletionPolicy says what becomes of the nodes when the SeiNodeDeployment is
	// deleted. Retain, the default, releases them untouched. Delete deletes them;
	// their volumes follow their own policy.
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// minReadySeconds is how long an updated node must be ready before it counts
	// as done.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`
}

// SeiNodeTemplate is what the nodes of a fleet are made from.
type SeiNodeTemplate struct {
	// metadata is given to every node.
	// +optional
	Metadata *TemplateMetadata `json:"metadata,omitempty"`

	// spec is the spec of every node.
	// +required
	// +kubebuilder:validation:XValidation:rule="!has(self.paused) || !self.paused",message="template.spec.paused must not be set: write spec.paused of the SeiNodeDeployment to stop the fleet, or pause a single SeiNode"
	Spec SeiNodeSpec `json:"spec"`
}

// TemplateMetadata are the labels and annotations of the nodes of a fleet.
// Labels and annotations that others put on a node are left alone.
type TemplateMetadata struct {
	// labels of every node. Keys under sei.io/ belong to the operator.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('sei.io/'))",message="template labels must not use keys under sei.io/: the operator sets those; use a prefix of your own"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k).hasValue())",message="template labels must have keys like team or example.com/team"
	Labels map[string]LabelValue `json:"labels,omitempty"`

	// annotations of every node. Keys under sei.io/ are decisions about one
	// particular node and are refused here.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('sei.io/'))",message="template annotations must not use keys under sei.io/: they decide about one particular node; write them on that SeiNode"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k).hasValue() && size(self[k]) <= 4096)",message="template annotations must have keys like example.com/team and values of at most 4096 characters"
	Annotations map[string]string `json:"annotations,omitempty"`
}

// UpdateStrategy says how a changed template reaches the nodes.
//
// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdate) || !has(self.type) || self.type == 'RollingUpdate'",message="rollingUpdate goes with type: RollingUpdate; leave it out for OnDelete"
type UpdateStrategy struct {
	// type is RollingUpdate, a few nodes at a time, or OnDelete, where a node takes
	// the new template when its SeiNode is deleted and made again.
	// +optional
	// +kubebuilder:default=RollingUpdate
	Type UpdateStrategyType `json:"type,omitempty"`

	// rollingUpdate are the settings of RollingUpdate.
	// +optional
	RollingUpdate *RollingUpdate `json:"rollingUpdate,omitempty"`
}

// UpdateStrategyType is a way in which a changed template reaches the nodes.
//
// +kubebuilder:validation:Enum=RollingUpdate;OnDelete
type UpdateStrategyType string

// The update strategies.
const (
	UpdateStrategyRollingUpdate UpdateStrategyType = "RollingUpdate"
	UpdateStrategyOnDelete      UpdateStrategyType = "OnDelete"
)

// RollingUpdate are the settings of a rolling update.
type RollingUpdate struct {
	// maxUnavailable is how many nodes may be updating or not ready at a time: a
	// number, or a percentage of replicas, rounded down and at least one.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? int(self) >= 1 && int(self) <= 100 : string(self).matches('^([1-9][0-9]?|100)%$')",message="maxUnavailable must be a number from 1 to 100, or a percentage from 1% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// partition holds back every node with a lower ordinal.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Partition int32 `json:"partition,omitempty"`

	// pauseOnFailure stops the rollout at the first node whose update fails.
	// +optional
	PauseOnFailure bool `json:"pauseOnFailure,omitempty"`
}

// SeiNodeDeploymentStatus is the fleet as it was last seen.
type SeiNodeDeploymentStatus struct {
	// conditions of the fleet, each with a stable reason.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// replicas is the number of nodes that exist.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// readyReplicas is the number of nodes that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`

	// availableReplicas is the number of nodes that have been ready for
	// minReadySeconds and are not being updated.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas,omitempty"`

	// updatedReplicas is the number of nodes that have the current template and are done.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas,omitempty"`

	// currentRevision identifies the template that the fleet last had as a whole.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	CurrentRevision string `json:"currentRevision,omitempty"`

	// updateRevision identifies the template of the spec.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	UpdateRevision string `json:"updateRevision,omitempty"`

	// selector selects the nodes of the fleet, for the scale sub-resource.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Selector string `json:"selector,omitempty"`

	// endpoint is where the nodes that are ready are found together inside the
	// cluster. It is absent in a mode that serves nobody.
	// +optional
	Endpoint *Endpoint `json:"endpoint,omitempty"`

	// nodes are the nodes of the fleet, by ordinal.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Nodes []FleetNode `json:"nodes,omitempty"`
}

// FleetNode is one node of a fleet as it was last seen.
type FleetNode struct {
	// name of the SeiNode.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// state is how it stands with the node.
	// +required
	State FleetNodeState `json:"state"`

	// reason is that of the node's condition Ready, when that is not True.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`

	// revision identifies the template that the node has.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Revision string `json:"revision,omitempty"`

	// endpoint is where the node's own services are found inside the cluster.
	// +optional
	Endpoint *Endpoint `json:"endpoint,omitempty"`
}

// FleetNodeState is how it stands with a node of a fleet.
//
// +kubebuilder:validation:Enum=Available;Settling;Updating;NotReady;Broken;Stopping;Paused;Held;Unknown;Terminating;Foreign
type FleetNodeState string

// The states of a node of a fleet.
const (
	// FleetNodeAvailable: it is ready, and was for minReadySeconds.
	FleetNodeAvailable FleetNodeState = "Available"
	// FleetNodeSettling: it is ready, but not yet for minReadySeconds.
	FleetNodeSettling FleetNodeState = "Settling"
	// FleetNodeUpdating: it is being brought up or updated.
	FleetNodeUpdating FleetNodeState = "Updating"
	// FleetNodeNotReady: it is not ready, which may pass by itself.
	FleetNodeNotReady FleetNodeState = "NotReady"
	// FleetNodeBroken: it does not work, and an update of it costs nothing.
	FleetNodeBroken FleetNodeState = "Broken"
	// FleetNodeStopping: it is paused and not stopped yet.
	FleetNodeStopping FleetNodeState = "Stopping"
	// FleetNodePaused: it is paused and stopped.
	FleetNodePaused FleetNodeState = "Paused"
	// FleetNodeHeld: a hold keeps seid from running.
	FleetNodeHeld FleetNodeState = "Held"
	// FleetNodeUnknown: nothing current is known of it.
	FleetNodeUnknown FleetNodeState = "Unknown"
	// FleetNodeTerminating: it is being deleted.
	FleetNodeTerminating FleetNodeState = "Terminating"
	// FleetNodeForeign: a SeiNode of this name is there and not the fleet's.
	FleetNodeForeign FleetNodeState = "Foreign"
)

// The conditions of a SeiNodeDeployment beside Ready, Reconciling, Stalled and
// Paused.
const (
	// ConditionProgressing is True while a changed template reaches the nodes.
	ConditionProgressing ConditionType = "Progressing"
	// ConditionRolloutPaused is True while a changed template reaches no further
	// node, because the spec says so or because a node's update failed.
	ConditionRolloutPaused ConditionType = "RolloutPaused"
)

// SeiNodeDeploymentConditions are all conditions of a SeiNodeDeployment, in the
// order in which they are shown.
var SeiNodeDeploymentConditions = []ConditionType{
	ConditionReady, ConditionReconciling, ConditionStalled, ConditionProgressing, ConditionRolloutPaused, ConditionPaused,
}

// Reasons of a SeiNodeDeployment's conditions.
const (
	// ReasonAllNodesReady: every node is there, up to date and ready.
	ReasonAllNodesReady ConditionReason = "AllNodesReady"
	// ReasonNodesNotReady: some nodes are missing or not ready.
	ReasonNodesNotReady ConditionReason = "NodesNotReady"
	// ReasonRollingOut: nodes are being updated.
	ReasonRollingOut ConditionReason = "RollingOut"
	// ReasonRolloutPaused: the spec holds the rollout.
	ReasonRolloutPaused ConditionReason = "RolloutPaused"
	// ReasonRolloutStopped: a node's update failed, and the rollout stops there.
	ReasonRolloutStopped ConditionReason = "RolloutStopped"
	// ReasonRolloutRunning: nothing holds the rollout.
	ReasonRolloutRunning ConditionReason = "RolloutRunning"
	// ReasonRolledOut: every node that should has the template of the spec.
	ReasonRolledOut ConditionReason = "RolledOut"
	// ReasonWaitsForDeletion: nodes take the template of the spec when they are
	// deleted and made again, and not before.
	ReasonWaitsForDeletion ConditionReason = "WaitsForDeletion"
	// ReasonForeignNode: a SeiNode of a name that the fleet needs belongs to someone else.
	ReasonForeignNode ConditionReason = "ForeignNode"
)
