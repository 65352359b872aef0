package seid

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParseUpgradeLine(t *testing.T) {
	full := Upgrade{Name: "v9.9.9", Height: 1477, Info: `{"note":"test"}`}
	bare := Upgrade{Name: "v6.6", Height: 106}
	tests := []struct {
		line string
		want Upgrade
	}{
		{`UPGRADE "v9.9.9" NEEDED at height: 1477: {"note":"test"}`, full},
		{"UPGRADE \"v9.9.9\" NEEDED at height: 1477: {\"note\":\"test\"}\r\n", full},
		{`UPGRADE "v6.6" NEEDED at height: 106: `, bare},
		{`UPGRADE "v6.6" NEEDED at height: 106`, bare},
		{`panic: UPGRADE "v9.9.9" NEEDED at height: 1477: {"note":"test"} [recovered, repanicked]`, full},
		{`panic: UPGRADE "v9.9.9" NEEDED at height: 1477: {"note":"test"} [recovered]`, full},
		{`panic: UPGRADE "v6.6" NEEDED at height: 106:  [recovered, repanicked]`, bare},
		{`time=2026-11-01T10:00:00Z level=ERROR msg="UPGRADE \"v9.9.9\" NEEDED at height: 1477: {\"note\":\"test\"}" logger=cosmos/x/upgrade`, full},
		{`msg="UPGRADE \"v6.6\" NEEDED at height: 106: " logger=cosmos/x/upgrade`, bare},
		{`{"time":"x","level":"ERROR","msg":"UPGRADE \"v9.9.9\" NEEDED at height: 1477: {\"note\":\"test\"}","logger":"cosmos/x/upgrade"}`, full},
		// Cut off, as a watcher of long lines does.
		{`level=ERROR msg="UPGRADE \"v6.6\" NEEDED at height: 106: xy\`, Upgrade{"v6.6", 106, `xy\`}},
	}
	for _, tc := range tests {
		got, ok := ParseUpgradeLine([]byte(tc.line))
		if !ok || got != tc.want {
			t.Errorf("%s\n%+v, %v", tc.line, got, ok)
		}
	}
}

func TestParseUpgradeLineRefuses(t *testing.T) {
	for _, line := range []string{
		"", "UPGRADE", `UPGRADE "`, `UPGRADE "x"`, `UPGRADE "x" NEEDED at height: `, `UPGRADE "x" NEEDED at height: y: `,
		`UPGRADE "x" NEEDED at height: 0: `, `UPGRADE "x" NEEDED at height: -5: `, `UPGRADE "" NEEDED at height: 5: `,
		`UPGRADE "x" NEEDED at height: 99999999999999999999: `, `UPGRADE "x" NEEDED at time: 2026: `,
		`BINARY UPDATED BEFORE TRIGGER! UPGRADE "v9.9.9" - in binary but not executed on chain`,
		`level=ERROR msg="BINARY UPDATED BEFORE TRIGGER! UPGRADE \"v9.9.9\" - in binary but not executed on chain"`,
		`panic: Wrong app version 0, upgrade handler is missing for v9.9.9 upgrade plan`,
		`level=INFO msg="applying upgrade" name=v9.9.9 at="height: 1477"`,
		`level=INFO msg="upgrade panic detected, panicking to trigger upgrade"`,
	} {
		if got, ok := ParseUpgradeLine([]byte(line)); ok {
			t.Errorf("%s\n%+v", line, got)
		}
	}
}

// Nobody can make a node look halted with a text that seid logs, wherever it
// stands in a line.
func TestUpgradeLineCannotBeForged(t *testing.T) {
	forged := []string{
		`UPGRADE "x" NEEDED at height: 5: `, `" msg="UPGRADE \"x\" NEEDED at height: 5: "`,
		` msg="UPGRADE \"x\" NEEDED at height: 5`, `{"msg":"UPGRADE \"x\" NEEDED at height: 5"}`,
		`\" msg="UPGRADE \"x\" NEEDED at height: 5`, "\nUPGRADE \"x\" NEEDED at height: 5: ",
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "before") + rapid.SampledFrom(forged).Draw(t, "forged") + rapid.String().Draw(t, "after")
		var out bytes.Buffer
		for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
			log := slog.New(handler)
			log.Info("new peer", "moniker", text)
			log.Info("peer: "+text, "logger", "p2p")
		}
		watcher := NewOutputWatcher(func(found OutputFinding) { t.Fatalf("%+v\n%s", found, out.String()) })
		if _, err := watcher.Write(out.Bytes()); err != nil {
			t.Fatal(err)
		}
	})
}

// What seid logs is recognised with any name and info.
func TestUpgradeLineProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Upgrade{
			Name:   rapid.StringMatching(`[a-zA-Z0-9.\\-]{1,20}`).Draw(t, "name"),
			Height: rapid.Int64Range(1, 1<<62).Draw(t, "height"),
			Info:   rapid.StringMatching(`[{}":\\a-z,]{0,30}`).Draw(t, "info"),
		}
		text := fmt.Sprintf(`UPGRADE "%s" NEEDED at height: %d: %s`, want.Name, want.Height, want.Info)
		var out bytes.Buffer
		slog.New(slog.NewTextHandler(&out, nil)).Error(text, "logger", "cosmos/x/upgrade")
		slog.New(slog.NewJSONHandler(&out, nil)).Error(text, "logger", "cosmos/x/upgrade")
		fmt.Fprintf(&out, "%s\npanic: %s [recovered, repanicked]\n", text, text)
		var got []Upgrade
		watcher := NewOutputWatcher(func(found OutputFinding) { got = append(got, *found.Upgrade) })
		for rest := out.Bytes(); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "part")
			if taken, err := watcher.Write(rest[:n]); taken != n || err != nil {
				t.Fatalf("%d of %d, %v", taken, n, err)
			}
			rest = rest[n:]
		}
		if diff := cmp.Diff([]Upgrade{want, want, want, want}, got); diff != "" {
			t.Fatalf("%s\n-want +got\n%s", out.String(), diff)
		}
	})
}

func TestReadUpgradeInfo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "upgrade-info.json")
	if _, err := ReadUpgradeInfo(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for content, want := range map[string]Upgrade{
		`{"name":"v9.9.9","height":1477,"info":"{\"note\":\"test\"}"}`: {"v9.9.9", 1477, `{"note":"test"}`},
		`{"name":"v6.6","height":106}`:                                 {"v6.6", 106, ""},
		`{"name":"v6.6","height":"106"}`:                               {"v6.6", 106, ""},
	} {
		write(t, path, content)
		if got, err := ReadUpgradeInfo(path); err != nil || got != want {
			t.Errorf("%s: %+v, %v", content, got, err)
		}
	}
	for _, content := range []string{"", "{", "{}", "null", `{"name":"x"}`, `{"height":5}`, `{"name":"x","height":-1}`, `{"name":5,"height":5}`} {
		write(t, path, content)
		if got, err := ReadUpgradeInfo(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %+v, %v", content, got, err)
		}
	}
}

func TestRuinedVolume(t *testing.T) {
	const text = "could not find FinalizeBlock responses for height #"
	for line, want := range map[string]int64{
		"Error: error starting node: error on replay: " + text + "650":     650,
		"Error: error starting node: error on replay: " + text + "650\r\n": 650,
		"Error: error on replay: " + text + "7: x":                         7,
	} {
		if got, ok := RuinedVolume([]byte(line)); !ok || got != want {
			t.Errorf("%s: %d, %v", line, got, ok)
		}
	}
	for _, line := range []string{
		"", text + "650", `level=ERROR msg="rpc" err="` + text + `650"`, "Error: " + text + "650",
		"Error: error on replay: " + text, "Error: error on replay: " + text + "x", "Error: error on replay: " + text + "99999999999999999999",
		"Error: error starting node: error on replay: validator set is nil in genesis and still empty after InitChain",
	} {
		if got, ok := RuinedVolume([]byte(line)); ok {
			t.Errorf("%s: %d", line, got)
		}
	}
}

func TestOutputWatcher(t *testing.T) {
	var got []OutputFinding
	watcher := NewOutputWatcher(func(found OutputFinding) { got = append(got, found) })
	send := func(text string) {
		t.Helper()
		p := []byte(text)
		if n, err := watcher.Write(p); n != len(text) || err != nil || string(p) != text {
			t.Errorf("%d, %v", n, err)
		}
	}
	send("")
	send(strings.Repeat("x", 3*maxLine) + "\n")
	for range 100 {
		send(strings.Repeat("y", maxLine/2+1))
	}
	if cap(watcher.line) > 4*maxLine {
		t.Errorf("%d bytes are kept of an endless line", cap(watcher.line))
	}
	send("\nUPGRADE \"v1\" NEEDED at ")
	send("height: 5: " + strings.Repeat("z", 2*maxLine) + "\n\n")
	send("Error: error starting node: error on replay: could not find FinalizeBlock responses for height #9")
	if len(got) != 1 || got[0].Upgrade.Name != "v1" || got[0].Upgrade.Height != 5 {
		t.Fatalf("%+v", got)
	}
	watcher.Flush()
	watcher.Flush()
	if len(got) != 2 || got[1].Upgrade != nil || *got[1].RuinedAt != 9 {
		t.Fatalf("%+v", got)
	}
}

func FuzzUpgradeLine(f *testing.F) {
	f.Add([]byte("UPGRADE \"v1\" NEEDED at height: 5: {}\n"), 3)
	f.Add([]byte(`level=E msg="UPGRADE \"v1\" NEEDED at height: 5: \\"`), 7)
	f.Add([]byte("Error: error on replay: could not find FinalizeBlock responses for height #9\n"), 1)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		if upgrade, ok := ParseUpgradeLine(data); ok && (upgrade.Name == "" || upgrade.Height < 1) {
			t.Errorf("%q: %+v", data, upgrade)
		}
		// In one part or in two, the stream tells the same.
		collect := func(parts ...[]byte) (found []OutputFinding) {
			watcher := NewOutputWatcher(func(f OutputFinding) { found = append(found, f) })
			for _, part := range parts {
				if n, err := watcher.Write(part); n != len(part) || err != nil {
					t.Errorf("%d of %d, %v", n, len(part), err)
				}
			}
			watcher.Flush()
			return found
		}
		at := max(0, min(cut, len(data)))
		if diff := cmp.Diff(collect(data), collect(data[:at], data[at:])); diff != "" {
			t.Error(diff)
		}
	})
}
