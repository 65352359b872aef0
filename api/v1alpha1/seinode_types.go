package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SeiNode is one Sei node: a pod with seid and the operator's sidecar, its data
// volume, its Service and its configuration, kept as the spec says for as long
// as this object exists.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=snode
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Plan",type=string,JSONPath=`.status.plan.progress`
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Chain",type=string,priority=1,JSONPath=`.spec.chainId`
// +kubebuilder:printcolumn:name="Mode",type=string,priority=1,JSONPath=`.status.mode`
// +kubebuilder:printcolumn:name="StatefulSet",type=string,priority=1,JSONPath=`.status.statefulSet.name`
// +kubebuilder:printcolumn:name="Template",type=string,priority=1,JSONPath=`.status.podTemplateHash`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 52",message="metadata.name is too long: use at most 52 characters, so that the names and labels derived from it stay within the limit of 63"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be usable as a Service name: lower-case letters, digits and '-', a letter first and no '-' last"
type SeiNode struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name is at most 52 characters
	// and usable as a Service name.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the node as it is wanted.
	// +required
	Spec SeiNodeSpec `json:"spec"`

	// status is the node as it was last seen.
	// +optional
	Status SeiNodeStatus `json:"status,omitempty"`
}

// SeiNodeList is a list of SeiNodes.
//
// +kubebuilder:object:root=true
type SeiNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SeiNode `json:"items"`
}

// SeiNodeSpec is the node as it is wanted.
//
// Identity cannot be edited: the chain, the mode, the keys, an imported volume
// and the storage class. Everything else can, at any time.
//
// The rules below compare with presence checks on this parent, because a rule
// on an optional field does not run when the field is removed, and removing and
// re-adding it would escape.
//
// +kubebuilder:validation:XValidation:rule="[has(self.fullNode), has(self.validator), has(self.archive), has(self.seed), has(self.replayer)].filter(x, x).size() == 1",message="set exactly one of fullNode, validator, archive, seed and replayer, for example \"fullNode: {}\""
// +kubebuilder:validation:XValidation:rule="has(self.fullNode) == has(oldSelf.fullNode) && has(self.validator) == has(oldSelf.validator) && has(self.archive) == has(oldSelf.archive) && has(self.seed) == has(oldSelf.seed) && has(self.replayer) == has(oldSelf.replayer)",message="the mode of a node cannot be changed: create another SeiNode with the mode you want"
// +kubebuilder:validation:XValidation:rule="(has(self.dataVolume) && has(self.dataVolume.__import__)) == (has(oldSelf.dataVolume) && has(oldSelf.dataVolume.__import__)) && (!has(self.dataVolume) || !has(self.dataVolume.__import__) || self.dataVolume.__import__ == oldSelf.dataVolume.__import__)",message="dataVolume.import cannot be added, changed or removed: create another SeiNode that imports the claim"
// +kubebuilder:validation:XValidation:rule="(has(self.dataVolume) && has(self.dataVolume.storageClassName)) == (has(oldSelf.dataVolume) && has(oldSelf.dataVolume.storageClassName)) && (!has(self.dataVolume) || !has(self.dataVolume.storageClassName) || self.dataVolume.storageClassName == oldSelf.dataVolume.storageClassName)",message="dataVolume.storageClassName cannot be added, changed or removed, because a claim keeps its class: create another SeiNode"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.dataVolume) || !has(oldSelf.dataVolume.size) || (has(self.dataVolume) && has(self.dataVolume.size) && quantity(string(self.dataVolume.size)).compareTo(quantity(string(oldSelf.dataVolume.size))) >= 0)",message="dataVolume.size can only grow and cannot be removed: write the current size or a larger one"
type SeiNodeSpec struct {
	// chainId is the id of the chain, for example pacific-1. It cannot be changed.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="chainId must be a DNS label: lower-case letters, digits and '-', a letter or digit first and last"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="chainId cannot be changed: create another SeiNode for the other chain"
	ChainID string `json:"chainId"`

	// image is the container image of seid. Changing it replaces the pod, also
	// when the node is halted or was never ready.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.matches('\\\\s')",message="image must be one image reference without white space, for example ghcr.io/sei-protocol/sei:v6.6.2"
	Image string `json:"image"`

	// fullNode makes this a full node: it follows the chain and serves RPC, REST,
	// gRPC and EVM.
	// +optional
	FullNode *FullNodeSpec `json:"fullNode,omitempty"`

	// validator makes this a validator: it signs blocks, and its RPC listens on
	// loopback only.
	// +optional
	Validator *ValidatorSpec `json:"validator,omitempty"`

	// archive makes this an archive node: it keeps all history and syncs block by
	// block from genesis.
	// +optional
	Archive *ArchiveSpec `json:"archive,omitempty"`

	// seed makes this a seed: it tells other nodes about peers and serves nothing
	// else.
	// +optional
	Seed *SeedSpec `json:"seed,omitempty"`

	// replayer makes this a replayer: a full node tuned to re-execute blocks
	// quickly from a snapshot on.
	// +optional
	Replayer *ReplayerSpec `json:"replayer,omitempty"`

	// peers are the sources of the peers this node connects to. None at all is
	// fine: the first node of a chain has no peers. A source that fails never
	// shrinks the set, and a changed set alone restarts nothing.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Peers []PeerSource `json:"peers,omitempty"`

	// genesis is where the genesis file comes from. Without it the node uses the
	// one that seid itself carries for this chain id.
	// +optional
	Genesis *GenesisSource `json:"genesis,omitempty"`

	// overrides are values for seid's configuration files, merged over the
	// defaults of the mode. A key is the file, config, app or client, followed by
	// the path of the value in that file, for example
	// "config.p2p.max-connections" or "app.state-store.ss-keep-recent". Values
	// take the type of the value they replace. A few keys are refused, because
	// changing them would break what the operator promises.
	// +optional
	Overrides Overrides `json:"overrides,omitempty"`

	// sidecar configures the operator's agent in the pod.
	// +optional
	Sidecar *SidecarSpec `json:"sidecar,omitempty"`

	// resources of the seid container. The default depends on the mode.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// scheduling says where the pod may run.
	// +optional
	Scheduling *SchedulingSpec `json:"scheduling,omitempty"`

	// podLabels are added to the pod. Keys under sei.io/ belong to the operator.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('sei.io/'))",message="podLabels must not use keys under sei.io/: the operator sets those; use a prefix of your own"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k).hasValue())",message="podLabels must have keys like team or example.com/team"
	PodLabels map[string]LabelValue `json:"podLabels,omitempty"`

	// podAnnotations are added to the pod. Keys under sei.io/ belong to the operator.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('sei.io/'))",message="podAnnotations must not use keys under sei.io/: the operator sets those; use a prefix of your own"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k).hasValue() && size(self[k]) <= 4096)",message="podAnnotations must have keys like example.com/team and values of at most 4096 characters"
	PodAnnotations map[string]string `json:"podAnnotations,omitempty"`

	// imagePullSecrets are Secrets in this namespace with credentials for the
	// registries of the pod's images.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// serviceAccountName is the ServiceAccount the pod runs as. Its token is never
	// mounted into the seid container.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="serviceAccountName must be the name of a ServiceAccount: lower-case letters, digits, '-' and '.'"
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// extraEnv are environment variables for the seid container. Variables that
	// would move seid's home, keys, data or listen addresses are refused.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(e, !(e.name.startsWith('SEID_PRIV_VALIDATOR') || e.name.endsWith('_KEY_FILE') || e.name in ['HOME', 'SEID_HOME', 'SEID_MODE', 'SEID_CHAIN_ID', 'SEID_DB_DIR', 'SEID_GENESIS_FILE', 'SEID_RPC_LADDR', 'SEID_P2P_LADDR', 'SEID_INSTRUMENTATION_PROMETHEUS_LISTEN_ADDR', 'SEID_CONSENSUS_DOUBLE_SIGN_CHECK_HEIGHT']))",message="extraEnv must not set HOME or a SEID_ variable for home, mode, chain id, keys, data, genesis, listen addresses or the double-sign check: the operator sets those, and its promises rest on them"
	ExtraEnv []corev1.EnvVar `json:"extraEnv,omitempty"`

	// extraArgs are further arguments of "seid start". Arguments that would move
	// seid's home, keys, data or listen addresses are refused, and so is "--", after
	// which seid takes no argument for a flag.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.all(a, a != '--' && !['--home', '--mode', '--chain-id', '--db-dir', '--priv-validator', '--rpc.laddr', '--p2p.laddr', '--consensus.double-sign-check-height'].exists(p, a.startsWith(p)))",message="extraArgs must not contain --home, --mode, --chain-id, --db-dir, --priv-validator-laddr, --rpc.laddr, --p2p.laddr or --consensus.double-sign-check-height, which the operator sets, nor --, which would void them: its promises rest on them"
	ExtraArgs []string `json:"extraArgs,omitempty"`

	// dataVolume is the volume that holds the chain's data and the node's state.
	// +optional
	DataVolume *DataVolumeSpec `json:"dataVolume,omitempty"`

	// externalAddress is the host:port under which other nodes reach this one; it
	// becomes seid's p2p external address.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=261
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?|\\\\[[0-9a-fA-F:.]+\\\\]):[0-9]{1,5}$')",message="externalAddress must be host:port without a scheme, for example node-0.example.com:26656"
	ExternalAddress string `json:"externalAddress,omitempty"`

	// paused stops the node: the pod is scaled to zero, plans stand still, and the
	// volume is free for others to use. The condition Paused is True once the pod
	// is gone. Unpausing starts the node from the spec as it then is.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// Overrides maps a configuration key to its value.
//
// What is refused is refused in each of the three files: seid reads them into one
// store, so that a key in the wrong file counts too.
//
// +kubebuilder:validation:MaxProperties=128
// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 128 && (k.startsWith('config.') || k.startsWith('app.') || k.startsWith('client.')))",message="overrides must have keys of at most 128 characters that start with the file, \"config.\", \"app.\" or \"client.\", for example config.p2p.max-connections"
// +kubebuilder:validation:XValidation:rule="self.all(k, k == k.lowerAscii())",message="overrides must have keys in lower case, as seid's files do: seid does not tell Config.RPC from config.rpc"
// +kubebuilder:validation:XValidation:rule="self.all(k, size(self[k]) <= 4096)",message="overrides must have values of at most 4096 characters"
// +kubebuilder:validation:XValidation:rule="!['config.', 'app.', 'client.'].exists(f, (f + 'priv-validator.laddr') in self)",message="overrides must not set priv-validator.laddr: a remote signer is not supported yet; write validator.signingKey.secret instead"
// +kubebuilder:validation:XValidation:rule="self.all(k, k.endsWith('.priv-validator.laddr') || !(k.endsWith('-key-file') || ['config.', 'app.', 'client.'].exists(f, k.startsWith(f + 'priv-validator'))))",message="overrides must not set priv-validator.* or a *-key-file: keys are configured by validator.signingKey, validator.nodeKey and seed.nodeKey"
// +kubebuilder:validation:XValidation:rule="!['config.', 'app.', 'client.'].exists(f, ['db-dir', 'genesis-file', 'consensus.double-sign-check-height'].exists(p, (f + p) in self))",message="overrides must not set db-dir, genesis-file or consensus.double-sign-check-height: the data volume's layout and the guard against signing twice belong to the operator; leave them out"
// +kubebuilder:validation:XValidation:rule="!['config.', 'app.', 'client.'].exists(f, ['rpc.laddr', 'p2p.laddr', 'instrumentation.prometheus-listen-addr'].exists(p, (f + p) in self))",message="overrides must not set rpc.laddr, p2p.laddr or instrumentation.prometheus-listen-addr: the operator's probes need them where they are; publish a node with externalAddress"
// +kubebuilder:validation:XValidation:rule="!['config.', 'app.', 'client.'].exists(f, ['mode', 'chain-id'].exists(p, (f + p) in self))",message="overrides must not set mode or chain-id: they follow from the mode and chainId of the spec"
type Overrides map[string]string

// Mode is the mode of a node as labels and status show it.
type Mode string

// The modes. Each belongs to the field of the spec with the same name.
const (
	ModeFullNode  Mode = "fullNode"
	ModeValidator Mode = "validator"
	ModeArchive   Mode = "archive"
	ModeSeed      Mode = "seed"
	ModeReplayer  Mode = "replayer"
)

// Mode is the mode that the spec chooses. Admission lets exactly one through.
func (s *SeiNodeSpec) Mode() Mode {
	switch {
	case s.Validator != nil:
		return ModeValidator
	case s.Archive != nil:
		return ModeArchive
	case s.Seed != nil:
		return ModeSeed
	case s.Replayer != nil:
		return ModeReplayer
	default:
		return ModeFullNode
	}
}

// Snapshot is where the mode starts the node from; nil when it syncs from genesis.
func (s *SeiNodeSpec) Snapshot() *SnapshotSource {
	switch {
	case s.FullNode != nil:
		return s.FullNode.Snapshot
	case s.Validator != nil:
		return s.Validator.Snapshot
	case s.Replayer != nil:
		return s.Replayer.Snapshot
	default:
		return nil
	}
}
