package nodeinit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/test/fakeseid"
)

func TestMain(m *testing.M) {
	fakeseid.Main()
	goleak.VerifyTestMain(m)
}

func config(t *testing.T, steps ...fakeseid.Step) InitConfig {
	t.Helper()
	return InitConfig{
		Home: t.TempDir(), ChainID: "test-1", Mode: seid.ModeFullNode, Moniker: "node-0",
		SeidPath: fakeseid.Executable(t), Env: fakeseid.Env(steps...),
		Stdout: io.Discard, Stderr: io.Discard,
	}
}

// write puts files into a home.
func write(t *testing.T, home string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func read(t *testing.T, home, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(home, name))
	if errors.Is(err, os.ErrNotExist) {
		return "(none)"
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func mark(t *testing.T, home string) marker {
	t.Helper()
	var m marker
	if err := json.Unmarshal([]byte(read(t, home, markerName)), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestInit(t *testing.T) {
	cfg := config(t)
	var output bytes.Buffer
	cfg.Stderr = &output
	// A volume that was just formatted.
	if err := os.Mkdir(filepath.Join(cfg.Home, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Init(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"config/config.toml", "config/app.toml", "config/client.toml", "config/genesis.json", nodeKey, signingKey, signState} {
		if read(t, cfg.Home, name) == "(none)" {
			t.Errorf("%s is missing", name)
		}
	}
	if !strings.Contains(read(t, cfg.Home, "config/config.toml"), `moniker = "node-0"`) {
		t.Error("the moniker was lost")
	}
	if got, want := mark(t, cfg.Home), (marker{ChainID: "test-1", Mode: seid.ModeFullNode}); got != want {
		t.Errorf("marker: %+v", got)
	}
	if _, err := os.Stat(filepath.Join(cfg.Home, stagingName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
	if !strings.Contains(output.String(), "test-1") {
		t.Errorf("output: %q", output.String())
	}

	// From now on it does nothing, also when somebody edited or broke the home.
	write(t, cfg.Home, map[string]string{"config/config.toml": "edited"})
	if err := os.Remove(filepath.Join(cfg.Home, "config/genesis.json")); err != nil {
		t.Fatal(err)
	}
	cfg.SeidPath = "/no/such/seid"
	if err := Init(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if got := read(t, cfg.Home, "config/config.toml"); got != "edited" {
		t.Errorf("config.toml: %q", got)
	}
}

func TestInitThatWasBrokenOff(t *testing.T) {
	for files := range 7 {
		cfg := config(t, fakeseid.FailInit(files))
		if err := Init(t.Context(), cfg); err == nil {
			t.Fatalf("an init that stopped after %d files succeeded", files)
		}
		if got := read(t, cfg.Home, markerName); got != "(none)" {
			t.Fatalf("marked as done after %d files", files)
		}
		cfg.Env = fakeseid.Env()
		if err := Init(t.Context(), cfg); err != nil {
			t.Fatalf("after %d files: %v", files, err)
		}
		mark(t, cfg.Home)
	}
}

func TestInitOverAHalfFinishedHome(t *testing.T) {
	cfg := config(t)
	// Another tool's init was killed: torn configuration, good keys.
	write(t, cfg.Home, map[string]string{
		"config/config.toml": "moni", "config/genesis.json": "{", "config/extra.txt": "mine",
		nodeKey: "node key", signingKey: "signing key", signState: "sign state",
	})
	if err := Init(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if got := read(t, cfg.Home, "config/genesis.json"); !strings.Contains(got, "test-1") {
		t.Errorf("genesis.json: %q", got)
	}
	for name, want := range map[string]string{nodeKey: "node key", signingKey: "signing key", signState: "sign state", "config/extra.txt": "mine"} {
		if got := read(t, cfg.Home, name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestInitKeepsASignStateThatIsEmpty(t *testing.T) {
	cfg := config(t)
	write(t, cfg.Home, map[string]string{signState: ""})
	if err := Init(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if got := read(t, cfg.Home, signState); got != "" {
		t.Errorf("the sign state became %q", got)
	}
}

func TestInitWithKeysFromSecrets(t *testing.T) {
	cfg := config(t)
	cfg.SigningKeyFromSecret, cfg.NodeKeyFromSecret = true, true
	if err := Init(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{nodeKey, signingKey} {
		if got := read(t, cfg.Home, name); got != "(none)" {
			t.Errorf("%s was made", name)
		}
	}
	if got := read(t, cfg.Home, signState); got == "(none)" {
		t.Error("seid does not start with a key and without a sign state")
	}
}

func TestInitReplacesTheEmptyFileThatAMountLeft(t *testing.T) {
	cfg := config(t)
	write(t, cfg.Home, map[string]string{nodeKey: ""})
	if err := Init(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if got := read(t, cfg.Home, nodeKey); got == "" {
		t.Error("the node has no key")
	}
}

const chainData = "data/tendermint/blockstore.db/CURRENT"

func TestInitAdoptsAnImportedVolume(t *testing.T) {
	cfg := config(t)
	cfg.SeidPath = "/no/such/seid"
	files := map[string]string{
		"config/config.toml": "theirs", "config/app.toml": "theirs", "config/client.toml": "theirs",
		"config/genesis.json": `{"chain_id":"test-1"}`, chainData: "x", signState: "12",
	}
	write(t, cfg.Home, files)
	if err := Init(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if got := read(t, cfg.Home, name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if !mark(t, cfg.Home).Adopted {
		t.Error("not marked as adopted")
	}
}

// A home from elsewhere may lack client.toml, which seid itself does not need to run.
// Nothing can be configured without it, so it gets one, also where an earlier init left
// it out.
func TestAnAdoptedHomeGetsItsMissingFiles(t *testing.T) {
	for name, before := range map[string]string{"just imported": "", "adopted before": `{"chainId":"test-1","mode":"fullNode","adopted":true}`} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t)
			files := map[string]string{
				"config/config.toml": "theirs", "config/app.toml": "theirs", "config/genesis.json": `{"chain_id":"test-1"}`,
				chainData: "x", signState: "12", signingKey: "key", nodeKey: "key",
			}
			write(t, cfg.Home, files)
			if before != "" {
				write(t, cfg.Home, map[string]string{markerName: before})
			}
			if err := Init(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			if got := read(t, cfg.Home, "config/client.toml"); got == "" || got == "(none)" {
				t.Errorf("client.toml: %q", got)
			}
			for name, want := range files {
				if got := read(t, cfg.Home, name); got != want {
					t.Errorf("%s: %q", name, got)
				}
			}
			if !mark(t, cfg.Home).Adopted {
				t.Error("not marked as adopted")
			}
		})
	}
}

func TestInitRefusesAVolumeOfAnotherChain(t *testing.T) {
	cfg := config(t)
	write(t, cfg.Home, map[string]string{
		"config/config.toml": "theirs", "config/genesis.json": `{"chain_id":"other-1"}`, chainData: "x",
	})
	err := Init(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "other-1") {
		t.Fatalf("%v", err)
	}
	if got := read(t, cfg.Home, markerName); got != "(none)" {
		t.Error("marked as done")
	}
}

func TestInitFillsWhatChainDataLacks(t *testing.T) {
	cfg := config(t)
	write(t, cfg.Home, map[string]string{"config/config.toml": "theirs", chainData: "x", signState: "12"})
	if err := Init(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"config/config.toml": "theirs", signState: "12", chainData: "x"} {
		if got := read(t, cfg.Home, name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := read(t, cfg.Home, "config/genesis.json"); !strings.Contains(got, "test-1") {
		t.Errorf("genesis.json: %q", got)
	}
}

func TestInitThatCannotSucceed(t *testing.T) {
	for name, edit := range map[string]func(*InitConfig){
		"no such program": func(c *InitConfig) { c.SeidPath = "/no/such/seid" },
		"no such mode":    func(c *InitConfig) { c.Mode = "sentry" },
		"no chain":        func(c *InitConfig) { c.ChainID = "" },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t)
			edit(&cfg)
			if err := Init(t.Context(), cfg); err == nil {
				t.Error("it succeeded")
			}
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := Init(ctx, config(t)); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		found home
		want  action
	}{
		{home{}, create},
		{home{genesis: true, config: true, client: true}, create},
		{home{data: true}, fill},
		{home{data: true, genesis: true}, fill},
		{home{data: true, config: true}, fill},
		{home{data: true, genesis: true, config: true}, fill},
		{home{data: true, genesis: true, config: true, client: true}, adopt},
		{home{marker: true, config: true}, fill},
		{home{marker: true}, skip},
		{home{marker: true, client: true}, skip},
		{home{marker: true, config: true, client: true}, skip},
		{home{marker: true, data: true, genesis: true, config: true, client: true}, skip},
	} {
		if got := decide(c.found); got != c.want {
			t.Errorf("%+v: %d, want %d", c.found, got, c.want)
		}
	}
}

func TestInstall(t *testing.T) {
	dst := filepath.Join(t.TempDir(), "sei-run")
	if err := os.WriteFile(dst, []byte("an old one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Install(dst); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(dst)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(fakeseid.Executable(t))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes of %d", len(got), len(want))
	}
	info, err := os.Stat(dst)
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(filepath.Dir(dst))
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
	if err := Install(filepath.Join(t.TempDir(), "no", "such", "directory")); err == nil {
		t.Error("it succeeded")
	}
}
