package seid

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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

// blockStores are where blocks are, in the layout of v6.6 and in the older one,
// which seid keeps using where it finds it.
func (h Home) blockStores() []string {
	return []string{h.join("data", "tendermint", "blockstore.db"), h.join("data", "blockstore.db")}
}

// HasChainData says whether the volume holds a chain's data, which is: a block
// store with something in it. seid saves a block before it executes it, so no
// state of a chain goes without blocks, with one exception: a state sync that was
// broken off. That one seid begins anew, and nothing of it is worth keeping.
//
// A store that was only opened is empty, though it has files: a seid whose first
// state sync failed leaves one behind.
func (h Home) HasChainData() (bool, error) {
	for _, dir := range h.blockStores() {
		if holds, err := storeHolds(dir); holds || err != nil {
			return holds, err
		}
	}
	return false, nil
}

// storeHolds tells whether a database has anything in it. Unknown must not read as
// empty, because the caller may be about to overwrite: only the files are left out
// that an empty database is known to have.
func storeHolds(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case errors.Is(err, syscall.ENOTDIR):
		// Some database backends keep a store in one file.
		return true, nil
	case err != nil:
		return false, fmt.Errorf("cannot tell whether the volume holds chain data: %w", err)
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".log") {
			if !emptyStoreHas(entry.Name()) {
				return true, nil
			}
			continue
		}
		// What was written last is in the log, and nowhere else.
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return true, nil // somebody writes to it
		}
		if err != nil {
			return false, fmt.Errorf("cannot tell whether the volume holds chain data: %w", err)
		}
		if info.Size() > 0 {
			return true, nil
		}
	}
	return false, nil
}

// emptyStoreHas tells whether a LevelDB that was only opened has such a file,
// beside a log without content.
func emptyStoreHas(name string) bool {
	switch name {
	case "CURRENT", "CURRENT.bak", "LOCK", "LOG", "LOG.old":
		return true
	}
	return strings.HasPrefix(name, "MANIFEST-") || strings.HasPrefix(name, "CURRENT.")
}

// HasStores says whether seid ever ran with this home: it opens its databases
// before it knows a single block. Whose home that is may have configured it for the
// chain, and is not to lose that.
func (h Home) HasStores() (bool, error) {
	for _, name := range []string{
		"tendermint", "state_commit", "state_store", "ledger",
		"blockstore.db", "state.db", "application.db", "committer.db", "pebbledb",
	} {
		entries, err := os.ReadDir(h.join("data", name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case errors.Is(err, syscall.ENOTDIR):
			return true, nil
		case err != nil:
			return false, fmt.Errorf("cannot tell whether seid ever ran on this volume: %w", err)
		case len(entries) > 0:
			return true, nil
		}
	}
	return false, nil
}

// GenesisStates are the databases in which seid keeps what it derived from the
// genesis file at its first start, and goes on from, whatever the file says later.
func (h Home) GenesisStates() []string {
	return []string{h.join("data", "tendermint", "state.db"), h.join("data", "state.db")}
}
