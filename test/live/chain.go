package live

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// Chain is a chain in a namespace of its own, which is called like the chain.
type Chain struct {
	*Cluster
	ID         string
	Validators int
	// names of the validators, by the addresses that they sign as.
	names map[string]string
}

// blockTime is slow enough for a machine with two cores and fast enough for a story.
const blockTime = 500 * time.Millisecond

// serviceAccount is what nodes run as; see config/access.
const serviceAccount = "sei-node"

// snapshotInterval is how many blocks are between two snapshots of a provider.
const snapshotInterval = 15

// NewChain makes the namespace, the genesis and the keys of a chain. It has no nodes yet.
func (c *Cluster) NewChain(ctx context.Context, id string, validators int) (*Chain, error) {
	manifests, err := c.makeKeys(ctx, id, id, validators)
	if err != nil {
		return nil, err
	}
	if err := c.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: id}}); err != nil {
		return nil, err
	}
	// The ServiceAccount of its nodes, and what their access proxies may ask.
	if err := c.install(ctx, "access/proxy_binding", "sei-nodes", id); err != nil {
		return nil, err
	}
	if err := c.Apply(ctx, manifests); err != nil {
		return nil, err
	}
	chain := &Chain{Cluster: c, ID: id, Validators: validators, names: map[string]string{}}
	genesis := &corev1.ConfigMap{}
	if err := c.Client.Get(ctx, chain.Key(id+"-genesis"), genesis); err != nil {
		return nil, err
	}
	var content struct {
		Validators []struct {
			Address string `json:"address"`
			Name    string `json:"name"`
		} `json:"validators"`
	}
	if err := json.Unmarshal([]byte(genesis.Data["genesis.json"]), &content); err != nil {
		return nil, fmt.Errorf("reading the genesis of %s: %w", id, err)
	}
	for _, validator := range content.Validators {
		chain.names[validator.Address] = validator.Name
	}
	return chain, nil
}

// makeKeys makes the genesis and the keys of a chain, as manifests.
func (c *Cluster) makeKeys(ctx context.Context, namespace, id string, validators int) ([]byte, error) {
	manifests, err := exec.CommandContext(ctx, c.programs.devchain(), "make", "--chain-id", id, "--namespace", namespace,
		"--validators", strconv.Itoa(validators), "--block-time", blockTime.String()).Output()
	if err != nil {
		return nil, fmt.Errorf("making keys and genesis of %s: %w", id, err)
	}
	return manifests, nil
}

// NodeKey is a Secret with a node key, and the id of a node that has it.
type NodeKey struct{ Secret, ID string }

// NewNodeKey makes a node key for a node that is no validator of the genesis. It is
// that of the validator of a chain that is never started.
func (c *Chain) NewNodeKey(ctx context.Context, name string) (NodeKey, error) {
	manifests, err := c.makeKeys(ctx, c.ID, name, 1)
	if err != nil {
		return NodeKey{}, err
	}
	if err := c.Apply(ctx, manifests); err != nil {
		return NodeKey{}, err
	}
	secret := &corev1.Secret{}
	if err := c.Client.Get(ctx, c.Key(name+"-"+ValidatorName(0)+"-node-key"), secret); err != nil {
		return NodeKey{}, err
	}
	var content struct {
		ID string `json:"id"`
	}
	err = json.Unmarshal(secret.Data["node_key.json"], &content)
	return NodeKey{secret.Name, content.ID}, err
}

// Key is that of an object in the chain's namespace.
func (c *Chain) Key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: c.ID, Name: name}
}

// ValidatorName is that of a validator, by its place in the genesis.
func ValidatorName(i int) string { return fmt.Sprintf("validator-%d", i) }

// ValidatorNames are those of all validators of the genesis.
func (c *Chain) ValidatorNames() []string {
	var names []string
	for i := range c.Validators {
		names = append(names, ValidatorName(i))
	}
	return names
}

// discoveryTime is how long a node that syncs looks for snapshots.
const discoveryTime = "config.statesync.discovery-time"

// Spec is what all nodes of the chain have in common; the mode is not set.
func (c *Chain) Spec() v1alpha1.SeiNodeSpec {
	small := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	return v1alpha1.SeiNodeSpec{
		ChainID: c.ID, Image: ImageV1, ServiceAccountName: serviceAccount,
		Peers:      []v1alpha1.PeerSource{{Label: &v1alpha1.LabelPeers{Selector: map[string]v1alpha1.LabelValue{v1alpha1.LabelChain: v1alpha1.LabelValue(c.ID)}}}},
		Genesis:    &v1alpha1.GenesisSource{ConfigMap: &v1alpha1.ConfigMapEntry{Name: c.ID + "-genesis", Key: "genesis.json"}},
		Resources:  &corev1.ResourceRequirements{Requests: small},
		DataVolume: &v1alpha1.DataVolumeSpec{Size: new(resource.MustParse("1Gi"))},
		// The exchange of peers of Tendermint v0.35.9 takes two locks in one order and its
		// peer manager in the other; now and then a node hangs in that for ever. All peers
		// are known here anyway. Snapshots are, too: nobody has to look for them for the
		// quarter of a minute that is the default.
		Overrides: v1alpha1.Overrides{"config.p2p.pex": "false", discoveryTime: "5s"},
	}
}

// Node is a node of the chain in the mode that the change sets.
func (c *Chain) Node(name string, mode func(*v1alpha1.SeiNodeSpec)) *v1alpha1.SeiNode {
	node := &v1alpha1.SeiNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.ID, Name: name, Labels: map[string]string{v1alpha1.LabelChain: c.ID}},
		Spec:       c.Spec(),
	}
	mode(&node.Spec)
	return node
}

// Validator is the node of a validator of the genesis.
func (c *Chain) Validator(i int) *v1alpha1.SeiNode {
	secret := func(kind string) *v1alpha1.KeySource {
		return &v1alpha1.KeySource{Secret: &v1alpha1.KeySecret{SecretName: fmt.Sprintf("%s-%s-%s", c.ID, ValidatorName(i), kind)}}
	}
	return c.Node(ValidatorName(i), func(spec *v1alpha1.SeiNodeSpec) {
		spec.Validator = &v1alpha1.ValidatorSpec{SigningKey: secret("signing-key"), NodeKey: secret("node-key")}
	})
}

// Providers are two nodes with all blocks. Others sync from their snapshots and verify
// them against their RPC, and the record of the chain is read from them.
func (c *Chain) Providers() []*v1alpha1.SeiNode {
	generation := &v1alpha1.SnapshotGeneration{Interval: snapshotInterval, KeepRecent: 3}
	return []*v1alpha1.SeiNode{
		c.Node("archive", func(spec *v1alpha1.SeiNodeSpec) {
			spec.Archive = &v1alpha1.ArchiveSpec{SnapshotGeneration: generation}
		}),
		c.Node("provider", func(spec *v1alpha1.SeiNodeSpec) {
			spec.FullNode = &v1alpha1.FullNodeSpec{SnapshotGeneration: generation}
		}),
	}
}

// StateSync makes a full node that begins with a snapshot of the providers.
func (c *Chain) StateSync(spec *v1alpha1.SeiNodeSpec) {
	spec.FullNode = &v1alpha1.FullNodeSpec{Snapshot: &v1alpha1.SnapshotSource{
		StateSync: &v1alpha1.StateSyncSource{}, RPCServers: []string{"archive:26657", "provider:26657"},
	}}
}

// Fleet is a fleet of full nodes that sync from the providers.
func (c *Chain) Fleet(name string, replicas int32) *v1alpha1.SeiNodeDeployment {
	spec := c.Spec()
	c.StateSync(&spec)
	return &v1alpha1.SeiNodeDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.ID, Name: name},
		Spec:       v1alpha1.SeiNodeDeploymentSpec{Replicas: new(replicas), Template: v1alpha1.SeiNodeTemplate{Spec: spec}},
	}
}

// Start creates the validators and the providers, and waits until all are ready.
func (c *Chain) Start(ctx context.Context) error {
	nodes := c.Providers()
	for i := range c.Validators {
		nodes = append(nodes, c.Validator(i))
	}
	for _, node := range nodes {
		if err := c.Client.Create(ctx, node); err != nil {
			return err
		}
	}
	for _, node := range nodes {
		if _, err := c.Ready(ctx, node.Name); err != nil {
			return err
		}
	}
	return nil
}

// Edit changes a node as a person does, again and again until nobody else was faster.
func (c *Chain) Edit(ctx context.Context, name string, change func(*v1alpha1.SeiNode)) error {
	return edit(ctx, c, name, &v1alpha1.SeiNode{}, change)
}

// EditFleet changes a fleet.
func (c *Chain) EditFleet(ctx context.Context, name string, change func(*v1alpha1.SeiNodeDeployment)) error {
	return edit(ctx, c, name, &v1alpha1.SeiNodeDeployment{}, change)
}

func edit[T client.Object](ctx context.Context, c *Chain, name string, object T, change func(T)) error {
	return Poll(ctx, "an edit of "+name, func() (bool, error) {
		err := c.Client.Get(ctx, c.Key(name), object)
		if err == nil {
			change(object)
			err = c.Client.Update(ctx, object)
		}
		return err == nil, err
	})
}
