package tasks

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
)

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// checkGenesisDir sees that nothing was left behind.
func checkGenesisDir(t *testing.T, w *world) {
	t.Helper()
	want := []string{"app.toml", "client.toml", "config.toml", "genesis.json", "node_key.json", "priv_validator_key.json"}
	if names := w.entries("config"); !reflect.DeepEqual(names, want) {
		t.Errorf("config holds %q", names)
	}
}

const otherGenesis = `{"genesis_time":"now","chain_id":"sample-1","app_state":{"x":[1]}}`

func TestKeepGenesis(t *testing.T) {
	w := newWorld(t)
	l := w.live(nil)
	got := done[ConfigureGenesisResult](l, TypeConfigureGenesis, `{"chainId":"sample-1"}`)
	if got != (ConfigureGenesisResult{false, chainID, sumOf(genesisOf(chainID))}) {
		t.Errorf("%+v", got)
	}
	l.fails(ReasonChainIDMismatch, false, TypeConfigureGenesis, `{"chainId":"other-1"}`)
	l.fails(ReasonChecksumMismatch, false, TypeConfigureGenesis, `{"chainId":"sample-1","sha256":"`+sumOf("")+`"}`)
	w.write("config/genesis.json", `{"chain_id":`)
	l.fails(ReasonInvalidGenesis, false, TypeConfigureGenesis, `{"chainId":"sample-1"}`)
	if err := os.Remove(w.home.Genesis()); err != nil {
		t.Fatal(err)
	}
	l.fails(ReasonGenesisMissing, false, TypeConfigureGenesis, `{"chainId":"sample-1"}`)
}

// mountGenesis mounts a ConfigMap as the kubelet does: by links.
func (w *world) mountGenesis(name, content string) {
	w.t.Helper()
	writeFile(w.t, filepath.Join(w.path("genesis"), "..2026", name), content)
	for link, to := range map[string]string{"..data": "..2026", name: filepath.Join("..data", name)} {
		if err := os.Symlink(to, filepath.Join(w.path("genesis"), link)); err != nil && !os.IsExist(err) {
			w.t.Fatal(err)
		}
	}
}

func TestGenesisFromAFile(t *testing.T) {
	w := newWorld(t)
	l := w.live(nil)
	params := `{"chainId":"sample-1","file":"genesis.json"}`
	l.fails(ReasonGenesisMissing, true, TypeConfigureGenesis, params)
	w.mountGenesis("genesis.json", otherGenesis)
	want := ConfigureGenesisResult{true, chainID, sumOf(otherGenesis)}
	if got := done[ConfigureGenesisResult](l, TypeConfigureGenesis, params); got != want || w.read("config/genesis.json") != otherGenesis {
		t.Errorf("%+v", got)
	}
	want.Changed = false
	if got := done[ConfigureGenesisResult](l, TypeConfigureGenesis, params); got != want {
		t.Errorf("the second one: %+v", got)
	}
	if info, err := os.Stat(w.home.Genesis()); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	checkGenesisDir(t, w)
	w.mountGenesis("bad.json", "[]")
	l.fails(ReasonInvalidGenesis, false, TypeConfigureGenesis, `{"chainId":"sample-1","file":"bad.json"}`)
	w.mountGenesis("other.json", genesisOf("other-1"))
	l.fails(ReasonChainIDMismatch, false, TypeConfigureGenesis, `{"chainId":"sample-1","file":"other.json"}`)
	if w.read("config/genesis.json") != otherGenesis {
		t.Error("it was replaced")
	}
	checkGenesisDir(t, w)
}

func TestGenesisFromNoMount(t *testing.T) {
	w := newWorld(t)
	l := w.live(nil, func(s *tasks) { s.GenesisDir = "" })
	l.fails(ReasonGenesisMissing, false, TypeConfigureGenesis, `{"chainId":"sample-1","file":"genesis.json"}`)
}

func TestGenesisUnderData(t *testing.T) {
	w := newWorld(t)
	w.fill()
	l := w.live(nil)
	w.mountGenesis("same.json", genesisOf(chainID))
	if got := done[ConfigureGenesisResult](l, TypeConfigureGenesis, `{"chainId":"sample-1","file":"same.json"}`); got.Changed {
		t.Errorf("%+v", got)
	}
	w.mountGenesis("other.json", otherGenesis)
	l.fails(ReasonVolumeHasData, false, TypeConfigureGenesis, `{"chainId":"sample-1","file":"other.json"}`)
	if w.read("config/genesis.json") != genesisOf(chainID) {
		t.Error("it was replaced")
	}
	checkGenesisDir(t, w)
	// One that is lost may come back.
	if err := os.Remove(w.home.Genesis()); err != nil {
		t.Fatal(err)
	}
	if got := done[ConfigureGenesisResult](l, TypeConfigureGenesis, `{"chainId":"sample-1","file":"same.json"}`); !got.Changed {
		t.Errorf("%+v", got)
	}
}

// A node that was started with the wrong genesis file, and never got a block, can be
// given the right one. What seid derived from the wrong one must not stay behind: seid
// would go on from that.
func TestGenesisOfANodeThatNeverGotABlock(t *testing.T) {
	w := newWorld(t)
	w.open()
	w.supervise()
	l := w.live(nil)
	w.mountGenesis("other.json", otherGenesis)
	params := `{"chainId":"sample-1","file":"other.json"}`

	state, process := w.seid()
	l.fails(ReasonSeidRunning, true, TypeConfigureGenesis, params)
	if w.read("config/genesis.json") != genesisOf(chainID) || w.read("data/tendermint/state.db/000001.log") == "" {
		t.Fatal("the genesis file was taken from under a seid that runs")
	}
	if _, err := w.client.Stop(t.Context(), supervisor.StopRequest{Instance: state.Instance, SafeWait: supervisor.Duration(patience)}); err != nil {
		t.Fatal(err)
	}
	process.AwaitExit(t)

	if got := done[ConfigureGenesisResult](l, TypeConfigureGenesis, params); !got.Changed || w.read("config/genesis.json") != otherGenesis {
		t.Errorf("%+v", got)
	}
	if w.read("data/tendermint/state.db/CURRENT") != "" {
		t.Error("seid would go on from what it derived from the wrong genesis file")
	}
	aside := "data/tendermint/state.db.of-genesis-" + sumOf(genesisOf(chainID))[:12]
	if w.read(aside+"/000001.log") == "" {
		t.Errorf("%s is not there; data/tendermint holds %q", aside, w.entries("data/tendermint"))
	}
	if w.read("data/state_store/cosmos/pebbledb/000002.sst") == "" {
		t.Error("more was taken away than the state of the genesis file")
	}
	checkGenesisDir(t, w)
}

// mirror serves files under names that say how.
func mirror(t *testing.T, hits *atomic.Int64) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		switch r.URL.Path {
		case "/good":
			fmt.Fprint(w, otherGenesis)
		case "/other-chain":
			fmt.Fprint(w, genesisOf("other-1"))
		case "/endless":
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<10)); err != nil {
					return
				}
			}
		case "/torn":
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, otherGenesis)
		case "/huge":
			w.Header().Set("Content-Length", fmt.Sprint(maxGenesis+1))
		case "/moved":
			http.Redirect(w, r, "/good", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestGenesisFromAURL(t *testing.T) {
	w := newWorld(t)
	l := w.live(nil)
	var hits atomic.Int64
	base := mirror(t, &hits)
	params := func(path, content string) string {
		return `{"chainId":"sample-1","url":"` + base + path + `","sha256":"` + strings.ToUpper(sumOf(content)) + `"}`
	}
	old := w.read("config/genesis.json")
	for _, c := range []struct {
		reason    string
		retryable bool
		params    string
	}{
		{ReasonDownloadFailed, true, params("/gone", otherGenesis)},
		{ReasonDownloadFailed, true, params("/torn", otherGenesis)},
		{ReasonDownloadFailed, true, strings.ReplaceAll(params("/good", otherGenesis), base, "http://127.0.0.1:1")},
		{ReasonChecksumMismatch, false, params("/good", "something else")},
		{ReasonChainIDMismatch, false, params("/other-chain", genesisOf("other-1"))},
		{ReasonTooLarge, false, params("/huge", otherGenesis)},
	} {
		l.fails(c.reason, c.retryable, TypeConfigureGenesis, c.params)
		if w.read("config/genesis.json") != old {
			t.Errorf("%s: it was replaced", c.params)
		}
		checkGenesisDir(t, w)
	}
	if got := done[ConfigureGenesisResult](l, TypeConfigureGenesis, params("/moved", otherGenesis)); !got.Changed || w.read("config/genesis.json") != otherGenesis {
		t.Errorf("%+v", got)
	}
	checkGenesisDir(t, w)
	before := hits.Load()
	if got := done[ConfigureGenesisResult](l, TypeConfigureGenesis, params("/good", otherGenesis)); got.Changed || hits.Load() != before {
		t.Errorf("it was downloaded again: %+v", got)
	}
	// What is there already is not downloaded, and not accepted for another chain.
	l.fails(ReasonChainIDMismatch, false, TypeConfigureGenesis, strings.Replace(params("/good", otherGenesis), "sample-1", "other-1", 1))
	w.fill()
	before = hits.Load()
	l.fails(ReasonVolumeHasData, false, TypeConfigureGenesis, params("/good", "another"))
	if hits.Load() != before {
		t.Error("it was downloaded to be thrown away")
	}
}

func TestGenesisWithoutEnd(t *testing.T) {
	w := newWorld(t)
	var hits atomic.Int64
	base := mirror(t, &hits)
	l := w.live(nil, func(s *tasks) { s.maxGenesis = 64 << 10 })
	l.fails(ReasonTooLarge, false, TypeConfigureGenesis, `{"chainId":"sample-1","url":"`+base+`/endless","sha256":"`+sumOf("")+`"}`)
	checkGenesisDir(t, w)
}
