package configure

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/seid/toml"
)

const (
	configTOML = `# What the node is called.
moniker = "mine"
mode = "full"
unknown-to-us = "stays"

[p2p]
# Where others connect.
laddr = "tcp://127.0.0.1:26656"
max-connections = 100
persistent-peers = ""
`
	appTOML    = "minimum-gas-prices = \"0.01usei\"\n\n[state-sync]\nsnapshot-interval = 0\n"
	clientTOML = "chain-id = \"\"\nnode = \"\"\n"
)

// rig is a home with fresh files, and a configurator for it.
type rig struct {
	home    seid.Home
	mounted string
	*Configurator
}

func newRig(t interface {
	Helper()
	Fatal(...any)
}, dir string,
) rig {
	t.Helper()
	home := seid.Home(dir)
	if err := os.MkdirAll(home.ConfigDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	for file, content := range map[seid.File]string{
		seid.ConfigTOML: configTOML, seid.AppTOML: appTOML, seid.ClientTOML: clientTOML,
	} {
		if err := os.WriteFile(home.File(file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := rig{home: home, mounted: filepath.Join(dir, "mounted.json")}
	r.Configurator = New(home, filepath.Join(dir, ".sidecar"), r.mounted)
	return r
}

// reopened is the configurator that the next sidecar makes.
func (r rig) reopened() rig {
	r.Configurator = New(r.home, filepath.Dir(r.record), r.mounted)
	return r
}

func (r rig) config(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(r.home.File(seid.ConfigTOML))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func intent(serial int64, overrides map[string]string) seid.Intent {
	return seid.Intent{Serial: serial, ChainID: "pacific-1", Mode: seid.ModeFullNode, Overrides: overrides}
}

func TestApplyKeepsWhatItDoesNotSet(t *testing.T) {
	r := newRig(t, t.TempDir())
	outcome, err := r.Apply(intent(1, map[string]string{"config.p2p.max-connections": "50"}))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# What the node is called.", "# Where others connect.", `unknown-to-us = "stays"`,
		"max-connections = 50", `laddr = "tcp://0.0.0.0:26656"`,
	} {
		if !strings.Contains(r.config(t), want) {
			t.Errorf("the file lacks %q:\n%s", want, r.config(t))
		}
	}
	if outcome.Serial != 1 || outcome.Hash == "" || len(outcome.Changes) == 0 {
		t.Errorf("the outcome does not say what was done: %+v", outcome)
	}
	again, err := r.reopened().Apply(intent(1, map[string]string{"config.p2p.max-connections": "50"}))
	if err != nil || len(again.Changes) != 0 {
		t.Errorf("applying it again changed %v (%v)", again.Changes, err)
	}
}

// TestRemovedOverrideGoesBack: the files follow from the document, not from the
// documents before it.
func TestRemovedOverrideGoesBack(t *testing.T) {
	r := newRig(t, t.TempDir())
	overrides := map[string]string{
		"config.p2p.max-connections": "50",
		"config.rpc.lag-threshold":   "10", // the file has no such key, nor such a table
	}
	if _, err := r.Apply(intent(1, nil)); err != nil {
		t.Fatal(err)
	}
	without := r.config(t)
	if _, err := r.Apply(intent(2, overrides)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(r.config(t), "lag-threshold = 10") {
		t.Fatalf("the override is not there:\n%s", r.config(t))
	}
	if _, err := r.reopened().Apply(intent(3, nil)); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(r.config(t), "lag-threshold") || !strings.Contains(r.config(t), "max-connections = 100") {
		t.Errorf("removed overrides did not go back; before:\n%s\nafter:\n%s", without, r.config(t))
	}
}

func TestOlderDocumentIsRefused(t *testing.T) {
	r := newRig(t, t.TempDir())
	if _, err := r.Apply(intent(5, map[string]string{"config.moniker": "new"})); err != nil {
		t.Fatal(err)
	}
	if _, err := r.reopened().Apply(intent(4, map[string]string{"config.moniker": "old"})); !errors.Is(err, ErrOlder) {
		t.Errorf("expected ErrOlder, got %v", err)
	}
	if !strings.Contains(r.config(t), `moniker = "new"`) {
		t.Error("an older document undid a newer one")
	}
}

// TestGuardOfAnImportedVolume: seid panics with it when it is restarted soon after it
// signed. That must not depend on where the volume comes from, nor on when the sidecar
// that knows of it came: it is put right at the next start.
func TestGuardOfAnImportedVolume(t *testing.T) {
	r := newRig(t, t.TempDir())
	imported := configTOML + "\n[consensus]\ndouble-sign-check-height = 10\n"
	if err := os.WriteFile(r.home.File(seid.ConfigTOML), []byte(imported), 0o600); err != nil {
		t.Fatal(err)
	}
	document := intent(1, nil)
	document.Mode = seid.ModeValidator
	if _, err := r.Apply(document); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(r.config(t), "double-sign-check-height = 0\n") {
		t.Errorf("the height stays:\n%s", r.config(t))
	}
}

// TestMountedDocument: the kubelet refreshes it late, so only a newer serial counts.
func TestMountedDocument(t *testing.T) {
	r := newRig(t, t.TempDir())
	mount := func(document seid.Intent) {
		content, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(r.mounted, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, applied, err := r.ApplyMounted(); applied || !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("never configured, and without a document: %v, %v", applied, err)
	}
	mount(intent(2, map[string]string{"config.moniker": "two"}))
	if _, applied, err := r.ApplyMounted(); !applied || err != nil {
		t.Fatalf("a new document: %v, %v", applied, err)
	}
	if _, err := r.Apply(intent(3, map[string]string{"config.moniker": "three"})); err != nil {
		t.Fatal(err)
	}
	if _, applied, err := r.reopened().ApplyMounted(); applied || err != nil {
		t.Fatalf("a stale document: %v, %v", applied, err)
	}
	if !strings.Contains(r.config(t), `moniker = "three"`) {
		t.Error("a stale mounted document undid a newer one")
	}
	if err := os.Remove(r.mounted); err != nil {
		t.Fatal(err)
	}
	if _, applied, err := r.reopened().ApplyMounted(); applied || err != nil {
		t.Fatalf("configured, and the document is gone: %v, %v", applied, err)
	}
}

func TestBadDocumentChangesNothing(t *testing.T) {
	r := newRig(t, t.TempDir())
	if _, err := r.Apply(intent(1, nil)); err != nil {
		t.Fatal(err)
	}
	before := r.config(t)
	var value *seid.ValueError
	_, err := r.Apply(intent(2, map[string]string{"config.moniker": "changed", "config.p2p.max-connections": "many"}))
	if !errors.As(err, &value) || value.Key.String() != "config.p2p.max-connections" {
		t.Fatalf("expected an error that names the key, got %v", err)
	}
	record, err := r.Record()
	if err != nil || record.Serial != 1 || r.config(t) != before {
		t.Errorf("a document that cannot be applied left traces: serial %d, %v", record.Serial, err)
	}
}

func TestPreviewWritesNothing(t *testing.T) {
	r := newRig(t, t.TempDir())
	document := intent(1, map[string]string{"config.moniker": "new"})
	files, changes, err := r.Preview(&document)
	if err != nil || len(changes) == 0 || !strings.Contains(string(files[seid.ConfigTOML]), `moniker = "new"`) {
		t.Fatalf("the preview does not show the change: %v", err)
	}
	if r.config(t) != configTOML {
		t.Error("the preview wrote the file")
	}
}

func TestDamagedRecordIsSaid(t *testing.T) {
	r := newRig(t, t.TempDir())
	if _, err := r.Apply(intent(1, nil)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.record, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Apply(intent(2, nil)); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("expected the damage to be named, got %v", err)
	}
}

// TestOnlyTheLastDocumentCounts: whichever documents came before, the files are
// those that the last one alone makes of fresh ones.
func TestOnlyTheLastDocumentCounts(t *testing.T) {
	base, round := t.TempDir(), 0
	keys := []string{
		"config.moniker", "config.p2p.max-connections", "config.p2p.queue-type", "config.rpc.lag-threshold",
		"app.minimum-gas-prices", "app.state-sync.snapshot-keep-recent", "client.output",
	}
	values := map[string][]string{
		"config.p2p.max-connections": {"1", "50"}, "config.rpc.lag-threshold": {"10", "300"},
		"app.state-sync.snapshot-keep-recent": {"2", "5"},
	}
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.Custom(func(t *rapid.T) map[string]string {
			overrides := map[string]string{}
			for _, key := range rapid.SliceOfDistinct(rapid.SampledFrom(keys), rapid.ID[string]).Draw(t, "keys") {
				choice := values[key]
				if choice == nil {
					choice = []string{"one", "two"}
				}
				overrides[key] = rapid.SampledFrom(choice).Draw(t, key)
			}
			return overrides
		})
		history := rapid.SliceOfN(draw, 1, 5).Draw(t, "documents")
		round++
		dir := filepath.Join(base, strconv.Itoa(round))
		long, short := newRig(t, filepath.Join(dir, "long")), newRig(t, filepath.Join(dir, "short"))
		for i, overrides := range history {
			if _, err := long.reopened().Apply(intent(int64(i+1), overrides)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := short.Apply(intent(1, history[len(history)-1])); err != nil {
			t.Fatal(err)
		}
		a, b := decoded(t, long.home), decoded(t, short.home)
		if a != b {
			t.Fatalf("after all documents:\n%s\nafter the last alone:\n%s", a, b)
		}
	})
}

// decoded is what the files of a home say, without regard to how. A table that was
// made for a key and is empty again says nothing.
func decoded(t *rapid.T, home seid.Home) string {
	files, err := seid.ReadFiles(home)
	if err != nil {
		t.Fatal(err)
	}
	said := map[seid.File]any{}
	for file, content := range files {
		doc, err := toml.Decode(content)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range doc {
			if table, ok := value.(map[string]any); ok && len(table) == 0 {
				delete(doc, name)
			}
		}
		said[file] = doc
	}
	text, err := json.MarshalIndent(said, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
