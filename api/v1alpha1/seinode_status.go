package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SeiNodeStatus is the node as it was last seen. Nothing that changes with
// every block is in here, and nothing that could not be found out again from
// the cluster: a status that was emptied is rebuilt before any plan is made.
type SeiNodeStatus struct {
	// conditions of the node, each with a stable reason.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase is where the node is in its life.
	// +optional
	Phase SeiNodePhase `json:"phase,omitempty"`

	// phaseTransitionTime is when the phase last changed.
	// +optional
	PhaseTransitionTime *metav1.Time `json:"phaseTransitionTime,omitempty"`

	// mode is the mode that the spec chooses, by the name of its field.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Mode Mode `json:"mode,omitempty"`

	// plan is the work under way; absent when there is none.
	// +optional
	Plan *Plan `json:"plan,omitempty"`

	// lastPlan is how the last piece of work ended.
	// +optional
	LastPlan *PlanRecord `json:"lastPlan,omitempty"`

	// currentImage is the image of the seid container that runs.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	CurrentImage string `json:"currentImage,omitempty"`

	// currentSidecarImage is the image of the sidecar container that runs.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	CurrentSidecarImage string `json:"currentSidecarImage,omitempty"`

	// podTemplateHash identifies the pod template that the running pod was made
	// from.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	PodTemplateHash string `json:"podTemplateHash,omitempty"`

	// statefulSet is the StatefulSet of the node. One of the same name and another
	// uid is not it.
	// +optional
	StatefulSet *ObjectIdentity `json:"statefulSet,omitempty"`

	// dataVolume is the claim of the node's data volume. Once it is set the
	// operator creates no other by itself.
	// +optional
	DataVolume *ObjectIdentity `json:"dataVolume,omitempty"`

	// reservations are the Leases, in the operator's namespace, by which the node's
	// keys and an imported volume are its own and nobody else's.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Reservations []Reservation `json:"reservations,omitempty"`

	// slot is the place in the update budget that the node takes.
	// +optional
	Slot *UpdateSlot `json:"slot,omitempty"`

	// stopRequestedTime is since when a pause or a deletion waits for the moment at
	// which seid may be stopped.
	// +optional
	StopRequestedTime *metav1.Time `json:"stopRequestedTime,omitempty"`

	// admittedSpecHash identifies the spec that was last admitted to the node.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	AdmittedSpecHash string `json:"admittedSpecHash,omitempty"`

	// configSerial is the serial number of the node's configuration; a higher one
	// is newer.
	// +optional
	ConfigSerial int64 `json:"configSerial,omitempty"`

	// configHash identifies the configuration that was last admitted to the node.
	// The peers are no part of it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ConfigHash string `json:"configHash,omitempty"`

	// appliedConfigHash identifies the configuration that seid was last started with,
	// as far as plans go. It follows configHash when a plan has brought that to seid.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	AppliedConfigHash string `json:"appliedConfigHash,omitempty"`

	// resolvedPeers are the peers found in the sources of spec.peers.
	// +optional
	ResolvedPeers *ResolvedPeers `json:"resolvedPeers,omitempty"`

	// nodeId is the node's p2p identity, 40 hexadecimal digits.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	NodeID string `json:"nodeId,omitempty"`

	// endpoint is where the node's services are found inside the cluster.
	// +optional
	Endpoint *Endpoint `json:"endpoint,omitempty"`
}

// SeiNodePhase is where a node is in its life.
//
// +kubebuilder:validation:Enum=Pending;Initializing;Running;Failed;Terminating
type SeiNodePhase string

// The phases of a node.
const (
	// PhasePending: nothing was done yet, or something is missing that a person
	// or another object must provide.
	PhasePending SeiNodePhase = "Pending"
	// PhaseInitializing: the node is being brought up for the first time.
	PhaseInitializing SeiNodePhase = "Initializing"
	// PhaseRunning: the node was brought up; it stays Running through updates,
	// restarts and pauses.
	PhaseRunning SeiNodePhase = "Running"
	// PhaseFailed: bringing the node up failed; it is tried again with back-off,
	// after an edit, or when asked to.
	PhaseFailed SeiNodePhase = "Failed"
	// PhaseTerminating: the SeiNode is being deleted.
	PhaseTerminating SeiNodePhase = "Terminating"
)

// ObjectIdentity names one particular object, not just any of that name.
type ObjectIdentity struct {
	// name of the object.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// uid of the object.
	// +required
	UID types.UID `json:"uid"`
}

// Reservation is something that only one node of the cluster may use.
type Reservation struct {
	// kind is what is reserved.
	// +required
	Kind ReservationKind `json:"kind"`

	// name of the Lease. It follows from the chain and from what is reserved.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
}

// ReservationKind is what is reserved.
//
// +kubebuilder:validation:Enum=SigningKey;NodeKey;DataVolume
type ReservationKind string

// What may be reserved.
const (
	// ReservationSigningKey: a key that blocks are signed with.
	ReservationSigningKey ReservationKind = "SigningKey"
	// ReservationNodeKey: a p2p identity.
	ReservationNodeKey ReservationKind = "NodeKey"
	// ReservationDataVolume: a claim that is imported.
	ReservationDataVolume ReservationKind = "DataVolume"
)

// UpdateSlot is a place in the update budget.
type UpdateSlot struct {
	// cause is why the node is updating.
	// +required
	Cause UpdateCause `json:"cause"`

	// templateHash identifies what the node is updating to: the pod template, or the
	// configuration when only that changes.
	// +required
	// +kubebuilder:validation:MaxLength=64
	TemplateHash string `json:"templateHash"`
}

// UpdateCause is why a node is updating.
//
// +kubebuilder:validation:Enum=Edit;Operator;Recreate
type UpdateCause string

// The causes of an update.
const (
	// UpdateCauseEdit: the node's own spec was edited.
	UpdateCauseEdit UpdateCause = "Edit"
	// UpdateCauseOperator: the operator or the platform's settings changed.
	UpdateCauseOperator UpdateCause = "Operator"
	// UpdateCauseRecreate: a StatefulSet that was gone came back changed.
	UpdateCauseRecreate UpdateCause = "Recreate"
)

// ResolvedPeers are the peers found, or the first of them.
type ResolvedPeers struct {
	// count is the number of peers found.
	// +required
	Count int32 `json:"count"`

	// addresses are the first 64 peers, each nodeId@host:port, sorted.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=302
	Addresses []string `json:"addresses,omitempty"`
}

// Endpoint is where a node's services are found inside the cluster. A service
// that the mode does not serve is absent. It says where, not whether.
type Endpoint struct {
	// p2p is the address for other nodes, host:port.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	P2P string `json:"p2p,omitempty"`

	// tendermintRpc is the URL of the Tendermint RPC.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	TendermintRPC string `json:"tendermintRpc,omitempty"`

	// tendermintRest is the URL of the REST API.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	TendermintREST string `json:"tendermintRest,omitempty"`

	// grpc is the address of the gRPC API, host:port.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	GRPC string `json:"grpc,omitempty"`

	// evmJsonRpc is the URL of the EVM JSON-RPC.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	EVMJSONRPC string `json:"evmJsonRpc,omitempty"`

	// evmWs is the URL of the EVM websocket.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	EVMWS string `json:"evmWs,omitempty"`
}
