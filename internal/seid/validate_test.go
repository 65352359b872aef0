package seid

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sei-operator/sei-operator/internal/seid/toml"
)

func TestValidateSample(t *testing.T) {
	if findings := Validate(sample(t), "sample-1"); len(findings) > 0 {
		t.Error(findings)
	}
	if findings := Validate(sample(t), ""); len(findings) > 0 {
		t.Error(findings)
	}
}

func TestValidate(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef01234567"
	set := func(path string, value any) toml.Assignment {
		return toml.Assignment{Path: strings.Split(path, "."), Value: value}
	}
	trust := []toml.Assignment{
		set("statesync.enable", true), set("statesync.rpc-servers", "a:26657,b:26657"),
		set("statesync.trust-height", int64(5)), set("statesync.trust-hash", hash64),
	}
	tests := []struct {
		name string
		file File
		set  []toml.Assignment
		// want is the severity, the key and a part of the problem; empty: no finding.
		want string
	}{
		{"integer in quotes", ConfigTOML, []toml.Assignment{set("p2p.max-connections", "5")}, ""},
		{"integer from text", ConfigTOML, []toml.Assignment{set("p2p.max-connections", "five")}, "Error config.p2p.max-connections takes an integer"},
		{"integer with a fraction", ConfigTOML, []toml.Assignment{set("p2p.max-connections", 0.5)}, "Error config.p2p.max-connections takes an integer"},
		{"integer in quotes with a fraction", ConfigTOML, []toml.Assignment{set("p2p.max-connections", "0.5")}, "Error config.p2p.max-connections takes an integer"},
		{"empty number", ConfigTOML, []toml.Assignment{set("p2p.max-connections", "")}, "Error config.p2p.max-connections takes an integer"},
		{"boolean from text", ConfigTOML, []toml.Assignment{set("p2p.pex", "maybe")}, "Error config.p2p.pex takes true or false"},
		{"boolean from number", ConfigTOML, []toml.Assignment{set("p2p.pex", int64(1))}, "Error config.p2p.pex takes true or false"},
		{"number from text", ConfigTOML, []toml.Assignment{set("mempool.drop-priority-threshold", "x")}, "Error config.mempool.drop-priority-threshold takes a number"},
		{"list from text", ConfigTOML, []toml.Assignment{set("tx-index.indexer", "kv")}, "Error config.tx-index.indexer takes a list"},
		{"text from list", ConfigTOML, []toml.Assignment{set("moniker", []string{"x"})}, "Error config.moniker takes a string"},
		{"text from number", ConfigTOML, []toml.Assignment{set("moniker", int64(5))}, ""},
		{"negative number where it means something", AppTOML, []toml.Assignment{set("evm.max_trace_lookback_blocks", int64(-1))}, ""},
		{"duration that is none", ConfigTOML, []toml.Assignment{set("rpc.timeout-read", "soon")}, "Error config.rpc.timeout-read duration with its unit"},
		{"duration without unit", ConfigTOML, []toml.Assignment{set("rpc.timeout-read", "10")}, "Error config.rpc.timeout-read duration with its unit"},
		{"duration as a bare number", ConfigTOML, []toml.Assignment{set("p2p.handshake-timeout", int64(10))}, "Error config.p2p.handshake-timeout nanoseconds"},
		{"duration of zero as a bare number", ConfigTOML, []toml.Assignment{set("p2p.handshake-timeout", int64(0))}, ""},
		{"negative duration", ConfigTOML, []toml.Assignment{set("p2p.handshake-timeout", "-1s")}, "Error config.p2p.handshake-timeout negative"},
		{"duration in app.toml", AppTOML, []toml.Assignment{set("evm.read_timeout", int64(30))}, "Error app.evm.read_timeout nanoseconds"},
		{"unknown database", ConfigTOML, []toml.Assignment{set("db-backend", "nosuch")}, "Error config.db-backend no database"},
		{"database that forgets", ConfigTOML, []toml.Assignment{set("db-backend", "memdb")}, "Error config.db-backend every restart"},
		{"database of special builds", ConfigTOML, []toml.Assignment{set("db-backend", "rocksdb")}, "Warning config.db-backend built with support"},
		{"log level", ConfigTOML, []toml.Assignment{set("log-level", "chatty")}, "Error config.log-level no level"},
		{"log level, another", ConfigTOML, []toml.Assignment{set("log-level", "DEBUG")}, ""},
		{"indexer", ConfigTOML, []toml.Assignment{set("tx-index.indexer", []string{"kv", "sqlite"})}, "Error config.tx-index.indexer no indexer"},
		{"seed without exchange", ConfigTOML, []toml.Assignment{set("mode", "seed"), set("p2p.pex", false)}, "Error config.p2p.pex does not start"},
		{"peers", ConfigTOML, []toml.Assignment{set("p2p.persistent-peers", peerA+","+peerB+",mconn://"+peerA)}, ""},
		{"peer without id", ConfigTOML, []toml.Assignment{set("p2p.persistent-peers", "a.test:26656")}, "Error config.p2p.persistent-peers no node id"},
		{"peer with a short id", ConfigTOML, []toml.Assignment{set("p2p.persistent-peers", "0123@a.test:26656")}, "Error config.p2p.persistent-peers 40 hexadecimal"},
		{"peer without host", ConfigTOML, []toml.Assignment{set("p2p.bootstrap-peers", id+"@:26656")}, "Error config.p2p.bootstrap-peers no usable host"},
		{"peer with a bad port", ConfigTOML, []toml.Assignment{set("p2p.bootstrap-peers", id+"@a:0")}, "Error config.p2p.bootstrap-peers port"},
		{"peer without port", ConfigTOML, []toml.Assignment{set("p2p.persistent-peers", id+"@a.test")}, ""},
		{"peers with a space", ConfigTOML, []toml.Assignment{set("p2p.persistent-peers", peerA+", "+peerB)}, ""},
		{"peers with a tab", ConfigTOML, []toml.Assignment{set("p2p.persistent-peers", peerA+",\t"+peerB)}, "Error config.p2p.persistent-peers 40 hexadecimal"},
		{"empty peer", ConfigTOML, []toml.Assignment{set("p2p.persistent-peers", peerA+", ,")}, ""},
		{"ids", ConfigTOML, []toml.Assignment{set("p2p.unconditional-peer-ids", id+", "+id)}, ""},
		{"bad id", ConfigTOML, []toml.Assignment{set("p2p.unconditional-peer-ids", "x")}, "Error config.p2p.unconditional-peer-ids no node id"},
		{"id in upper case", ConfigTOML, []toml.Assignment{set("p2p.private-peer-ids", strings.ToUpper(id))}, "Error config.p2p.private-peer-ids lower case"},
		{"external address", ConfigTOML, []toml.Assignment{set("p2p.external-address", "tcp://a.test:26656")}, ""},
		{"external address without port", ConfigTOML, []toml.Assignment{set("p2p.external-address", "a.test")}, ""},
		{"external address that is none", ConfigTOML, []toml.Assignment{set("p2p.external-address", "a.test:port")}, "Error config.p2p.external-address host:port"},
		{"underscores", ConfigTOML, []toml.Assignment{set("p2p.persistent_peers", peerA)}, "Warning config.p2p.persistent_peers called config.p2p.persistent-peers"},
		{"hyphens where underscores belong", AppTOML, []toml.Assignment{set("evm.http-enabled", true)}, "Warning app.evm.http-enabled called app.evm.http_enabled"},
		{"another case", ConfigTOML, []toml.Assignment{set("p2p.Persistent-Peers", peerA)}, "Warning config.p2p.Persistent-Peers called config.p2p.persistent-peers"},
		{"unknown key", ConfigTOML, []toml.Assignment{set("p2p.max-conections", int64(5))}, "Warning config.p2p.max-conections no known version"},
		{"gas prices", AppTOML, []toml.Assignment{set("minimum-gas-prices", "0.01usei, .5ibc/ABC,3 factory/x")}, ""},
		{"bad gas price", AppTOML, []toml.Assignment{set("minimum-gas-prices", "usei")}, "Error app.minimum-gas-prices no price"},
		{"gas price twice", AppTOML, []toml.Assignment{set("minimum-gas-prices", "1usei,2usei")}, "Error app.minimum-gas-prices two prices"},
		{"pruning", AppTOML, []toml.Assignment{set("pruning", "some")}, "Error app.pruning not one of"},
		{"state sync", ConfigTOML, trust, ""},
		{"state sync with one server", ConfigTOML, append(trust[:1:1], set("statesync.rpc-servers", "a:1"), trust[2], trust[3]), "Error config.statesync.rpc-servers at least 2"},
		{"state sync with an empty server", ConfigTOML, append(trust[:1:1], set("statesync.rpc-servers", "a:1,"), trust[2], trust[3]), "Error config.statesync.rpc-servers empty entry"},
		{"state sync over p2p", ConfigTOML, append(trust[:1:1], set("statesync.use-p2p", true), trust[2], trust[3]), ""},
		{"state sync without height", ConfigTOML, append(trust[:2:2], trust[3]), "Error config.statesync.trust-height height"},
		{"state sync without hash", ConfigTOML, trust[:3], "Error config.statesync.trust-hash hash"},
		{"state sync without period", ConfigTOML, append(trust[:4:4], set("statesync.trust-period", "0s")), "Error config.statesync.trust-period period"},
		{"another chain", ClientTOML, []toml.Assignment{set("chain-id", "other-1")}, "Error client.chain-id genesis file is that of \"sample-1\""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			files := sample(t)
			content, _, err := toml.Edit(files[tc.file], tc.set)
			if err != nil {
				t.Fatal(err)
			}
			files[tc.file] = content
			findings := Validate(files, "sample-1")
			if tc.want == "" {
				if len(findings) > 0 {
					t.Error(findings)
				}
				return
			}
			part := strings.SplitN(tc.want, " ", 3)
			if len(findings) != 1 || string(findings[0].Severity) != part[0] || findings[0].Key.String() != part[1] || !strings.Contains(findings[0].Problem, part[2]) {
				t.Errorf("%+v\nnot %s", findings, tc.want)
			}
		})
	}
}

func TestValidateBrokenFiles(t *testing.T) {
	files := Files{ConfigTOML: []byte("a ="), AppTOML: []byte("[x"), ClientTOML: []byte("=")}
	findings := Validate(files, "sample-1")
	if len(findings) != 3 {
		t.Fatal(findings)
	}
	for _, finding := range findings {
		if finding.Severity != SeverityError || !strings.HasPrefix(finding.String(), string(finding.Key.File)+": it is not valid TOML: line 1") {
			t.Error(finding)
		}
	}
	files = sample(t)
	files[AppTOML] = []byte(strings.Replace(string(files[AppTOML]), "global-labels = []", "", 1))
	if findings := Validate(files, ""); len(findings) != 1 || !strings.HasPrefix(findings[0].String(), "app.telemetry.global-labels: it is missing") {
		t.Error(findings)
	}
}

func FuzzConfig(f *testing.F) {
	f.Add("a = 1\n[p2p]\nladdr = \"x\"\n", "p2p.laddr", "y")
	f.Add("p2p = 5\n", "p2p.persistent-peers", "a@b")
	f.Add("[statesync]\nenable = true\ntrust-period = 1979-05-27\n", "statesync.trust-hash", "[]")
	f.Fuzz(func(t *testing.T, content, path, value string) {
		files := Files{ConfigTOML: []byte(content), AppTOML: []byte(content), ClientTOML: []byte(content)}
		_ = fmt.Sprint(Validate(files, "x"))
		out, done, err := files.Edit(Changes{config(path): value, app(path): value})
		if err != nil {
			if _, ok := errors.AsType[*ValueError](err); ok && value == "" && path == "moniker" {
				t.Error(err)
			}
			return
		}
		for _, change := range done {
			if change.Old == change.New {
				t.Errorf("%+v is no change", change)
			}
		}
		if _, again, err := out.Edit(Changes{config(path): value, app(path): value}); err != nil || len(again) > 0 {
			t.Errorf("again: %v, %v\n%s", again, err, out[ConfigTOML])
		}
	})
}
