package seid

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sei-operator/sei-operator/internal/seid/toml"
)

// sample are the sample files.
func sample(t *testing.T) Files {
	t.Helper()
	files, err := ReadFiles("testdata")
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// sampleHome is a home with the sample files.
func sampleHome(t *testing.T) Home {
	t.Helper()
	home := Home(t.TempDir())
	for file, content := range sample(t) {
		write(t, home.File(file), string(content))
	}
	if err := os.Chmod(home.File(ConfigTOML), 0o644); err != nil {
		t.Fatal(err)
	}
	return home
}

// tree is every file of a home with its content and mode.
func tree(t *testing.T, home Home) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(string(home), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		out[filepath.Base(path)] = info.Mode().String() + "\n" + string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestApply(t *testing.T) {
	home := sampleHome(t)
	before := tree(t, home)
	changes := Changes{
		config("p2p.laddr"):                        "tcp://0.0.0.0:26656",
		config("p2p.max-connections"):              "100",
		config("mempool.drop-priority-threshold"):  "0.25",
		config("consensus.gossip-tx-key-only"):     "false",
		config("tx-index.indexer"):                 "null",
		config("rpc.lag-threshold"):                "100",
		app("state-store.ss-enable"):               "false",
		app("evm.enabled_legacy_sei_apis"):         `["first", "third"]`,
		app("wasm.lru_size"):                       "1",
		config("mempool.duplicate-txs-cache-size"): "100000",
	}
	got, err := Apply(home, changes)
	if err != nil {
		t.Fatal(err)
	}
	want := []Change{
		{config("consensus.gossip-tx-key-only"), `"true"`, `"false"`},
		{config("mempool.drop-priority-threshold"), "0.1", "0.25"},
		{config("p2p.laddr"), `"tcp://127.0.0.1:26656"`, `"tcp://0.0.0.0:26656"`},
		{config("rpc.lag-threshold"), "", "100"},
		{config("tx-index.indexer"), `["kv"]`, `["null"]`},
		{app("evm.enabled_legacy_sei_apis"), `["first"]`, `["first", "third"]`},
		{app("state-store.ss-enable"), "true", "false"},
		{app("wasm.lru_size"), "", "1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	replaced := strings.NewReplacer(
		`gossip-tx-key-only = "true"`, `gossip-tx-key-only = "false"`,
		"drop-priority-threshold = 0.1", "drop-priority-threshold = 0.25",
		"tcp://127.0.0.1:26656", "tcp://0.0.0.0:26656",
		"timeout-read = \"10s\"\n", "timeout-read = \"10s\"\nlag-threshold = 100\n",
		`["kv"]`, `["null"]`,
		"[\n  \"first\",\n  # \"second\",\n]", `["first", "third"]`,
		"ss-enable = true", "ss-enable = false",
	)
	wantTree := maps.Clone(before)
	for name, content := range before {
		wantTree[name] = replaced.Replace(content)
	}
	wantTree["app.toml"] += "\n[wasm]\nlru_size = 1\n"
	if diff := cmp.Diff(wantTree, tree(t, home)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}

	// A second time nothing changes, and nothing is written.
	stamp := func() (stamps []fs.FileInfo) {
		for _, file := range allFiles {
			info, err := os.Stat(home.File(file))
			if err != nil {
				t.Fatal(err)
			}
			stamps = append(stamps, info)
		}
		return stamps
	}
	first := stamp()
	if again, err := Apply(home, changes); err != nil || len(again) != 0 {
		t.Errorf("%v, %v", again, err)
	}
	if !slices.EqualFunc(first, stamp(), os.SameFile) {
		t.Error("a file was replaced though nothing changed")
	}
}

func TestApplyIsAllOrNothing(t *testing.T) {
	good := config("moniker")
	tests := []struct {
		name    string
		changes Changes
		prepare func(Home) error
		want    string
	}{
		{"a value of another type", Changes{good: "x", app("min-retain-blocks"): "many"}, nil, `app.min-retain-blocks cannot be "many": it takes an integer`},
		{"a key below a value", Changes{good: "x", client("chain-id.x"): "1"}, nil, "client.toml: cannot set chain-id.x"},
		{"a path that is none", Changes{good: "x", client("a..b"): "1"}, nil, "no path"},
		{
			"a file that is not TOML",
			Changes{good: "x", app("min-retain-blocks"): "1"},
			func(home Home) error { return os.WriteFile(home.File(AppTOML), []byte("x = \n"), 0o600) }, "app.toml: line 1",
		},
		{
			"a file that is missing",
			Changes{good: "x"},
			func(home Home) error { return os.Remove(home.File(ClientTOML)) }, "seid init",
		},
		{
			"a file that cannot be read",
			Changes{good: "x"},
			func(home Home) error {
				return errors.Join(os.Remove(home.File(ClientTOML)), os.Mkdir(home.File(ClientTOML), 0o750))
			}, "cannot read seid's configuration",
		},
		{
			"no place for the second file",
			Changes{good: "x", app("min-retain-blocks"): "1"},
			func(home Home) error { return os.Mkdir(filepath.Join(home.ConfigDir(), ".app.toml.new"), 0o750) }, "cannot write",
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			home := sampleHome(t)
			if tc.prepare != nil {
				if err := tc.prepare(home); err != nil {
					t.Fatal(err)
				}
			}
			before := tree(t, home)
			done, err := Apply(home, tc.changes)
			if err == nil || !strings.Contains(err.Error(), tc.want) || len(done) > 0 {
				t.Errorf("%v, %v", done, err)
			}
			if diff := cmp.Diff(before, tree(t, home)); diff != "" {
				t.Errorf("something was written: %s", diff)
			}
		})
	}
}

func TestCoerce(t *testing.T) {
	files := sample(t)
	path := func(key string) Key {
		k, err := ParseKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	tests := []struct {
		key, value, want string
	}{
		{"config.p2p.max-connections", "5", "5"},
		{"config.p2p.pex", "false", "false"},
		{"config.moniker", "5", `"5"`},
		{"config.moniker", "true", `"true"`},
		{"config.moniker", `say "hi"`, `"say \"hi\""`},
		{"config.rpc.timeout-read", "1m30s", `"1m30s"`},
		{"config.mempool.duplicate-txs-cache-size", "7", `"7"`},
		{"config.mempool.drop-priority-threshold", "1", "1.0"},
		// Written as an integer, though a fraction fits too.
		{"config.mempool.drop-utilisation-threshold", "0.5", "0.5"},
		{"config.mempool.drop-utilisation-threshold", "2", "2"},
		{"config.rpc.cors-allowed-methods", "GET, POST", `["GET", "POST"]`},
		{"config.rpc.cors-allowed-methods", `["GET"]`, `["GET"]`},
		{"config.rpc.cors-allowed-methods", "[\n'GET',\n\"a\\/b\"]", ""},
		{"config.rpc.cors-allowed-methods", `["a\/b"]`, `["a/b"]`},
		{"config.rpc.cors-allowed-methods", "", "[]"},
		{"app.telemetry.global-labels", `[["chain_id", "x"]]`, `[["chain_id", "x"]]`},
		{"app.index-events", "a", `["a"]`},
		// Keys that are not in the file but known.
		{"config.statesync.trust-period", "1h", `"1h"`},
		{"config.statesync.temp-dir", "5", `"5"`},
		{"config.statesync.fetchers", "4", "4"},
		{"config.statesync.blacklist-ttl", "5m", `"5m"`},
		{"app.inter-block-cache", "true", "true"},
		{"app.evm.deny_list", "a,b", `["a", "b"]`},
		{"app.evm.ip_rate_limit_rps", "5", "5"},
		{"app.evm.ip_rate_limit_rps", "0.5", "0.5"},
		// Keys that nobody knows: what they look like.
		{"app.new.a", "5", "5"},
		{"app.new.a", "0.5", "0.5"},
		{"app.new.a", "true", "true"},
		{"app.new.a", `"5"`, `"5"`},
		{"app.new.a", "5s", `"5s"`},
		{"app.new.a", "", `""`},
		{"app.new.a", `["x", 1]`, `["x", 1]`},
		{"app.new.a", "1, 2", `"1, 2"`},
		{"app.new.a", "inf", `"inf"`},
		{"app.new.a", "2026-01-01", `"2026-01-01"`},
		{"app.new.a", "5 # five", `"5 # five"`},
		{"app.new.a", "1]\ny = [2", `"1]\ny = [2"`},
		{"app.new.a", "{b = 1}", `"{b = 1}"`},
		// What does not fit.
		{"config.p2p.max-connections", "5s", ""},
		{"config.p2p.max-connections", "", ""},
		{"config.p2p.max-connections", "0.5", ""},
		{"config.p2p.pex", "yes", ""},
		{"config.mempool.duplicate-txs-cache-size", "many", ""},
		{"config.consensus.gossip-tx-key-only", "maybe", ""},
		{"config.mempool.drop-priority-threshold", "nan", ""},
		{"config.mempool.drop-utilisation-threshold", "much", ""},
		{"config.rpc.timeout-read", "10", ""},
		{"config.rpc.cors-allowed-methods", "GET,,POST", ""},
		{"config.rpc.cors-allowed-methods", "[1]", ""},
		{"config.rpc.cors-allowed-methods", "[", ""},
		{"app.telemetry.global-labels", "[{a = 1}]", ""},
		{"app.evm", "x", ""},
	}
	for _, tc := range tests {
		key := path(tc.key)
		out, changes, err := files.Edit(Changes{key: tc.value})
		if tc.want == "" {
			got, ok := errors.AsType[*ValueError](err)
			if !ok || got.Key != key || got.Value != tc.value || got.Want == "" {
				t.Errorf("%s = %q: %v, %v", tc.key, tc.value, changes, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s = %q: %v", tc.key, tc.value, err)
			continue
		}
		value, _, err := toml.Get(out[key.File], strings.Split(key.Path, "."))
		if got := toml.Format(value); err != nil || got != tc.want {
			t.Errorf("%s = %q: %s, not %s (%v)", tc.key, tc.value, got, tc.want, err)
		}
	}
}

func TestCoerceRefusesDates(t *testing.T) {
	files := Files{AppTOML: []byte("when = 2026-01-01\n")}
	if _, _, err := files.Edit(Changes{app("when"): "2027-01-01"}); err == nil {
		t.Error("a date is set")
	}
}

// Whatever the values are: either nothing is changed, or the files are still
// TOML, say what was wanted, and stay the same when it is wanted again.
func TestFilesEditProperty(t *testing.T) {
	files := sample(t)
	known := slices.SortedFunc(maps.Keys(schema[ConfigTOML]), strings.Compare)
	rapid.Check(t, func(t *rapid.T) {
		changes := Changes{}
		for range rapid.IntRange(1, 5).Draw(t, "changes") {
			path := rapid.SampledFrom(append(known, slices.Repeat([]string{"new.table.key", "p2p.new"}, 20)...)).Draw(t, "path")
			changes[config(path)] = rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"1", "0.5", "true", "10s", "a,b", "[]", "\"x\"", "0x10", " 5 ", "1_000.5", "[\"x\", 1]"})).Draw(t, "value")
		}
		out, _, err := files.Edit(changes)
		if err != nil {
			if _, ok := errors.AsType[*ValueError](err); !ok {
				t.Fatal(err)
			}
			return
		}
		if _, again, err := out.Edit(changes); err != nil || len(again) > 0 {
			t.Fatalf("%v, %v", again, err)
		}
	})
}

func TestDesiredOnSampleIsStable(t *testing.T) {
	files := sample(t)
	for _, mode := range []Mode{ModeFullNode, ModeValidator, ModeArchive, ModeSeed, ModeReplayer} {
		changes, err := Desired(Intent{ChainID: "sample-1", Mode: mode, Peers: []string{peerA, peerB}})
		if err != nil {
			t.Fatal(err)
		}
		out, done, err := files.Edit(changes)
		if err != nil || len(done) == 0 {
			t.Errorf("%s: %v, %v", mode, done, err)
		}
		if findings := Validate(out, "sample-1"); len(findings) > 0 {
			t.Errorf("%s: %v", mode, findings)
		}
		if _, again, err := out.Edit(changes); err != nil || len(again) > 0 {
			t.Errorf("%s, again: %v, %v", mode, again, err)
		}
	}
}
