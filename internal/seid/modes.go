package seid

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// InitMode is the mode as "seid init --mode" takes it.
func (m Mode) InitMode() string {
	if m == ModeArchive {
		return "archive"
	}
	return m.configMode()
}

// configMode is the mode as config.toml takes it, which knows fewer: an archive
// and a replayer are full nodes that are configured in a certain way.
func (m Mode) configMode() string {
	switch m {
	case ModeValidator:
		return "validator"
	case ModeSeed:
		return "seed"
	case ModeFullNode, ModeArchive, ModeReplayer:
		return "full"
	default:
		return ""
	}
}

// Desired is what the configuration files shall say: the operator's wishes for
// every node, those for the mode, and on top of them the user's overrides. All
// else is as "seid init" wrote it.
func Desired(intent Intent) (Changes, error) {
	if intent.Mode.configMode() == "" {
		return nil, fmt.Errorf("%q is no mode of a node", intent.Mode)
	}
	if intent.ChainID == "" {
		return nil, fmt.Errorf("the chain id of the node is empty")
	}
	changes := everyNode(intent)
	maps.Copy(changes, ofMode(intent.Mode))
	if err := addSnapshots(changes, intent); err != nil {
		return nil, err
	}
	if err := addPeers(changes, intent); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(intent.Overrides)) {
		if reason := forbidden(name); reason != "" {
			return nil, fmt.Errorf("the override %q is refused: %s", name, reason)
		}
		key, err := ParseKey(name)
		if err != nil {
			return nil, fmt.Errorf("the override cannot be made: %w", err)
		}
		changes[key] = intent.Overrides[name]
	}
	return changes, nil
}

// PersistentPeers is the key that the task for peers writes beside the document.
var PersistentPeers = config("p2p.persistent-peers")

// Wishes identifies what a sidecar makes of a document. Another version may make
// something else of the same one.
func Wishes(intent Intent) (string, error) {
	want, err := Desired(intent)
	if err != nil {
		return "", err
	}
	delete(want, PersistentPeers)
	named := map[string]string{}
	for key, value := range want {
		named[key.String()] = value
	}
	for key, value := range OnEmptyVolume(intent.Mode) {
		named["empty volume: "+key.String()] = value
	}
	// Keys of maps are sorted, and nothing in the type can fail.
	text, _ := json.Marshal(named)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

func config(path string) Key { return Key{ConfigTOML, path} }
func app(path string) Key    { return Key{AppTOML, path} }
func client(path string) Key { return Key{ClientTOML, path} }

func everyNode(intent Intent) Changes {
	rpc := "tcp://0.0.0.0:26657"
	if intent.Mode == ModeValidator {
		rpc = "tcp://127.0.0.1:26657"
	}
	return Changes{
		config("mode"): intent.Mode.configMode(),
		// "seid init" binds validators and seeds to loopback, where no peer can
		// reach them.
		config("p2p.laddr"):            "tcp://0.0.0.0:26656",
		config("p2p.external-address"): intent.ExternalAddress,
		config("rpc.laddr"):            rpc,
		// Off by default, and during a state sync all there is to see.
		config("instrumentation.prometheus"):             "true",
		config("instrumentation.prometheus-listen-addr"): ":26660",
		// An imported volume may say otherwise. What the operator checks, reserves
		// and protects must be what seid signs with.
		config("db-dir"):                    "data",
		config("genesis-file"):              "config/genesis.json",
		config("node-key-file"):             "config/node_key.json",
		config("priv-validator.key-file"):   "config/priv_validator_key.json",
		config("priv-validator.state-file"): "data/priv_validator_state.json",
		config("priv-validator.laddr"):      "",
		// Whether to look for the own signature in past blocks is decided at every start,
		// and given as an argument. A height in the file would make seid panic at each
		// quick restart of a validator, and nobody may override it.
		config("consensus.double-sign-check-height"): "0",
		// seid does not start when this differs from the genesis file.
		client("chain-id"): intent.ChainID,
		client("node"):     "tcp://127.0.0.1:26657",
	}
}

// ofMode is what differs from what "seid init" writes and can change at any time: it
// takes nothing away from a volume that has data. docs/tuning.md tells why each is so.
// No value follows from the machine at hand, or a node would change as its pod moves.
func ofMode(mode Mode) Changes {
	switch mode {
	case ModeFullNode:
		return Changes{app("concurrency-workers"): manyWorkers}
	case ModeArchive:
		// "seid init --mode archive" keeps all blocks, but not all state. This is for
		// volumes with data, too: were it not wanted any more, the values before it would
		// come back, and the archive would begin to prune.
		return Changes{
			app("concurrency-workers"):           manyWorkers,
			app("min-retain-blocks"):             "0",
			app("state-store.ss-enable"):         "true",
			app("state-store.ss-keep-recent"):    "0",
			app("evm.max_trace_lookback_blocks"): "-1",
		}
	case ModeReplayer:
		return Changes{
			app("concurrency-workers"):                        manyWorkers,
			app("state-commit.sc-async-commit-buffer"):        "100",
			app("state-commit.sc-keep-recent"):                "2",
			app("state-commit.sc-snapshot-min-time-interval"): "3600",
		}
	case ModeValidator:
		return Changes{
			app("concurrency-workers"): validatorWorkers,
			// Blocks that are committed but not written yet are lost when the process dies.
			app("state-commit.sc-async-commit-buffer"): "0",
		}
	case ModeSeed:
		// A seed that does not exchange peers is of no use.
		return Changes{config("p2p.pex"): "true"}
	default:
		return nil
	}
}

const (
	// manyWorkers is for nodes that catch up and answer queries: workers wait for the
	// disk most of the time.
	manyWorkers = "500"
	// validatorWorkers is what seid chooses on 16 cores. "seid init" counts those of
	// the machine that it happens to run on.
	validatorWorkers = "32"
	// servingConnections is for nodes that others sync from.
	servingConnections = "500"
)

// OnEmptyVolume is what a mode decides about the layout of data. It belongs to the
// files that a volume begins with, as if "seid init" had written it: with data on the
// volume, the files stay as they are, because seid may lose or miss data otherwise.
func OnEmptyVolume(mode Mode) Changes {
	switch mode {
	case ModeValidator, ModeSeed:
		// Past states are for queries, which nobody asks these.
		return Changes{app("state-store.ss-enable"): "false"}
	case ModeFullNode, ModeArchive, ModeReplayer:
		return nil
	default:
		return nil
	}
}

// addSnapshots writes both cases: what was switched on must go off again.
func addSnapshots(changes Changes, intent Intent) error {
	interval := app("state-sync.snapshot-interval")
	generation := intent.SnapshotGeneration
	if generation == nil {
		changes[interval] = "0"
		return nil
	}
	if intent.Mode != ModeFullNode && intent.Mode != ModeArchive {
		return fmt.Errorf("a node of mode %s makes no snapshots: remove snapshotGeneration", intent.Mode)
	}
	if generation.Interval < 1 || generation.KeepRecent < 1 {
		return fmt.Errorf("snapshotGeneration must have an interval and a keepRecent of at least 1, not %d and %d", generation.Interval, generation.KeepRecent)
	}
	changes[interval] = strconv.FormatInt(generation.Interval, 10)
	changes[app("state-sync.snapshot-keep-recent")] = strconv.FormatInt(generation.KeepRecent, 10)
	changes[config("p2p.max-connections")] = servingConnections
	return nil
}

// addPeers writes the peers. One that seid does not take would keep it from
// starting, and a comma in one would make two of it.
func addPeers(changes Changes, intent Intent) error {
	for _, peer := range intent.Peers {
		if strings.ContainsAny(peer, ", \t\r\n") {
			return fmt.Errorf("the peer %q is refused: it contains a comma or white space", peer)
		}
		if problem := peerProblem(peer); problem != "" {
			return fmt.Errorf("the peer %q is refused: %s", peer, problem)
		}
	}
	changes[PersistentPeers] = strings.Join(intent.Peers, ",")
	return nil
}

// forbidden says why a key must not be overridden, or nothing. Admission refuses
// the same keys; this is for whatever did not come that way. The file does not
// matter: seid reads all three into one store, in which the name of a key counts
// and its case does not.
func forbidden(name string) string {
	name = strings.ToLower(strings.TrimSpace(name))
	_, path, _ := strings.Cut(name, ".")
	switch {
	case path == "priv-validator.laddr":
		return "a remote signer is not supported yet; use validator.signingKey.secret"
	case strings.HasPrefix(path, "priv-validator"), strings.HasSuffix(path, "-key-file"):
		return "keys are configured by validator.signingKey, validator.nodeKey and seed.nodeKey"
	}
	switch path {
	case "db-dir", "genesis-file", "consensus.double-sign-check-height":
		return "the layout of the data volume and the guard against signing twice belong to the operator; leave it out"
	case "rpc.laddr", "p2p.laddr", "instrumentation.prometheus-listen-addr":
		return "the operator's probes need this address where it is; publish a node with externalAddress"
	case "mode", "chain-id":
		return "it follows from the mode and chainId of the spec"
	default:
		return ""
	}
}
