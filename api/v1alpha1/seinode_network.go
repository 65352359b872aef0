package v1alpha1

// PeerSource is one source of peers.
//
// +kubebuilder:validation:XValidation:rule="[has(self.static), has(self.label), has(self.dns)].filter(x, x).size() == 1",message="each entry of peers must be exactly one of static, label and dns: write one entry per source"
type PeerSource struct {
	// static is a fixed list of peers.
	// +optional
	Static *StaticPeers `json:"static,omitempty"`

	// label takes the SeiNodes with these labels as peers; the node itself is
	// left out.
	// +optional
	Label *LabelPeers `json:"label,omitempty"`

	// dns takes every node behind a DNS name as a peer.
	// +optional
	DNS *DNSPeers `json:"dns,omitempty"`
}

// StaticPeers is a fixed list of peers.
type StaticPeers struct {
	// addresses are the peers, each nodeId@host:port.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=302
	// +kubebuilder:validation:XValidation:rule="self.all(a, a.matches('^[0-9a-f]{40}@([a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?|\\\\[[0-9a-fA-F:.]+\\\\]):[0-9]{1,5}$'))",message="addresses must be nodeId@host:port with a node id of 40 lower-case hexadecimal digits"
	Addresses []string `json:"addresses"`
}

// LabelPeers selects SeiNodes by their labels.
type LabelPeers struct {
	// selector holds the labels that a peer must have, all of them.
	// +required
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k).hasValue())",message="selector must have keys like sei.io/chain or team"
	Selector map[string]LabelValue `json:"selector"`

	// namespace is where to look; the node's own without it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// DNSPeers is a DNS name with a node behind each of its addresses.
type DNSPeers struct {
	// name is the DNS name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?$')",message="name must be a DNS name without scheme and port, for example seeds.example.com; the port has a field of its own"
	Name string `json:"name"`

	// port is the p2p port of the nodes behind the name.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:default=26656
	Port int32 `json:"port,omitempty"`
}

// GenesisSource says where the genesis file comes from.
//
// +kubebuilder:validation:XValidation:rule="has(self.configMap) != has(self.url)",message="genesis must be exactly one of configMap and url; leave genesis out for a chain whose genesis seid carries itself"
type GenesisSource struct {
	// configMap is an entry of a ConfigMap in the namespace of the node.
	// +optional
	ConfigMap *ConfigMapEntry `json:"configMap,omitempty"`

	// url is a file to download, with its checksum.
	// +optional
	URL *GenesisURL `json:"url,omitempty"`
}

// ConfigMapEntry is one entry of a ConfigMap.
type ConfigMapEntry struct {
	// name is the name of the ConfigMap.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// key is the entry in the ConfigMap.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:default="genesis.json"
	Key string `json:"key,omitempty"`
}

// GenesisURL is a genesis file on the web. A file with another checksum is
// never used.
type GenesisURL struct {
	// url is where the file is, with http or https.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.startsWith('https://') || self.startsWith('http://')",message="url must start with https:// or http://"
	URL string `json:"url"`

	// sha256 is the checksum of the file, 64 hexadecimal digits.
	// +required
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{64}$')",message="sha256 must be 64 lower-case hexadecimal digits, as sha256sum prints them"
	SHA256 string `json:"sha256"`
}
