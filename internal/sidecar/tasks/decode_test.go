package tasks

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
)

// good has params that every type accepts.
var good = map[string][]string{
	TypeMarkReady:    {`{}`, `{"publicKey":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","nodeId":"0123456789abcdef0123456789abcdef01234567"}`},
	TypeMarkNotReady: {`{}`, `{"reason":"why not"}`},
	TypeReleaseHold:  {`{}`},
	TypeStopSeid:     {`{}`, `{"force":true}`},
	TypeRestartSeid:  {`{}`, `{"force":true}`},
	TypeResetData:    {`{}`},
	TypeConfigureGenesis: {
		`{"chainId":"pacific-1"}`, `{"chainId":"a","file":"genesis.json"}`, `{"chainId":"a","file":".hidden"}`,
		`{"chainId":"a","url":"https://x/y","sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}`,
	},
	TypeConfigApply: {
		`{"document":{"serial":1,"chainId":"a","mode":"fullNode","overrides":{"config.moniker":"x"},"peers":["p"],"snapshotGeneration":{"interval":1,"keepRecent":2}}}`,
		`{"dryRun":true}`, `{"dryRun":true,"document":{"serial":1,"chainId":"a","mode":"seed"}}`, `{"peers":[]}`,
		`{"peers":["0123456789abcdef0123456789abcdef01234567@host:26656"]}`,
	},
	TypeConfigValidate:     {`{}`, `{"document":{"serial":1,"chainId":"a","mode":"seed"}}`},
	TypeConfigureStateSync: {`{"rpcServers":["a:1","b:2"]}`, `{"rpcServers":["a:1","b:2","b:2"],"trustPeriod":"168h","backfillBlocks":0}`},
	TypeDiscoverPeers:      {`{"peers":[]}`, `{"peers":["0123456789abcdef0123456789abcdef01234567@host:26656"]}`},
	TypeAwaitCondition:     {`{"caughtUp":{}}`, `{"height":{"targetHeight":9007199254740993},"timeoutSeconds":2592000}`},
}

// bad has params that they refuse.
var bad = map[string][]string{
	TypeMarkReady: {
		`{"publicKey":"x"}`, `{"publicKey":"AAAA"}`, `{"nodeId":"abc"}`, `{"publicKey":1}`,
		`{"nodeId":"0123456789ABCDEF0123456789ABCDEF01234567"}`,
	},
	TypeMarkNotReady: {`{"reason":"` + strings.Repeat("x", 1025) + `"}`, `{"reason":{}}`},
	TypeReleaseHold:  {`{"holds":1}`, `{"force":true}`},
	TypeStopSeid:     {`{"force":1}`, `{"kill":true}`},
	TypeRestartSeid:  {`{"instance":"x"}`},
	TypeResetData:    {`{"path":"/"}`},
	TypeConfigureGenesis: {
		`{}`, `{"chainId":""}`, `{"chainId":"a b"}`, `{"chainId":"` + strings.Repeat("a", 51) + `"}`,
		`{"chainId":"a","file":"../genesis.json"}`, `{"chainId":"a","file":".."}`, `{"chainId":"a","file":"."}`,
		`{"chainId":"a","file":"a/b"}`, `{"chainId":"a","file":"a\\b"}`, `{"chainId":"a","file":"a\u0000b"}`,
		`{"chainId":"a","file":"..data"}`, `{"chainId":"a","file":"/etc/passwd"}`, `{"chainId":"a","file":"` + strings.Repeat("a", 254) + `"}`,
		`{"chainId":"a","url":"https://x/y"}`, `{"chainId":"a","sha256":"abc"}`,
		`{"chainId":"a","file":"g","url":"https://x/y","sha256":"` + sumOf("") + `"}`,
		`{"chainId":"a","url":"file:///etc/passwd","sha256":"` + sumOf("") + `"}`,
		`{"chainId":"a","url":"https://u:p@x/y","sha256":"` + sumOf("") + `"}`,
		`{"chainId":"a","url":"https:///y","sha256":"` + sumOf("") + `"}`,
		`{"chainId":"a","url":"https://x/` + strings.Repeat("y", 4096) + `","sha256":"` + sumOf("") + `"}`,
	},
	TypeConfigApply: {
		`{}`, `{"document":null}`, `{"document":{"serial":0,"chainId":"a","mode":"seed"}}`, `{"document":{"serial":1,"mode":"seed"}}`,
		`{"document":{"serial":1.5,"chainId":"a"}}`,
		`{"document":{"serial":1,"chainId":"a","overrides":{"` + strings.Repeat("k", 301) + `":""}}}`,
		`{"document":{"serial":1,"chainId":"a","overrides":{"k":"` + strings.Repeat("v", maxText+1) + `"}}}`,
		`{"document":{"serial":1,"chainId":"a","peers":["` + strings.Repeat("p", 301) + `"]}}`,
		`{"document":{"serial":1,"chainId":"a","peers":[` + strings.Repeat(`"p",`, 1000) + `"p"]}}`,
		`{"document":{"serial":1,"chainId":"a","externalAddress":"` + strings.Repeat("p", 301) + `"}}`,
		`{"dryRun":false}`, `{"dryRun":true,"document":{}}`, `{"dryRun":true,"peers":[]}`, `{"document":{"serial":1,"chainId":"a","mode":"seed"},"peers":[]}`,
		`{"peers":null}`, `{"peers":["host:26656"]}`, `{"peers":["abc@host:26656"]}`, `{"peers":[""]}`,
		`{"peers":["0123456789abcdef0123456789abcdef01234567@a:1,0123456789abcdef0123456789abcdef01234567@b:2"]}`,
		`{"peers":["0123456789abcdef0123456789abcdef01234567@host:0"]}`, `{"peers":["` + strings.Repeat("p", 301) + `"]}`,
		`{"peers":[` + strings.Repeat(`"p",`, 1000) + `"p"]}`,
	},
	TypeConfigValidate: {`{"document":{}}`, `{"files":{}}`, `{"dryRun":false}`, `{"peers":[]}`},
	TypeConfigureStateSync: {
		`{}`, `{"rpcServers":[]}`, `{"rpcServers":["a:1"]}`, `{"rpcServers":["a:1","http://a:1/"]}`, `{"rpcServers":["a:443","https://A"]}`,
		`{"rpcServers":["a:1","b"]}`, `{"rpcServers":["a:1","b:2"],"trustPeriod":"168"}`, `{"rpcServers":["a:1","b:2"],"trustPeriod":"-1h"}`,
		`{"rpcServers":["a:1","b:2"],"backfillBlocks":-1}`, `{"rpcServers":["a:1","b:2,c:3"]}`, `{"rpcServers":["a:1","` + strings.Repeat("b", 300) + `:2"]}`,
		`{"rpcServers":["a:1","a:2","a:3","a:4","a:5","a:6","a:7","a:8","a:9","b:1","b:2","b:3","b:4","b:5","b:6","b:7","b:8"]}`,
	},
	TypeDiscoverPeers: {`{}`, `{"peers":null}`, `{"peers":[""]}`, `{"document":{"serial":1,"chainId":"a","mode":"seed"}}`, `{"dryRun":true}`},
	TypeAwaitCondition: {
		`{}`, `{"height":{}}`, `{"height":{"targetHeight":0}}`, `{"height":{"targetHeight":-1}}`, `{"height":{"targetHeight":1},"caughtUp":{}}`,
		`{"caughtUp":{},"timeoutSeconds":-1}`, `{"caughtUp":{},"timeoutSeconds":2592001}`, `{"caughtUp":{},"action":"SIGTERM_SEID"}`, `{"caughtUp":true}`,
	},
}

// always are refused by all of them.
var always = []string{``, `[]`, `"x"`, `{"nobody":"knows this"}`, `{} {}`, `{`, `null x`}

func decoders() map[string]engine.Definition {
	all := map[string]engine.Definition{}
	for _, d := range Definitions(Dependencies{}) {
		all[d.Type] = d
	}
	return all
}

func TestDecode(t *testing.T) {
	all := decoders()
	if len(all) != len(good) || len(all) != len(bad) {
		t.Errorf("%d types, %d with good and %d with bad params", len(all), len(good), len(bad))
	}
	for kind, d := range all {
		for _, params := range good[kind] {
			if _, err := d.Decode(json.RawMessage(params)); err != nil {
				t.Errorf("%s refuses %s: %v", kind, params, err)
			}
		}
		for _, params := range append(bad[kind], always...) {
			if got, err := d.Decode(json.RawMessage(params)); err == nil {
				t.Errorf("%s accepts %.300s: %+v", kind, params, got)
			}
		}
	}
}

// Who waits for whom is a matter of safety.
func TestOrder(t *testing.T) {
	free := map[string]bool{TypeMarkNotReady: true, TypeAwaitCondition: true}
	for kind, d := range decoders() {
		if d.Exclusive == free[kind] || d.First != (kind == TypeMarkNotReady) {
			t.Errorf("%s: exclusive %t, first %t", kind, d.Exclusive, d.First)
		}
	}
}

// Whatever comes, no decoder panics, and what is accepted means the same when it is
// written and read again.
func FuzzDecode(f *testing.F) {
	for _, examples := range []map[string][]string{good, bad} {
		for kind, list := range examples {
			for _, params := range list {
				if len(params) < 2000 {
					f.Add(kind, []byte(params))
				}
			}
		}
	}
	all := decoders()
	f.Fuzz(func(t *testing.T, kind string, params []byte) {
		d, ok := all[kind]
		if !ok {
			return
		}
		payload, err := d.Decode(params)
		if err != nil {
			return
		}
		again, err := json.Marshal(payload)
		if err != nil {
			t.Fatalf("%s: %q is accepted and cannot be written: %v", kind, params, err)
		}
		if _, ok := payload.(ConfigApply); ok {
			d = all[TypeConfigApply] // also for what a retired type became
		}
		second, err := d.Decode(again)
		if err != nil {
			t.Fatalf("%s: %q is accepted, and %q, which it is, is not: %v", kind, params, again, err)
		}
		if third, err := json.Marshal(second); err != nil || !bytes.Equal(third, again) {
			t.Errorf("%s: %q becomes %q, and that %q, %v", kind, params, again, third, err)
		}
	})
}
