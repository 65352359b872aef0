package seid

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write makes a file and the directories it is in.
func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestHomePaths(t *testing.T) {
	home := Home("/h")
	for got, want := range map[string]string{
		home.ConfigDir():      "/h/config",
		home.File(ConfigTOML): "/h/config/config.toml",
		home.File(AppTOML):    "/h/config/app.toml",
		home.File(ClientTOML): "/h/config/client.toml",
		home.Genesis():        "/h/config/genesis.json",
		home.NodeKey():        "/h/config/node_key.json",
		home.SigningKey():     "/h/config/priv_validator_key.json",
		home.Data():           "/h/data",
		home.SignState():      "/h/data/priv_validator_state.json",
		home.UpgradeInfo():    "/h/data/upgrade-info.json",
		home.Snapshots():      "/h/data/snapshots",
		home.Wasm():           "/h/wasm",
	} {
		if got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}

func TestHasChainData(t *testing.T) {
	tests := []struct {
		name string
		// Names that end with a slash are directories.
		files []string
		want  bool
	}{
		{"nothing at all", nil, false},
		{"a fresh file system", []string{"lost+found/"}, false},
		{"after seid init", []string{"config/genesis.json", "config/config.toml", "data/priv_validator_state.json"}, false},
		{"a snapshot that waits to be restored", []string{"data/snapshots/100/1/0"}, false},
		{"a store that was only begun", []string{"data/blockstore.db/", "data/tendermint/blockstore.db/"}, false},
		{"the older layout", []string{"data/blockstore.db/CURRENT"}, true},
		{"the layout of v6.6", []string{"data/tendermint/blockstore.db/CURRENT"}, true},
		{"a store in one file", []string{"data/blockstore.db"}, true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			home := Home(t.TempDir())
			for _, name := range tc.files {
				path := filepath.Join(string(home), name)
				if strings.HasSuffix(name, "/") {
					if err := os.MkdirAll(path, 0o750); err != nil {
						t.Fatal(err)
					}
					continue
				}
				write(t, path, "x")
			}
			got, err := home.HasChainData()
			if err != nil || got != tc.want {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

func TestHasChainDataUnknownIsNotEmpty(t *testing.T) {
	home := Home(t.TempDir())
	// A link to itself cannot be read by anybody, not even by root.
	write(t, home.SignState(), "")
	if err := os.Symlink("blockstore.db", filepath.Join(home.Data(), "blockstore.db")); err != nil {
		t.Fatal(err)
	}
	if got, err := home.HasChainData(); err == nil {
		t.Errorf("%v without an error", got)
	}
}
