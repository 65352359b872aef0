package chain

import (
	"encoding/base64"
	"io"
	"maps"
	"slices"

	"gopkg.in/yaml.v3"
)

// object is what a Secret and a ConfigMap have in common.
type object struct {
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Metadata   metadata          `yaml:"metadata"`
	Data       map[string]string `yaml:"data"`
}

type metadata struct {
	Name      string            `yaml:"name"`
	Namespace string            `yaml:"namespace,omitempty"`
	Labels    map[string]string `yaml:"labels,omitempty"`
}

// GenesisName is that of the ConfigMap with the genesis, under genesis.json.
func (n *Network) GenesisName() string { return n.ChainID + "-genesis" }

// SecretNames are those of the two Secrets of a validator. They are two, because a
// signing key goes into fewer containers than a node key.
func (n *Network) SecretNames(id Identity) (signingKey, nodeKey string) {
	return n.ChainID + "-" + id.Name + "-signing-key", n.ChainID + "-" + id.Name + "-node-key"
}

// Manifests writes the genesis as a ConfigMap and the keys as Secrets, in YAML.
func (n *Network) Manifests(out io.Writer, namespace string) error {
	labels := map[string]string{"sei.io/chain": n.ChainID}
	objects := []object{{
		APIVersion: "v1", Kind: "ConfigMap",
		Metadata: metadata{Name: n.GenesisName(), Namespace: namespace, Labels: labels},
		Data:     map[string]string{"genesis.json": string(n.Genesis)},
	}}
	for _, validator := range n.Validators {
		files, err := validator.Files()
		if err != nil {
			return err
		}
		signingKey, nodeKey := n.SecretNames(validator)
		names := map[string]string{"priv_validator_key.json": signingKey, "node_key.json": nodeKey}
		for _, file := range slices.Sorted(maps.Keys(files)) {
			objects = append(objects, object{
				APIVersion: "v1", Kind: "Secret",
				Metadata: metadata{Name: names[file], Namespace: namespace, Labels: labels},
				Data:     map[string]string{file: base64.StdEncoding.EncodeToString(files[file])},
			})
		}
	}
	encoder := yaml.NewEncoder(out)
	encoder.SetIndent(2)
	for _, one := range objects {
		if err := encoder.Encode(one); err != nil {
			return err
		}
	}
	return encoder.Close()
}
