// Package home writes and reads the home directory of a node, as seid has it.
package home

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"text/template"
	"time"

	tmjson "github.com/tendermint/tendermint/libs/json"
	"github.com/tendermint/tendermint/privval"
	"github.com/tendermint/tendermint/types"
)

// Dir is the home directory of a node.
type Dir string

// The files of a home.
func (d Dir) path(parts ...string) string {
	return filepath.Join(append([]string{string(d)}, parts...)...)
}

// Config is a file of the configuration.
func (d Dir) Config(name string) string { return d.path("config", name) }

// Data is where the chain is.
func (d Dir) Data() string { return d.path("data") }

// Genesis is the genesis file.
func (d Dir) Genesis() string { return d.Config("genesis.json") }

// Hold is a file that seid does not have: while it exists, the node executes no block.
func (d Dir) Hold() string { return d.path("hold-blocks") }

// Close is another one: it says how long the node takes to close its state, such as "4m".
func (d Dir) Close() string { return d.path("slow-close") }

// UpgradeInfo is what a node leaves that needs another binary.
func (d Dir) UpgradeInfo() string { return d.path("data", "upgrade-info.json") }

// SignState is what was signed last.
func (d Dir) SignState() string { return d.path("data", "priv_validator_state.json") }

// Mode is what a node is for.
type Mode string

// The modes that "seid init" knows.
const (
	Full      Mode = "full"
	Validator Mode = "validator"
	Archive   Mode = "archive"
	Seed      Mode = "seed"
)

//go:embed templates
var files embed.FS

// settings are what the modes differ in.
type settings struct {
	ChainID, Moniker string
	EngineMode       Mode
	Bind             string
	Indexer          string
	MaxConnections   int
	AllowDuplicateIP bool
	MinRetainBlocks  int
	Services         bool
}

func (m Mode) settings(chainID, moniker string) (settings, error) {
	s := settings{
		ChainID: chainID, Moniker: moniker, EngineMode: m, Bind: "127.0.0.1", Indexer: "null", MaxConnections: 100,
	}
	switch m {
	case Full, Archive:
		s.EngineMode, s.Bind, s.Indexer, s.Services = Full, "0.0.0.0", "kv", true
		if m == Full {
			s.MinRetainBlocks = 100000
		}
	case Seed:
		s.MaxConnections, s.AllowDuplicateIP = 1000, true
	case Validator:
	default:
		return settings{}, fmt.Errorf("invalid node mode: %s (valid modes: validator, full, seed, archive)", m)
	}
	return s, nil
}

// modes of the files of the configuration.
var configFiles = map[string]fs.FileMode{"config.toml": 0o644, "app.toml": 0o600, "client.toml": 0o600}

// Ensure writes the files of the configuration that do not exist, and the directories.
// Every command of seid does so.
func (d Dir) Ensure() error {
	defaults, err := Full.settings("", hostname())
	if err != nil {
		return err
	}
	return d.writeConfig(defaults, false)
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "node"
	}
	return name
}

func (d Dir) writeConfig(s settings, overwrite bool) error {
	if err := os.MkdirAll(d.path("config"), 0o750); err != nil {
		return err
	}
	if err := os.MkdirAll(d.Data(), 0o750); err != nil {
		return err
	}
	for name, mode := range configFiles {
		if _, err := os.Stat(d.Config(name)); err == nil && !overwrite {
			continue
		}
		text, err := render(name, s)
		if err != nil {
			return err
		}
		if err := os.WriteFile(d.Config(name), text, mode); err != nil {
			return err
		}
	}
	return nil
}

func render(name string, s settings) ([]byte, error) {
	parsed, err := template.ParseFS(files, "templates/"+name)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := parsed.Execute(&text, s); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}

// ErrExists is what "seid init" answers where it was carried out before.
var ErrExists = errors.New("already exists")

// Init is "seid init". It returns what seid prints.
func (d Dir) Init(moniker, chainID string, mode Mode, overwrite bool) (string, error) {
	s, err := mode.settings(chainID, moniker)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(d.Genesis()); err == nil && !overwrite {
		return "", fmt.Errorf("configuration files %w in %s; to overwrite them use the --overwrite flag", ErrExists, d.path("config"))
	}
	if err := d.writeConfig(s, true); err != nil {
		return "", err
	}
	// Keys that exist stay, and so does what they signed.
	nodeKey, err := types.LoadOrGenNodeKey(d.Config("node_key.json"))
	if err != nil {
		return "", err
	}
	signer, err := d.signer()
	if err != nil {
		return "", err
	}
	genesis, err := DefaultGenesis(chainID, nil, 0)
	if err != nil {
		return "", err
	}
	address := []byte(signer.Key.PubKey.Address().String())
	for path, content := range map[string]struct {
		text []byte
		mode fs.FileMode
	}{
		d.Genesis():                      {genesis, 0o644},
		d.Config("node_pubkey.txt"):      {[]byte(nodeKey.ID), 0o600},
		d.Config("validator_pubkey.txt"): {address, 0o600},
	} {
		if err := os.WriteFile(path, content.text, content.mode); err != nil {
			return "", err
		}
	}
	printed, err := json.MarshalIndent(map[string]any{
		"moniker": moniker, "chain_id": chainID, "node_id": nodeKey.ID, "gentxs_dir": "", "app_message": json.RawMessage("{}"),
	}, "", " ")
	return string(printed), err
}

// signer is the signing key, made if there is none.
func (d Dir) signer() (*privval.FilePV, error) {
	key, state := d.Config("priv_validator_key.json"), d.SignState()
	_, err := os.Stat(key)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		made, err := privval.GenFilePV(key, state, "")
		if err != nil {
			return nil, err
		}
		made.Key.Save()
		if _, err := os.Stat(state); err == nil {
			return made, nil
		}
		return made, os.WriteFile(state, []byte(FreshSignState), 0o600)
	case err != nil:
		return nil, err
	}
	if _, err := os.Stat(state); errors.Is(err, fs.ErrNotExist) {
		if err := os.WriteFile(state, []byte(FreshSignState), 0o600); err != nil {
			return nil, err
		}
	}
	return privval.LoadFilePV(key, state)
}

// FreshSignState is the signing state of a key that never signed.
const FreshSignState = `{
  "height": "0",
  "round": 0,
  "step": 0
}`

// Timeouts are those of the consensus, which seid has in the genesis file.
type Timeouts struct {
	Propose      time.Duration `json:"propose"`
	ProposeDelta time.Duration `json:"propose_delta"`
	Vote         time.Duration `json:"vote"`
	VoteDelta    time.Duration `json:"vote_delta"`
	Commit       time.Duration `json:"commit"`
}

// DefaultTimeouts are those of a genesis file of "seid init".
var DefaultTimeouts = Timeouts{
	Propose: time.Second, ProposeDelta: 500 * time.Millisecond,
	Vote: 50 * time.Millisecond, VoteDelta: 500 * time.Millisecond, Commit: 50 * time.Millisecond,
}

// Evidence counts as long as one of these has not passed. After a state sync the engine
// fetches the headers of that time, one by one. By default these are all since the genesis,
// and seid fetches none: on a chain of some thousand blocks that is a difference of minutes.
const (
	evidenceBlocks = 50
	evidenceAge    = 15 * time.Second
)

// DefaultGenesis is a genesis file. The commit timeout is about the time from
// block to block; zero means the default.
func DefaultGenesis(chainID string, validators []types.GenesisValidator, commit time.Duration) ([]byte, error) {
	consensus := types.DefaultConsensusParams()
	consensus.Evidence.MaxAgeNumBlocks, consensus.Evidence.MaxAgeDuration = evidenceBlocks, evidenceAge
	document := types.GenesisDoc{ChainID: chainID, Validators: validators, ConsensusParams: consensus, AppState: json.RawMessage("{}")}
	if err := document.ValidateAndComplete(); err != nil {
		return nil, err
	}
	text, err := tmjson.Marshal(document)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	var params map[string]json.RawMessage
	if err := json.Unmarshal(fields["consensus_params"], &params); err != nil {
		return nil, err
	}
	timeouts := DefaultTimeouts
	if commit > 0 {
		timeouts.Commit = commit
	}
	if params["timeout"], err = tmjson.Marshal(timeouts); err != nil {
		return nil, err
	}
	if fields["consensus_params"], err = json.Marshal(params); err != nil {
		return nil, err
	}
	return json.MarshalIndent(fields, "", "  ")
}

// ReadTimeouts reads those of a genesis file; what it does not have is the default.
func ReadTimeouts(genesis []byte) (Timeouts, error) {
	var document struct {
		Params struct {
			Timeout Timeouts `json:"timeout"`
		} `json:"consensus_params"`
	}
	document.Params.Timeout = DefaultTimeouts
	err := tmjson.Unmarshal(genesis, &document)
	return document.Params.Timeout, err
}

// Reset is "seid tendermint unsafe-reset-all".
func (d Dir) Reset() error {
	for _, dir := range []string{d.Data(), d.path("wasm")} {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(d.Data(), 0o750); err != nil {
		return err
	}
	return os.WriteFile(d.SignState(), []byte(FreshSignState), 0o600)
}
