package seid

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Home is the directory that seid is started with as --home.
type Home string

func (h Home) join(names ...string) string {
	return filepath.Join(append([]string{string(h)}, names...)...)
}

// ConfigDir holds the configuration, the genesis file and the keys.
func (h Home) ConfigDir() string { return h.join("config") }

// File is the path of one of the three configuration files.
func (h Home) File(file File) string { return h.join("config", string(file)) }

// Genesis is the genesis file.
func (h Home) Genesis() string { return h.join("config", "genesis.json") }

// NodeKey is the key that identifies the node to its peers.
func (h Home) NodeKey() string { return h.join("config", "node_key.json") }

// SigningKey is the key a validator signs blocks with.
func (h Home) SigningKey() string { return h.join("config", "priv_validator_key.json") }

// Data holds the chain's data and the signing state.
func (h Home) Data() string { return h.join("data") }

// SignState is what was signed last. It is all that keeps a validator from
// signing twice.
func (h Home) SignState() string { return h.join("data", "priv_validator_state.json") }

// UpgradeInfo is what seid writes when it halts for an upgrade. It stays there
// after the upgrade, so its presence alone proves nothing.
func (h Home) UpgradeInfo() string { return h.join("data", "upgrade-info.json") }

// Snapshots holds the state sync snapshots.
func (h Home) Snapshots() string { return h.join("data", "snapshots") }

// Wasm holds contract code. It is not in Data, but belongs to the same state: a
// node whose data is wiped must lose it too.
func (h Home) Wasm() string { return h.join("wasm") }

// HasChainData says whether the volume holds a chain's data, which is: a block
// store with something in it, in the layout of v6.6 or the older one. seid keeps
// using the older one where it finds it. "seid init" makes neither, and any
// command of seid makes an empty data directory.
func (h Home) HasChainData() (bool, error) {
	for _, dir := range []string{
		h.join("data", "tendermint", "blockstore.db"),
		h.join("data", "blockstore.db"),
	} {
		entries, err := os.ReadDir(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case errors.Is(err, syscall.ENOTDIR):
			// Some database backends keep a store in one file.
			return true, nil
		case err != nil:
			// Unknown must not read as empty: the caller may be about to overwrite.
			return false, fmt.Errorf("cannot tell whether the volume holds chain data: %w", err)
		case len(entries) > 0:
			return true, nil
		}
	}
	return false, nil
}
