package seid

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const (
	peerA = "0123456789abcdef0123456789abcdef01234567@a.test:26656"
	peerB = "89abcdef0123456789abcdef0123456789abcdef@[2001:db8::1]:26656"
)

func TestDesired(t *testing.T) {
	common := Changes{
		config("mode"):                                   "full",
		config("p2p.laddr"):                              "tcp://0.0.0.0:26656",
		config("p2p.external-address"):                   "",
		config("p2p.persistent-peers"):                   "",
		config("rpc.laddr"):                              "tcp://0.0.0.0:26657",
		config("instrumentation.prometheus"):             "true",
		config("instrumentation.prometheus-listen-addr"): ":26660",
		config("db-dir"):                                 "data",
		config("genesis-file"):                           "config/genesis.json",
		config("node-key-file"):                          "config/node_key.json",
		config("priv-validator.key-file"):                "config/priv_validator_key.json",
		config("priv-validator.state-file"):              "data/priv_validator_state.json",
		config("priv-validator.laddr"):                   "",
		config("consensus.double-sign-check-height"):     "0",
		app("state-sync.snapshot-interval"):              "0",
		client("chain-id"):                               "loop-1",
		client("node"):                                   "tcp://127.0.0.1:26657",
	}
	tests := []struct {
		name   string
		intent Intent
		extra  Changes
	}{
		{"a full node", Intent{Mode: ModeFullNode}, Changes{app("concurrency-workers"): "500"}},
		{"a validator keeps its RPC to itself", Intent{Mode: ModeValidator}, Changes{
			config("mode"): "validator", config("rpc.laddr"): "tcp://127.0.0.1:26657",
			app("concurrency-workers"): "32", app("state-commit.sc-async-commit-buffer"): "0",
		}},
		{"an archive keeps everything", Intent{Mode: ModeArchive}, Changes{
			app("concurrency-workers"): "500",
			app("min-retain-blocks"):   "0", app("state-store.ss-enable"): "true", app("state-store.ss-keep-recent"): "0",
			app("evm.max_trace_lookback_blocks"): "-1",
		}},
		{"a seed", Intent{Mode: ModeSeed}, Changes{config("mode"): "seed", config("p2p.pex"): "true"}},
		{"a replayer", Intent{Mode: ModeReplayer}, Changes{
			app("concurrency-workers"):                 "500",
			app("state-commit.sc-async-commit-buffer"): "100", app("state-commit.sc-keep-recent"): "2",
			app("state-commit.sc-snapshot-min-time-interval"): "3600",
		}},
		{"snapshots, peers and an external address", Intent{
			Mode: ModeFullNode, Peers: []string{peerA, peerB}, ExternalAddress: "n.test:26656",
			SnapshotGeneration: &SnapshotGeneration{Interval: 2000, KeepRecent: 3},
		}, Changes{
			config("p2p.persistent-peers"): peerA + "," + peerB, config("p2p.external-address"): "n.test:26656",
			app("state-sync.snapshot-interval"): "2000", app("state-sync.snapshot-keep-recent"): "3",
			app("concurrency-workers"): "500", config("p2p.max-connections"): "500",
		}},
		{"overrides win", Intent{Mode: ModeArchive, Peers: []string{peerA}, Overrides: map[string]string{
			"app.concurrency-workers": "9", "app.min-retain-blocks": "5", "config.p2p.persistent-peers": peerB, "config.p2p.max-connections": "7", "client.node": "tcp://x:1",
		}}, Changes{
			app("concurrency-workers"): "9", app("min-retain-blocks"): "5", app("state-store.ss-enable"): "true", app("state-store.ss-keep-recent"): "0",
			app("evm.max_trace_lookback_blocks"): "-1", config("p2p.persistent-peers"): peerB, config("p2p.max-connections"): "7",
			client("node"): "tcp://x:1",
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			tc.intent.ChainID = "loop-1"
			want := maps.Clone(common)
			maps.Copy(want, tc.extra)
			got, err := Desired(tc.intent)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			for key := range got {
				if schema[key.File][key.Path] == kindUnknown {
					t.Errorf("%s is no key of seid", key)
				}
			}
		})
	}
}

func TestDesiredRefuses(t *testing.T) {
	full := Intent{ChainID: "loop-1", Mode: ModeFullNode}
	with := func(edit func(*Intent)) Intent {
		intent := full
		edit(&intent)
		return intent
	}
	tests := map[string]Intent{
		"no mode of a node":    with(func(i *Intent) { i.Mode = "sentry" }),
		"chain id of the node": with(func(i *Intent) { i.ChainID = "" }),
		"makes no snapshots": with(func(i *Intent) {
			i.Mode = ModeSeed
			i.SnapshotGeneration = &SnapshotGeneration{Interval: 1, KeepRecent: 1}
		}),
		"at least 1":              with(func(i *Intent) { i.SnapshotGeneration = &SnapshotGeneration{} }),
		"comma or white space":    with(func(i *Intent) { i.Peers = []string{peerA + "," + peerB} }),
		"no node id":              with(func(i *Intent) { i.Peers = []string{"a.test:26656"} }),
		"must start with the":     with(func(i *Intent) { i.Overrides = map[string]string{"genesis.x": ""} }),
		"as in seid's files":      with(func(i *Intent) { i.Overrides = map[string]string{`config."a b"`: ""} }),
		"is no key of seid's con": with(func(i *Intent) { i.Overrides = map[string]string{"config": ""} }),
	}
	for want, intent := range tests {
		if changes, err := Desired(intent); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v", want, changes, err)
		}
	}
}

func TestDesiredRefusesForbiddenOverrides(t *testing.T) {
	forbiddenKeys := []string{
		"config.priv-validator.laddr", "config.priv-validator.key-file", "config.priv-validator.state-file", "config.priv-validator",
		"config.node-key-file", "config.rpc.tls-key-file", "config.db-dir", "config.genesis-file", "config.consensus.double-sign-check-height",
		"config.rpc.laddr", "config.p2p.laddr", "config.instrumentation.prometheus-listen-addr", "config.mode", "client.chain-id",
		// seid reads the three files into one store.
		"app.priv-validator.laddr", "app.chain-id", "client.mode", "app.rpc.laddr",
	}
	rapid.Check(t, func(t *rapid.T) {
		name := []rune(rapid.SampledFrom(forbiddenKeys).Draw(t, "key"))
		for i := range name {
			if rapid.Bool().Draw(t, "upper") {
				name[i] = []rune(strings.ToUpper(string(name[i])))[0]
			}
		}
		key := rapid.SampledFrom([]string{"", " ", "\t"}).Draw(t, "before") + string(name) + rapid.SampledFrom([]string{"", " "}).Draw(t, "after")
		_, err := Desired(Intent{ChainID: "loop-1", Mode: ModeFullNode, Overrides: map[string]string{key: "x"}})
		if err == nil || !strings.Contains(err.Error(), "is refused") {
			t.Fatalf("%q: %v", key, err)
		}
	})
	for _, key := range []string{"config.p2p.external-address", "config.p2p.persistent-peers", "config.instrumentation.prometheus", "app.api.address", "client.node"} {
		if _, err := Desired(Intent{ChainID: "loop-1", Mode: ModeFullNode, Overrides: map[string]string{key: "x"}}); err != nil {
			t.Error(err)
		}
	}
}

func TestInitMode(t *testing.T) {
	for mode, want := range map[Mode]string{
		ModeFullNode: "full", ModeValidator: "validator", ModeArchive: "archive", ModeSeed: "seed", ModeReplayer: "full", "x": "",
	} {
		if got := mode.InitMode(); got != want {
			t.Errorf("%s: %s", mode, got)
		}
	}
}

func TestParseIntent(t *testing.T) {
	got, err := ParseIntent([]byte(`{"serial":7,"chainId":"loop-1","mode":"archive","overrides":{"app.x":"1"},"peers":["a"],
		"externalAddress":"h:1","snapshotGeneration":{"interval":5,"keepRecent":2},"somethingNew":{}}`))
	want := Intent{
		Serial: 7, ChainID: "loop-1", Mode: ModeArchive, Overrides: map[string]string{"app.x": "1"}, Peers: []string{"a"},
		ExternalAddress: "h:1", SnapshotGeneration: &SnapshotGeneration{Interval: 5, KeepRecent: 2},
		Unknown: Unknown{"somethingNew": []byte("{}")},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if _, err := ParseIntent([]byte(`{"serial":`)); err == nil {
		t.Error("a torn document is read")
	}
}

func TestHash(t *testing.T) {
	base := Intent{ChainID: "loop-1", Mode: ModeFullNode, Overrides: map[string]string{"app.a": "1", "app.b": "2"}}
	with := func(edit func(*Intent)) string {
		intent := base
		intent.Overrides = maps.Clone(base.Overrides)
		edit(&intent)
		return Hash(intent)
	}
	// A changed hash rolls every node, so it must not change by accident.
	if got, want := Hash(base), "bab46b6768fac3f8efc105510c92d43db59e7da73865b617274da5db48ce4dec"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	if with(func(i *Intent) { i.Serial = 9; i.Peers = []string{peerA} }) != Hash(base) {
		t.Error("the serial or the peers count")
	}
	if Hash(Intent{Overrides: map[string]string{}}) != Hash(Intent{}) {
		t.Error("no overrides and empty ones differ")
	}
	for i, other := range []string{
		with(func(i *Intent) { i.ChainID = "x" }),
		with(func(i *Intent) { i.Mode = ModeSeed }),
		with(func(i *Intent) { i.Overrides["app.a"] = "2" }),
		with(func(i *Intent) { delete(i.Overrides, "app.a") }),
		with(func(i *Intent) { i.ExternalAddress = "x" }),
		with(func(i *Intent) { i.SnapshotGeneration = &SnapshotGeneration{Interval: 1, KeepRecent: 1} }),
	} {
		if other == Hash(base) {
			t.Errorf("change %d does not count", i)
		}
	}
}

// TestOnEmptyVolume: what decides about data is not among what is applied to volumes
// that have some. An archive's is, because the values keep everything.
func TestOnEmptyVolume(t *testing.T) {
	ssEnable := app("state-store.ss-enable")
	for mode, want := range map[Mode]Changes{
		ModeValidator: {ssEnable: "false"}, ModeSeed: {ssEnable: "false"},
		ModeFullNode: nil, ModeArchive: nil, ModeReplayer: nil,
	} {
		if diff := cmp.Diff(want, OnEmptyVolume(mode)); diff != "" {
			t.Errorf("%s: -want +got\n%s", mode, diff)
		}
		always, err := Desired(Intent{ChainID: "loop-1", Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		if value, set := always[ssEnable]; set && value != "true" {
			t.Errorf("%s switches the past states off on volumes that have them", mode)
		}
		for _, left := range []Key{app("state-commit.sc-write-mode"), app("state-store.evm-ss-split"), app("grpc.enable"), app("pruning")} {
			if _, set := always[left]; set {
				t.Errorf("%s sets %s, which is for seid to choose", mode, left)
			}
		}
	}
}

// TestWishes: they change with what is made of the document, not with the peers, which
// are also written beside it.
func TestWishes(t *testing.T) {
	base := Intent{ChainID: "loop-1", Mode: ModeFullNode}
	wishes := func(edit func(*Intent)) string {
		t.Helper()
		intent := base
		edit(&intent)
		got, err := Wishes(intent)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	same := wishes(func(*Intent) {})
	if same != wishes(func(i *Intent) { i.Serial, i.Peers = 7, []string{peerA} }) {
		t.Error("the serial or the peers count")
	}
	if same == wishes(func(i *Intent) { i.Overrides = map[string]string{"config.moniker": "x"} }) || same == wishes(func(i *Intent) { i.Mode = ModeValidator }) {
		t.Error("what is wanted does not count")
	}
	if _, err := Wishes(Intent{}); err == nil {
		t.Error("a document that is refused has wishes")
	}
}
