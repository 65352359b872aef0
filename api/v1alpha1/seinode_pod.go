package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// SidecarSpec configures the operator's agent in the pod.
type SidecarSpec struct {
	// image is the container image of the sidecar; the platform's without it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.matches('\\\\s')",message="image must be one image reference without white space"
	Image string `json:"image,omitempty"`

	// port is where the sidecar's API listens.
	// +optional
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:default=7777
	// +kubebuilder:validation:XValidation:rule="!(self in [1317, 8443, 8545, 8546, 9090, 9091, 26656, 26657, 26660])",message="port is taken by seid or by the access proxy: use another one, or leave it out for 7777"
	Port int32 `json:"port,omitempty"`

	// resources of the sidecar container.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
}

// LabelValue is the value of a label. A type of its own gives the values of a map
// a length, without which a rule about them costs more than an API server allows.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="!format.labelValue().validate(self).hasValue()",message="the value of a label must consist of at most 63 letters, digits, '-', '_' and '.', a letter or digit first and last"
type LabelValue string

// SchedulingSpec says where the pod may run. The fields mean what they mean on a pod.
type SchedulingSpec struct {
	// nodeSelector are labels that the Kubernetes node must have.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations are taints of the Kubernetes node that the pod accepts.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// affinity says which Kubernetes nodes and which neighbours the pod prefers or
	// avoids.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// topologySpreadConstraints spread pods over zones or other domains.
	// +optional
	// +listType=map
	// +listMapKey=topologyKey
	// +listMapKey=whenUnsatisfiable
	// +kubebuilder:validation:MaxItems=8
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`

	// priorityClassName is the PriorityClass of the pod.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`
}

// DataVolumeSpec is the volume that holds the chain's data and the node's state.
//
// +kubebuilder:validation:XValidation:rule="!has(self.__import__) || (!has(self.size) && !has(self.storageClassName))",message="an imported claim is used as it is: leave out dataVolume.size and dataVolume.storageClassName, or leave out dataVolume.import"
// +kubebuilder:validation:XValidation:rule="!has(self.__import__) || !has(self.deletionPolicy) || self.deletionPolicy == 'Retain'",message="an imported claim is never deleted by the operator: write deletionPolicy: Retain, or leave it out"
type DataVolumeSpec struct {
	// size of the volume. The default depends on the mode. It may grow, the claim
	// is then expanded, and never shrink.
	// +optional
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).isGreaterThan(quantity('0'))",message="size must be greater than zero, for example 2000Gi"
	Size *resource.Quantity `json:"size,omitempty"`

	// storageClassName is the class of the volume; the platform's for the mode
	// without it. It cannot be changed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClassName string `json:"storageClassName,omitempty"`

	// deletionPolicy says what becomes of the volume when the SeiNode is deleted.
	// Retain, the default, keeps it, and a SeiNode of the same name, chain and mode
	// takes it over. Delete deletes it with its data.
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// import uses an existing claim as the data volume. The operator checks it and
	// never changes or deletes it. It cannot be added, changed or removed later.
	// +optional
	Import *VolumeImport `json:"import,omitempty"`
}

// DeletionPolicy says what becomes of dependents when their owner is deleted.
//
// +kubebuilder:validation:Enum=Retain;Delete
type DeletionPolicy string

// The deletion policies.
const (
	// DeletionPolicyRetain keeps the dependents as they are.
	DeletionPolicyRetain DeletionPolicy = "Retain"
	// DeletionPolicyDelete deletes them.
	DeletionPolicyDelete DeletionPolicy = "Delete"
)

// VolumeImport names an existing claim.
type VolumeImport struct {
	// pvcName is the name of a PersistentVolumeClaim in the namespace of the node.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="pvcName must be the name of a PersistentVolumeClaim: lower-case letters, digits, '-' and '.'"
	PVCName string `json:"pvcName"`
}
