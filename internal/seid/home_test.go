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

// opened are the files of a LevelDB after it was opened and closed, some times.
func opened(dir string) []string {
	var files []string
	for _, name := range []string{"000006.log (empty)", "CURRENT", "CURRENT.bak", "LOCK (empty)", "LOG", "MANIFEST-000007"} {
		files = append(files, dir+"/"+name)
	}
	return files
}

func contentOf(name string) string {
	if strings.HasSuffix(name, " (empty)") {
		return ""
	}
	return "x"
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
		{"a store that was opened", opened("data/tendermint/blockstore.db"), false},
		{"a store that was opened, in the older layout", opened("data/blockstore.db"), false},
		{"an opened store, and states of a state sync that was broken off", append(
			opened("data/tendermint/blockstore.db"), "data/state_commit/memiavl/snapshot-650-tmp/kvs", "data/state_store/cosmos/pebbledb/000007.sst",
		), false},
		{"a store with a table", append(opened("data/tendermint/blockstore.db"), "data/tendermint/blockstore.db/000010.ldb"), true},
		{"a store with a table, in the older layout", append(opened("data/blockstore.db"), "data/blockstore.db/000010.ldb"), true},
		{"a store with a table of another kind", append(opened("data/blockstore.db"), "data/blockstore.db/000010.sst"), true},
		{"a store with the first blocks in its log", append(opened("data/blockstore.db"), "data/blockstore.db/000002.log"), true},
		{"a store with what nobody knows", append(opened("data/blockstore.db"), "data/blockstore.db/blocks"), true},
		{"one store that was opened, and another with blocks", append(opened("data/tendermint/blockstore.db"), "data/blockstore.db/000010.ldb"), true},
		{"a store in one file", []string{"data/blockstore.db"}, true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			home := Home(t.TempDir())
			for _, name := range tc.files {
				path := filepath.Join(string(home), strings.TrimSuffix(name, " (empty)"))
				if strings.HasSuffix(name, "/") {
					if err := os.MkdirAll(path, 0o750); err != nil {
						t.Fatal(err)
					}
					continue
				}
				write(t, path, contentOf(name))
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

func TestHasStores(t *testing.T) {
	for name, files := range map[string][]string{
		"":                                       {"config/config.toml", "data/priv_validator_state.json", "data/snapshots/100/1/0"},
		"the layout of v6.6":                     opened("data/tendermint/blockstore.db"),
		"the older layout":                       opened("data/blockstore.db"),
		"a state of the application and no more": {"data/state_commit/memiavl/current"},
		"a store in one file":                    {"data/blockstore.db"},
	} {
		home := Home(t.TempDir())
		for _, file := range files {
			write(t, filepath.Join(string(home), strings.TrimSuffix(file, " (empty)")), contentOf(file))
		}
		if got, err := home.HasStores(); err != nil || got != (name != "") {
			t.Errorf("%q: %t, %v", name, got, err)
		}
	}
	home := Home(t.TempDir())
	write(t, home.SignState(), "")
	if err := os.Symlink("state.db", filepath.Join(home.Data(), "state.db")); err != nil {
		t.Fatal(err)
	}
	if got, err := home.HasStores(); err == nil {
		t.Errorf("%t without an error", got)
	}
}
