// Package chain gives a test or a person a devchain: its keys and its genesis, nodes
// on this machine, load, and a record of what happened.
package chain

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tendermint/tendermint/crypto/ed25519"
	tmjson "github.com/tendermint/tendermint/libs/json"
	"github.com/tendermint/tendermint/privval"
	"github.com/tendermint/tendermint/types"

	"github.com/sei-operator/sei-operator/lab/devchain/home"
)

// Options say what chain to make.
type Options struct {
	ChainID    string
	Validators int
	// BlockTime is about the time from block to block. The default of seid is too
	// fast for nodes that do not validate: they fall behind without limit.
	BlockTime time.Duration
}

// Identity is the keys of a validator.
type Identity struct {
	Name       string
	NodeKey    types.NodeKey
	SigningKey privval.FilePVKey
}

// Network is a chain before its first block.
type Network struct {
	ChainID    string
	Genesis    []byte
	Validators []Identity
}

// power is that of each validator, of the size that Sei has.
const power = 7000000000

// NewNetwork makes keys for the validators, and a genesis with them.
func NewNetwork(options Options) (*Network, error) {
	if options.Validators < 1 {
		return nil, fmt.Errorf("a chain needs a validator, not %d", options.Validators)
	}
	network := &Network{ChainID: options.ChainID}
	var inGenesis []types.GenesisValidator
	for i := range options.Validators {
		id := NewIdentity(fmt.Sprintf("validator-%d", i))
		network.Validators = append(network.Validators, id)
		inGenesis = append(inGenesis, types.GenesisValidator{
			Address: id.SigningKey.Address, PubKey: id.SigningKey.PubKey, Power: power, Name: id.Name,
		})
	}
	var err error
	network.Genesis, err = home.DefaultGenesis(options.ChainID, inGenesis, options.BlockTime)
	return network, err
}

// NewIdentity makes the keys of a node.
func NewIdentity(name string) Identity {
	signing := ed25519.GenPrivKey()
	return Identity{
		Name: name, NodeKey: types.GenNodeKey(),
		SigningKey: privval.FilePVKey{Address: signing.PubKey().Address(), PubKey: signing.PubKey(), PrivKey: signing},
	}
}

// Address is the consensus address, as /status and the metrics show it.
func (id Identity) Address() string { return id.SigningKey.Address.String() }

// Files are the two key files, by their names in the home directory.
func (id Identity) Files() (map[string][]byte, error) {
	nodeKey, err := tmjson.MarshalIndent(id.NodeKey, "", "  ")
	if err != nil {
		return nil, err
	}
	signingKey, err := tmjson.MarshalIndent(id.SigningKey, "", "  ")
	if err != nil {
		return nil, err
	}
	return map[string][]byte{"node_key.json": nodeKey, "priv_validator_key.json": signingKey}, nil
}

// Write writes the genesis, and a directory with the keys of each validator.
func (n *Network) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "genesis.json"), n.Genesis, 0o644); err != nil {
		return err
	}
	for _, validator := range n.Validators {
		if err := validator.write(filepath.Join(dir, validator.Name)); err != nil {
			return err
		}
	}
	return nil
}

func (id Identity) write(dir string) error {
	files, err := id.Files()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
