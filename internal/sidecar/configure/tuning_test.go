package configure

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sei-operator/sei-operator/internal/seid"
)

const storesTOML = appTOML + `
[state-commit]
sc-async-commit-buffer = 100

[state-store]
ss-enable = true
ss-keep-recent = 100000
`

// tuned is a rig whose app.toml is as "seid init" writes it, for every mode.
func tuned(t *testing.T) rig {
	t.Helper()
	r := newRig(t, t.TempDir())
	write(t, r.home.File(seid.AppTOML), storesTOML)
	return r
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// opened leaves what a seid that ran leaves behind.
func (r rig) opened(t *testing.T) {
	t.Helper()
	write(t, filepath.Join(r.home.Data(), "state_store", "CURRENT"), "MANIFEST-000001\n")
}

func (r rig) app(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(r.home.File(seid.AppTOML))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func (r rig) mustSay(t *testing.T, when string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(r.app(t), line+"\n") {
			t.Errorf("%s: app.toml lacks %q:\n%s", when, line, r.app(t))
		}
	}
}

// TestLayoutOfData: what is kept on a volume, and how, is decided while it is empty.
// Neither a later document nor a newer sidecar decides again once there is data.
func TestLayoutOfData(t *testing.T) {
	tests := []struct {
		name      string
		mode      seid.Mode
		data      bool
		overrides map[string]string
		want      []string
	}{
		{"a new validator", seid.ModeValidator, false, nil, []string{"ss-enable = false"}},
		{"a validator with data", seid.ModeValidator, true, nil, []string{"ss-enable = true"}},
		{"a new seed", seid.ModeSeed, false, nil, []string{"ss-enable = false"}},
		{"a seed with data", seid.ModeSeed, true, nil, []string{"ss-enable = true"}},
		{"a new full node", seid.ModeFullNode, false, nil, []string{"ss-enable = true", "ss-keep-recent = 100000"}},
		{"a new archive", seid.ModeArchive, false, nil, []string{"ss-enable = true", "ss-keep-recent = 0"}},
		{"an archive with data", seid.ModeArchive, true, nil, []string{"ss-enable = true", "ss-keep-recent = 0"}},
		{
			"an override on an empty volume", seid.ModeValidator, false,
			map[string]string{"app.state-store.ss-enable": "true"},
			[]string{"ss-enable = true"},
		},
		{
			"an override with data", seid.ModeValidator, true,
			map[string]string{"app.state-store.ss-enable": "false"},
			[]string{"ss-enable = false"},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			r := tuned(t)
			if tc.data {
				r.opened(t)
			}
			document := intent(1, tc.overrides)
			document.Mode = tc.mode
			apply := func(when string) {
				t.Helper()
				if _, err := r.reopened().Apply(document); err != nil {
					t.Fatal(err)
				}
				r.mustSay(t, when, tc.want...)
			}
			apply("at first")
			if again, err := r.Apply(document); err != nil || len(again.Changes) != 0 {
				t.Errorf("applying it again changed %v (%v)", again.Changes, err)
			}
			r.opened(t)
			apply("with data")
			document.Serial = 2
			apply("with the next document")
		})
	}
}

// TestRemovedOverrideOfTheLayout: the value before it is the one that the volume began
// with, not the one that "seid init" wrote.
func TestRemovedOverrideOfTheLayout(t *testing.T) {
	for _, data := range []bool{false, true} {
		r := tuned(t)
		document := intent(1, map[string]string{"app.state-store.ss-enable": "true"})
		document.Mode = seid.ModeValidator
		if _, err := r.Apply(document); err != nil {
			t.Fatal(err)
		}
		if data {
			r.opened(t)
		}
		document.Serial, document.Overrides = 2, nil
		if _, err := r.reopened().Apply(document); err != nil {
			t.Fatal(err)
		}
		r.mustSay(t, "without the override", "ss-enable = false")
	}
}

// TestVolumeThatCannotBeRead must not pass for an empty one.
func TestVolumeThatCannotBeRead(t *testing.T) {
	r := tuned(t)
	loop := filepath.Join(r.home.Data(), "tendermint")
	if err := os.MkdirAll(r.home.Data(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	document := intent(1, nil)
	document.Mode = seid.ModeValidator
	if _, err := r.Apply(document); err == nil || r.app(t) != storesTOML {
		t.Errorf("the layout was decided without knowing the volume: %v\n%s", err, r.app(t))
	}
}

// TestNewerSidecarAppliesAgain: what the sidecar before made of the document is not
// what this one makes of it. Neither may wait for the next document, nor lose the
// peers that were found meanwhile, nor touch what is kept on the volume.
func TestNewerSidecarAppliesAgain(t *testing.T) {
	mounts := map[string]func(t *testing.T, r rig, document seid.Intent){
		"the same document": mount,
		"an older document": func(t *testing.T, r rig, document seid.Intent) {
			t.Helper()
			document.Serial--
			document.Overrides = map[string]string{"config.moniker": "older"}
			mount(t, r, document)
		},
		"no document": func(*testing.T, rig, seid.Intent) {},
	}
	for name, mounted := range mounts {
		t.Run(name, func(t *testing.T) {
			r := tuned(t)
			r.opened(t)
			document := intent(2, nil)
			document.Mode = seid.ModeValidator
			if _, err := r.Apply(document); err != nil {
				t.Fatal(err)
			}
			const found = "0123456789abcdef0123456789abcdef01234567@found.test:26656"
			if _, err := r.Edit(seid.Changes{seid.PersistentPeers: found}); err != nil {
				t.Fatal(err)
			}
			r.asOfAnOlderSidecar(t)
			mounted(t, r, document)

			if _, applied, err := r.reopened().ApplyMounted(); !applied || err != nil {
				t.Fatalf("it was not applied again: %v, %v", applied, err)
			}
			r.mustSay(t, "applied again", "sc-async-commit-buffer = 0", "ss-enable = true")
			if !strings.Contains(r.config(t), found) || strings.Contains(r.config(t), "older") {
				t.Errorf("the peers are lost, or an older document won:\n%s", r.config(t))
			}
			if record, err := r.reopened().Record(); err != nil || record.Serial != 2 {
				t.Errorf("the record says %+v, %v", record, err)
			}
			if _, applied, err := r.reopened().ApplyMounted(); applied || err != nil {
				t.Errorf("it was applied a third time: %v, %v", applied, err)
			}
		})
	}
}

// TestNewerSidecarThatRefuses: it does not keep a node from restarting with what it has.
func TestNewerSidecarThatRefuses(t *testing.T) {
	r := tuned(t)
	if _, err := r.Apply(intent(1, nil)); err != nil {
		t.Fatal(err)
	}
	before := r.config(t)
	mount(t, r, intent(1, map[string]string{"config.db-dir": "elsewhere"}))
	if _, applied, err := r.reopened().ApplyMounted(); applied || err != nil || r.config(t) != before {
		t.Errorf("a document that is applied already: %v, %v", applied, err)
	}
}

func mount(t *testing.T, r rig, document seid.Intent) {
	t.Helper()
	content, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	write(t, r.mounted, string(content))
}

// asOfAnOlderSidecar is the volume as a sidecar without defaults for modes left it.
func (r rig) asOfAnOlderSidecar(t *testing.T) {
	t.Helper()
	content, err := os.ReadFile(r.record)
	if err != nil {
		t.Fatal(err)
	}
	record := map[string]any{}
	if err := json.Unmarshal(content, &record); err != nil {
		t.Fatal(err)
	}
	delete(record, "wishes")
	if content, err = json.Marshal(record); err != nil {
		t.Fatal(err)
	}
	write(t, r.record, string(content))
	write(t, r.home.File(seid.AppTOML), strings.Replace(r.app(t), "sc-async-commit-buffer = 0", "sc-async-commit-buffer = 100", 1))
}
