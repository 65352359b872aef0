package fakeseid

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// errStopped is what FailInit makes of an init.
var errStopped = errors.New("stopped by the script")

// SigningKey is a validator's key file made from a seed, and its public key as
// seid writes it.
func SigningKey(seed string) (file []byte, publicKey string) {
	private := key(seed)
	public := private.Public().(ed25519.PublicKey)
	sum := sha256.Sum256(public)
	publicKey = base64.StdEncoding.EncodeToString(public)
	return mustJSON(map[string]any{
		"address":  fmt.Sprintf("%X", sum[:20]),
		"pub_key":  map[string]string{"type": "tendermint/PubKeyEd25519", "value": publicKey},
		"priv_key": map[string]string{"type": "tendermint/PrivKeyEd25519", "value": base64.StdEncoding.EncodeToString(private)},
	}), publicKey
}

// NodeKey is a node key file made from a seed, and its node id.
func NodeKey(seed string) (file []byte, id string) {
	private := key(seed)
	sum := sha256.Sum256(private.Public().(ed25519.PublicKey))
	id = hex.EncodeToString(sum[:20])
	return mustJSON(map[string]any{
		"id":       id,
		"priv_key": map[string]string{"type": "tendermint/PrivKeyEd25519", "value": base64.StdEncoding.EncodeToString(private)},
	}), id
}

func key(seed string) ed25519.PrivateKey {
	sum := sha256.Sum256([]byte(seed))
	return ed25519.NewKeyFromSeed(sum[:])
}

func mustJSON(value any) []byte {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		panic(err) // Plain data.
	}
	return text
}

func signState(height int64) []byte {
	return mustJSON(map[string]any{"height": strconv.FormatInt(height, 10), "round": 0, "step": 0})
}

func writeSignState(home string, height int64) error {
	return os.WriteFile(filepath.Join(home, "data", "priv_validator_state.json"), signState(height), 0o600)
}

// initialise is "seid init": it refuses a home that has configuration, keeps the
// keys that are there, and with --overwrite writes the rest anew.
func initialise(args []string, script []Step) int {
	home, _ := flag(args, "home")
	chain, ok := flag(args, "chain-id")
	if !ok || chain == "" {
		fail("panic: chain id is empty")
		return 2
	}
	mode, ok := flag(args, "mode")
	if !ok {
		mode = "full"
	}
	switch mode {
	case "validator", "full", "seed", "archive":
	default:
		return fail("Error: invalid node mode: %s (valid modes: validator, full, seed, archive)", mode)
	}
	genesis := filepath.Join(home, "config", "genesis.json")
	if _, overwrite := flag(args, "overwrite"); !overwrite {
		if _, err := os.Stat(genesis); err == nil {
			return fail("Error: configuration files already exist in %s; use the --overwrite flag", filepath.Dir(genesis))
		}
	}
	moniker := ""
	if len(args) > 0 {
		moniker = args[0]
	}
	if err := writeHome(home, chain, mode, moniker, script); err != nil {
		return fail("Error: %v", err)
	}
	fmt.Fprintf(os.Stderr, "{\"chain_id\":%q}\n", chain)
	return 0
}

func writeHome(home, chain, mode, moniker string, script []Step) error {
	limit := -1
	for _, step := range script {
		if step.Do == "fail-init" {
			limit = step.Count
		}
	}
	signing, _ := SigningKey("init " + home)
	node, _ := NodeKey("init " + home)
	tendermintMode := mode
	if mode == "archive" {
		tendermintMode = "full"
	}
	services := mode == "full" || mode == "archive"
	files := []struct {
		name string
		text []byte
		keep bool
	}{
		{"config/config.toml", fmt.Appendf(nil, "moniker = %q\nmode = %q\n[statesync]\nenable = false\n[instrumentation]\nprometheus = false\n", moniker, tendermintMode), false},
		{"config/app.toml", fmt.Appendf(nil, "[api]\nenable = %[1]t\n[grpc]\nenable = %[1]t\n[grpc-web]\nenable = %[1]t\n", services), false},
		{"config/client.toml", fmt.Appendf(nil, "chain-id = %q\n", chain), false},
		{"config/node_key.json", node, true},
		{"config/priv_validator_key.json", signing, true},
		{"data/priv_validator_state.json", signState(0), true},
		{"config/genesis.json", fmt.Appendf(nil, "{\"chain_id\":%q}\n", chain), false},
	}
	for i, file := range files {
		if i == limit {
			return errStopped
		}
		path := filepath.Join(home, filepath.FromSlash(file.name))
		if _, err := os.Stat(path); err == nil && file.keep {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(path, file.text, 0o600); err != nil {
			return err
		}
	}
	return nil
}
