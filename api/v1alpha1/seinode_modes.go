package v1alpha1

// FullNodeSpec is what a full node needs beyond what every node has.
type FullNodeSpec struct {
	// snapshot starts the node from a snapshot of the chain instead of genesis.
	// +optional
	Snapshot *SnapshotSource `json:"snapshot,omitempty"`

	// snapshotGeneration makes the node produce snapshots for others to start from.
	// +optional
	SnapshotGeneration *SnapshotGeneration `json:"snapshotGeneration,omitempty"`
}

// ValidatorSpec is what a validator needs beyond what every node has.
//
// +kubebuilder:validation:XValidation:rule="has(self.signingKey) == has(self.nodeKey)",message="set signingKey and nodeKey together, or neither: without both, seid makes keys of its own on the data volume"
// +kubebuilder:validation:XValidation:rule="has(self.signingKey) == has(oldSelf.signingKey) && (!has(self.signingKey) || self.signingKey == oldSelf.signingKey)",message="signingKey cannot be added, changed or removed: it is the identity of the validator; create another SeiNode for another key"
// +kubebuilder:validation:XValidation:rule="has(self.nodeKey) == has(oldSelf.nodeKey) && (!has(self.nodeKey) || self.nodeKey == oldSelf.nodeKey)",message="nodeKey cannot be added, changed or removed: it is the identity of the node; create another SeiNode for another key"
// +kubebuilder:validation:XValidation:rule="!has(self.signingKey) || !has(self.signingKey.secret) || !has(self.nodeKey) || !has(self.nodeKey.secret) || self.signingKey.secret.secretName != self.nodeKey.secret.secretName",message="signingKey and nodeKey must be in different Secrets: the node key is mounted where the signing key must not be"
// +kubebuilder:validation:XValidation:rule="!has(self.signingKey) || !has(self.signingKey.secret) || !has(self.operatorKeyring) || !has(self.operatorKeyring.secret) || !(self.signingKey.secret.secretName in [self.operatorKeyring.secret.secretName, self.operatorKeyring.secret.passphraseSecretRef.secretName])",message="operatorKeyring and its passphrase must not be in the Secret of signingKey: use a Secret for each"
// +kubebuilder:validation:XValidation:rule="!has(self.nodeKey) || !has(self.nodeKey.secret) || !has(self.operatorKeyring) || !has(self.operatorKeyring.secret) || !(self.nodeKey.secret.secretName in [self.operatorKeyring.secret.secretName, self.operatorKeyring.secret.passphraseSecretRef.secretName])",message="operatorKeyring and its passphrase must not be in the Secret of nodeKey: use a Secret for each"
type ValidatorSpec struct {
	// snapshot starts the node from a snapshot of the chain instead of genesis.
	// +optional
	Snapshot *SnapshotSource `json:"snapshot,omitempty"`

	// signingKey is the key that signs blocks. It is reserved for this node in
	// the whole cluster: a second node with the same key does not run. It cannot
	// be changed, and comes together with nodeKey.
	// +optional
	SigningKey *KeySource `json:"signingKey,omitempty"`

	// nodeKey is the key of the node's p2p identity. It cannot be changed, and
	// comes together with signingKey.
	// +optional
	NodeKey *KeySource `json:"nodeKey,omitempty"`

	// operatorKeyring is the keyring with the account that operates the validator.
	// It is mounted into the sidecar only.
	// +optional
	OperatorKeyring *OperatorKeyring `json:"operatorKeyring,omitempty"`
}

// ArchiveSpec is what an archive node needs beyond what every node has.
type ArchiveSpec struct {
	// snapshotGeneration makes the node produce snapshots for others to start from.
	// +optional
	SnapshotGeneration *SnapshotGeneration `json:"snapshotGeneration,omitempty"`
}

// SeedSpec is what a seed needs beyond what every node has.
type SeedSpec struct {
	// nodeKey is the key of the node's p2p identity, by which others know this
	// seed. It cannot be changed.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="nodeKey cannot be changed: it is the identity of the seed; create another SeiNode for another key"
	NodeKey KeySource `json:"nodeKey"`
}

// ReplayerSpec is what a replayer needs beyond what every node has.
type ReplayerSpec struct {
	// snapshot starts the node from a snapshot of the chain instead of genesis.
	// +optional
	Snapshot *SnapshotSource `json:"snapshot,omitempty"`
}

// SnapshotSource says which snapshot a node starts from.
//
// +kubebuilder:validation:XValidation:rule="has(self.stateSync)",message="snapshot needs a source: write \"stateSync: {}\", or leave snapshot out to sync from genesis"
type SnapshotSource struct {
	// stateSync fetches a recent snapshot from peers, the way Tendermint does.
	// +optional
	StateSync *StateSyncSource `json:"stateSync,omitempty"`

	// rpcServers are the RPC servers, two or more, whose block headers the
	// snapshot is verified against: host:port, or a URL with http or https.
	// Without them the platform's list for the chain is used.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=2
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=261
	// +kubebuilder:validation:XValidation:rule="self.all(s, s.matches('^(https?://)?([a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?|\\\\[[0-9a-fA-F:.]+\\\\]):[0-9]{1,5}$'))",message="rpcServers must be host:port or http(s)://host:port without a path, for example rpc.example.com:26657"
	RPCServers []string `json:"rpcServers,omitempty"`

	// trustPeriod is how old a header may be and still be trusted, for example
	// "168h". It must be well below the chain's unbonding time.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+h)?([0-9]+m)?([0-9]+s)?$')",message="trustPeriod must be a duration of hours, minutes and seconds, for example 168h or 90m"
	TrustPeriod string `json:"trustPeriod,omitempty"`

	// backfillBlocks is how many blocks before the snapshot are fetched as well.
	// +optional
	// +kubebuilder:validation:Minimum=0
	BackfillBlocks *int64 `json:"backfillBlocks,omitempty"`
}

// StateSyncSource has no settings of its own; writing it chooses state sync.
type StateSyncSource struct{}

// SnapshotGeneration says how often a node produces a snapshot and how many it keeps.
type SnapshotGeneration struct {
	// interval is the number of blocks between two snapshots.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:default=2000
	Interval int64 `json:"interval,omitempty"`

	// keepRecent is the number of snapshots kept.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=2
	KeepRecent int32 `json:"keepRecent,omitempty"`
}

// KeySource says where a key comes from.
//
// +kubebuilder:validation:XValidation:rule="has(self.secret)",message="a key needs a source: write \"secret: {secretName: ...}\""
type KeySource struct {
	// secret is the Secret that holds the key.
	// +optional
	Secret *KeySecret `json:"secret,omitempty"`
}

// KeySecret names the Secret that holds a key. A signing key is in its entry
// priv_validator_key.json, a node key in node_key.json.
type KeySecret struct {
	// secretName is the name of the Secret, in the namespace of the node.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`
}

// OperatorKeyring says where the keyring of the validator's operator account
// comes from.
//
// +kubebuilder:validation:XValidation:rule="has(self.secret)",message="operatorKeyring needs a source: write \"secret\" with secretName and passphraseSecretRef, or leave operatorKeyring out"
type OperatorKeyring struct {
	// secret is the Secret that holds the keyring.
	// +optional
	Secret *KeyringSecret `json:"secret,omitempty"`
}

// KeyringSecret names the Secret with the files of a keyring, the key in it, and
// the passphrase that opens it.
//
// +kubebuilder:validation:XValidation:rule="self.secretName != self.passphraseSecretRef.secretName",message="the passphrase must not be in the Secret of the keyring that it opens: use two Secrets"
type KeyringSecret struct {
	// secretName is the name of the Secret with the keyring's files.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`

	// keyName is the name of the key in the keyring.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:default=node_admin
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9_-]+$')",message="keyName must consist of letters, digits, '_' and '-'"
	KeyName string `json:"keyName,omitempty"`

	// passphraseSecretRef is the entry of a Secret with the passphrase.
	// +required
	PassphraseSecretRef SecretEntry `json:"passphraseSecretRef"`
}

// SecretEntry is one entry of a Secret.
type SecretEntry struct {
	// secretName is the name of the Secret, in the namespace of the node.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`

	// key is the entry in the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}
