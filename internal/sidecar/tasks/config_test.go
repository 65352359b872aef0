package tasks

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sei-operator/sei-operator/internal/seid"
)

func document(serial int, overrides string) string {
	return fmt.Sprintf(`{"document":{"serial":%d,"chainId":"sample-1","mode":"fullNode","overrides":{%s}}}`, serial, overrides)
}

// dry makes a dry run of the params of config-apply.
func dry(params string) string {
	if params == "" {
		return `{"dryRun":true}`
	}
	return `{"dryRun":true,` + params[1:]
}

func TestConfigApply(t *testing.T) {
	w := newWorld(t)
	l := w.live(nil)
	params := document(2, `"config.p2p.max-connections":"77"`)
	got := done[ConfigApplyResult](l, TypeConfigApply, params)
	if !got.Changed || got.Serial != 2 || got.Hash == "" || got.Note != "" {
		t.Errorf("%+v", got)
	}
	if !slices.Contains(got.Changes, Change{"config.p2p.max-connections", "100", "77"}) || !strings.Contains(w.read("config/config.toml"), "max-connections = 77") {
		t.Errorf("%+v", got.Changes)
	}
	files := w.tree()
	if again := done[ConfigApplyResult](l, TypeConfigApply, params); again.Changed || len(again.Changes) != 0 || again.Hash != got.Hash {
		t.Errorf("the second one: %+v", again)
	}
	older := done[ConfigApplyResult](l, TypeConfigApply, document(1, `"config.p2p.max-connections":"50"`))
	if older.Changed || older.Serial != 2 || older.Hash != got.Hash || older.Note == "" {
		t.Errorf("an older one: %+v", older)
	}
	sameTree(t, w.tree(), files)
	// What is not wanted any more goes back.
	if got := done[ConfigApplyResult](l, TypeConfigApply, document(3, "")); !reflect.DeepEqual(got.Changes, []Change{{"config.p2p.max-connections", "77", "100"}}) {
		t.Errorf("%+v", got)
	}
}

func TestConfigApplyRefuses(t *testing.T) {
	w := newWorld(t)
	l := w.live(nil)
	before := w.read("config/config.toml")
	for key, value := range map[string]string{
		"config.p2p.max-connections": "many",
		"config.p2p.laddr":           "tcp://0.0.0.0:1",
		"config.moniker.x":           "1",
		"nonsense":                   "1",
	} {
		task := l.fails(ReasonInvalidConfiguration, false, TypeConfigApply, document(1, fmt.Sprintf("%q:%q", key, value)))
		if !strings.Contains(task.Error, strings.TrimPrefix(key, "config.")) {
			t.Errorf("it does not name %s: %s", key, task.Error)
		}
	}
	if w.read("config/config.toml") != before {
		t.Error("it was changed")
	}
	if err := os.Remove(w.home.File(seid.AppTOML)); err != nil {
		t.Fatal(err)
	}
	l.fails(ReasonVolumeError, true, TypeConfigApply, document(1, ""))
	l.fails(ReasonVolumeError, true, TypeConfigApply, dry(""))
	l.fails(ReasonVolumeError, true, TypeConfigApply, `{"peers":[]}`)
}

func TestDryRun(t *testing.T) {
	w := newWorld(t)
	l := w.live(nil)
	before := w.read("config/config.toml")
	if got := done[DryRunResult](l, TypeConfigApply, dry("")); got.Findings == nil || len(got.Findings) != 0 {
		t.Errorf("%+v", got)
	}
	got := done[DryRunResult](l, TypeConfigApply, dry(document(1, `"config.p2p.persistent_peers":"x"`)))
	if len(got.Findings) != 1 || got.Findings[0].Severity != seid.SeverityWarning || got.Findings[0].Key != "config.p2p.persistent_peers" {
		t.Errorf("a warning: %+v", got)
	}
	task := l.fails(ReasonInvalidConfiguration, false, TypeConfigApply, dry(document(1, `"config.db-backend":"nosuch"`)))
	if got := resultOf[DryRunResult](t, task); len(got.Findings) != 1 || got.Findings[0].Key != "config.db-backend" || !strings.Contains(task.Error, "config.db-backend") {
		t.Errorf("an error: %+v: %s", got, task.Error)
	}
	l.fails(ReasonInvalidConfiguration, false, TypeConfigApply, dry(document(1, `"config.p2p.max-connections":"many"`)))
	l.fails(ReasonInvalidConfiguration, false, TypeConfigApply, dry(document(1, `"config.mode":"seed"`)))
	if w.read("config/config.toml") != before || w.read(".sei-sidecar/configuration.json") != "" {
		t.Error("something was written")
	}
	// Another chain's genesis file, and none.
	w.write("config/genesis.json", genesisOf("other-1"))
	l.fails(ReasonInvalidConfiguration, false, TypeConfigApply, dry(""))
	w.write("config/genesis.json", "{")
	l.fails(ReasonInvalidConfiguration, false, TypeConfigApply, dry(""))
	if err := os.Remove(w.home.Genesis()); err != nil {
		t.Fatal(err)
	}
	task = l.fails(ReasonInvalidConfiguration, false, TypeConfigApply, dry(""))
	if got := resultOf[DryRunResult](t, task); len(got.Findings) != 1 || got.Findings[0].Key != "genesis.json" {
		t.Errorf("no genesis: %+v", got)
	}
}

// Long lists do not keep a result from being kept.
func TestListed(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	changes := make([]seid.Change, maxListed+3)
	for i := range changes {
		changes[i] = seid.Change{Key: seid.Key{File: seid.AppTOML, Path: "a"}, New: long}
	}
	got, omitted := listed(changes)
	if len(got) != maxListed || omitted != 3 || len(got[0].New) != maxShown+3 {
		t.Errorf("%d, %d, %d", len(got), omitted, len(got[0].New))
	}
}

func TestConfigApplyOfPeers(t *testing.T) {
	w := newWorld(t)
	w.supervise()
	l := w.live(nil)
	state, _ := w.seid()
	one, two := strings.Repeat("a", 40)+"@one:26656", strings.Repeat("b", 40)+"@two:26656"
	params := fmt.Sprintf(`{"peers":[%q,%q,%q]}`, one, two, one)
	if got := done[PeersResult](l, TypeConfigApply, params); got != (PeersResult{true, 2}) {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(w.read("config/config.toml"), `persistent-peers = "`+one+","+two+`"`) {
		t.Error("they were not written")
	}
	if got := done[PeersResult](l, TypeConfigApply, params); got.Changed {
		t.Errorf("the second one: %+v", got)
	}
	if got := done[PeersResult](l, TypeConfigApply, `{"peers":[]}`); got != (PeersResult{true, 0}) {
		t.Errorf("none: %+v", got)
	}
	if w.state().Instance != state.Instance {
		t.Error("seid was restarted")
	}
}

// TestConfigApplyTakesADocumentFromTheFuture, as the mounted one is taken; what is around
// the document stays strict.
func TestConfigApplyTakesADocumentFromTheFuture(t *testing.T) {
	l := newWorld(t).live(nil)
	params := `{"document":{"serial":2,"chainId":"sample-1","mode":"fullNode","tuning":{"cpus":4}}}`
	got := done[ConfigApplyResult](l, TypeConfigApply, params)
	want, err := seid.ParseIntent([]byte(`{"chainId":"sample-1","mode":"fullNode","tuning":{"cpus":4}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got.Serial != 2 || got.Hash != seid.Hash(want) || !strings.Contains(got.Note, "tuning") || !strings.Contains(got.Note, "older than the operator") {
		t.Errorf("the result: %+v", got)
	}
}
