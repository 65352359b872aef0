package tasks

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
	"github.com/sei-operator/sei-operator/test/fakeseid"
)

// fill puts a chain's data on the volume.
func (w *world) fill() {
	w.t.Helper()
	w.write("data/tendermint/blockstore.db/000001.log", "blocks")
	w.write("data/state_commit/memiavl/snapshot", "state")
	w.write("data/upgrade-info.json", "{}")
	w.write("wasm/wasm/state/abc", "code")
}

// open leaves what a seid leaves that was started and never got a block.
func (w *world) open() {
	w.t.Helper()
	for _, store := range []string{"blockstore.db", "evidence.db"} {
		w.openStore("data/tendermint/" + store)
	}
	w.openStore("data/tendermint/state.db")
	w.write("data/tendermint/state.db/000001.log", "the state that the genesis file describes")
	w.write("data/state_commit/memiavl/current", "")
	w.write("data/state_store/cosmos/pebbledb/000002.sst", "the beginning of a snapshot")
}

func (w *world) openStore(name string) {
	w.t.Helper()
	for file, content := range map[string]string{
		"000001.log": "", "CURRENT": "MANIFEST-000000\n", "LOCK": "", "LOG": "opened", "MANIFEST-000000": "comparer",
	} {
		w.write(name+"/"+file, content)
	}
}

func (w *world) entries(dir string) []string {
	w.t.Helper()
	found, err := os.ReadDir(filepath.Join(string(w.home), dir))
	if err != nil {
		w.t.Fatal(err)
	}
	names := []string{}
	for _, entry := range found {
		names = append(names, entry.Name())
	}
	return names
}

func TestResetData(t *testing.T) {
	w := newWorld(t)
	w.fill()
	outside := filepath.Join(w.root, "outside")
	writeFile(t, filepath.Join(outside, "precious"), "not ours")
	if err := os.Symlink(outside, filepath.Join(w.home.Data(), "link")); err != nil {
		t.Fatal(err)
	}
	w.supervise()
	l := w.live(nil)
	l.hold()
	config := w.read("config/config.toml")
	got := done[ResetDataResult](l, TypeResetData, "")
	if !got.Changed || got.RemovedBytes != int64(len("blocks"+"state"+"{}"+"code")) {
		t.Errorf("%+v", got)
	}
	if want := []string{"data/link", "data/state_commit", "data/tendermint", "data/upgrade-info.json", "wasm/wasm"}; !reflect.DeepEqual(got.Removed, want) {
		t.Errorf("removed %q, want %q", got.Removed, want)
	}
	if want := []string{".sei-sidecar", "config", "config/node_key.json", "config/priv_validator_key.json"}; !reflect.DeepEqual(got.Kept, want) {
		t.Errorf("kept %q, want %q", got.Kept, want)
	}
	checkReset(t, w)
	if content, err := os.ReadFile(filepath.Join(outside, "precious")); err != nil || string(content) != "not ours" {
		t.Errorf("it followed a link: %q, %v", content, err)
	}
	if w.read("config/config.toml") != config {
		t.Error("the configuration changed")
	}
	if again := done[ResetDataResult](l, TypeResetData, ""); again.Changed || again.RemovedBytes != 0 || len(again.Removed) != 0 {
		t.Errorf("the second one: %+v", again)
	}
}

func checkReset(t *testing.T, w *world) {
	t.Helper()
	if names := w.entries("data"); !reflect.DeepEqual(names, []string{"priv_validator_state.json"}) {
		t.Errorf("data holds %q", names)
	}
	if names := w.entries("wasm"); len(names) != 0 {
		t.Errorf("wasm holds %q", names)
	}
	if state, err := seid.ReadSignState(w.home.SignState()); err != nil || !state.Fresh() {
		t.Errorf("%+v, %v", state, err)
	}
	if _, err := seid.ReadNodeID(w.home.NodeKey()); err != nil {
		t.Error(err)
	}
}

// An empty volume becomes one that seid starts from.
func TestResetDataOfNothing(t *testing.T) {
	w := newWorld(t)
	if err := os.RemoveAll(w.home.Data()); err != nil {
		t.Fatal(err)
	}
	w.supervise()
	l := w.live(nil)
	l.hold()
	if got := done[ResetDataResult](l, TypeResetData, ""); !got.Changed || len(got.Removed) != 0 {
		t.Errorf("%+v", got)
	}
	if info, err := os.Stat(w.home.Data()); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if state, err := seid.ReadSignState(w.home.SignState()); err != nil || !state.Fresh() {
		t.Errorf("%+v, %v", state, err)
	}
}

func TestResetDataRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		reason    string
		retryable bool
		prepare   func(*testing.T, *world, *life)
	}{
		"a node that is not held": {ReasonNotHeld, false, func(t *testing.T, _ *world, l *life) {
			t.Helper()
			if err := l.tasks.Consent.Release(consent.Release{Sequence: 1}); err != nil {
				t.Fatal(err)
			}
		}},
		"a seid that runs": {ReasonSeidRunning, true, func(_ *testing.T, w *world, _ *life) { w.seid() }},
		"an approved key": {ReasonSigningKeyPresent, false, func(t *testing.T, w *world, l *life) {
			t.Helper()
			if err := l.tasks.Consent.Release(consent.Release{Sequence: 1}); err != nil {
				t.Fatal(err)
			}
			if err := l.tasks.Consent.Approve(w.publicKey, w.nodeID, 0); err != nil {
				t.Fatal(err)
			}
			l.hold()
		}},
		"a validator": {ReasonSigningKeyPresent, false, func(t *testing.T, _ *world, l *life) {
			t.Helper()
			done[ConfigApplyResult](l, TypeConfigApply, `{"document":{"serial":1,"chainId":"sample-1","mode":"validator"}}`)
		}},
		"a validator that was imported": {ReasonSigningKeyPresent, false, func(_ *testing.T, w *world, _ *life) {
			w.write("config/config.toml", strings.Replace(w.read("config/config.toml"), `mode = "full"`, `mode = "validator"`, 1))
		}},
		"something signed": {ReasonSigningKeyPresent, false, func(_ *testing.T, w *world, _ *life) {
			w.write("data/priv_validator_state.json", `{"height":"5","round":0,"step":3}`)
		}},
		"a damaged signing state": {ReasonSigningKeyPresent, false, func(_ *testing.T, w *world, _ *life) {
			w.write("data/priv_validator_state.json", `{"height":`)
		}},
		"a damaged configuration": {ReasonSigningKeyPresent, false, func(_ *testing.T, w *world, _ *life) {
			w.write("config/config.toml", `mode = `)
		}},
		"a damaged record": {ReasonSigningKeyPresent, false, func(_ *testing.T, w *world, _ *life) {
			w.write(".sei-sidecar/configuration.json", `{`)
		}},
		"data that is elsewhere": {ReasonUnexpectedLayout, false, func(t *testing.T, w *world, _ *life) {
			t.Helper()
			if err := os.Rename(w.home.Data(), filepath.Join(w.root, "elsewhere")); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join(w.root, "elsewhere"), w.home.Data()); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fill()
			w.supervise()
			l := w.live(nil)
			l.hold()
			c.prepare(t, w, l)
			l.fails(c.reason, c.retryable, TypeResetData, "")
			if w.read("data/tendermint/blockstore.db/000001.log") != "blocks" || w.read("wasm/wasm/state/abc") != "code" {
				t.Error("something was removed")
			}
		})
	}
}

func TestResetDataWithAnUnreadableApproval(t *testing.T) {
	w := newWorld(t)
	w.write(".sei-sidecar/approval.json", "{")
	w.supervise()
	l := w.live(nil)
	l.hold()
	l.fails(ReasonSigningKeyPresent, false, TypeResetData, "")
}

func TestResetDataWithoutASupervisor(t *testing.T) {
	w := newWorld(t)
	w.fill()
	l := w.live(nil)
	l.hold()
	l.fails(ReasonSupervisorUnreachable, true, TypeResetData, "")
	if w.read("data/upgrade-info.json") == "" {
		t.Error("something was removed")
	}
}

// A start that was on its way when the hold came makes it fail, and the next run
// finishes it.
func TestResetDataUnderASeid(t *testing.T) {
	w := newWorld(t)
	w.fill()
	w.supervise()
	l := w.live(nil)
	l.hold()
	var p *fakeseid.Process
	l.tasks.interrupt = func(point string) error {
		if point == "after removal of data/tendermint" && p == nil {
			_, p = w.seid()
		}
		return nil
	}
	l.fails(ReasonSeidRunning, true, TypeResetData, "")
	done[StopSeidResult](l, TypeStopSeid, "")
	p.AwaitExit(t)
	done[ResetDataResult](l, TypeResetData, "")
	checkReset(t, w)
}
