package seid

import (
	"strings"
	"testing"
)

// watched is what a watcher finds in a text.
func watched(text string) []OutputFinding {
	var found []OutputFinding
	w := NewOutputWatcher(func(f OutputFinding) { found = append(found, f) })
	_, _ = w.Write([]byte(text))
	w.Flush()
	return found
}

func TestPanicsThatTellWhatIsWrong(t *testing.T) {
	for line, want := range map[string]FatalLine{
		`panic: BINARY UPDATED BEFORE TRIGGER! UPGRADE "v9.9.9" - in binary but not executed on chain`:                                   {Reason: TooNew, Upgrade: "v9.9.9"},
		`panic: BINARY UPDATED BEFORE TRIGGER! UPGRADE "v9.9.9" - in binary but not executed on chain [recovered, repanicked]`:           {Reason: TooNew, Upgrade: "v9.9.9"},
		`panic: Wrong app version 0, upgrade handler is missing for v9.9.9 upgrade plan`:                                                 {Reason: TooOld, Upgrade: "v9.9.9"},
		`panic: critical task failed: name=state.Run, service=Consensus: found signature from the same key`:                              {Reason: SignedElsewhere},
		`time=now level=INFO msg="found signature from the same key" height=3`:                                                           {},
		`time=now level=INFO msg="tx" memo="panic: BINARY UPDATED BEFORE TRIGGER! UPGRADE \"v9\" - in binary but not executed on chain"`: {},
		`panic: malicious Wrong app version 1, upgrade handler is missing for x upgrade plan`:                                            {},
		`panic: runtime error: index out of range`:                                                                                       {},
	} {
		found := watched(line + "\n")
		switch {
		case want.Reason == "":
			if len(found) != 0 {
				t.Errorf("%s: %+v", line, found)
			}
		case len(found) != 1 || found[0].Fatal == nil || found[0].Fatal.Reason != want.Reason || found[0].Fatal.Upgrade != want.Upgrade:
			t.Errorf("%s: %+v", line, found)
		case !strings.Contains(line, found[0].Fatal.Text) || found[0].Fatal.Text == "":
			t.Errorf("%s: %q", line, found[0].Fatal.Text)
		}
	}
	long := watched(`panic: BINARY UPDATED BEFORE TRIGGER! UPGRADE "` + strings.Repeat("é", 4000) + `" - x`)
	if len(long) != 1 || len(long[0].Fatal.Text) > maxText {
		t.Errorf("a long name: %d findings", len(long))
	}
}

func TestNotices(t *testing.T) {
	for line, want := range map[string]Notice{
		`time=now level=INFO msg="no snapshots discovered, sleeping" logger=statesync duration=15s`:      NoSnapshot,
		`{"time":"now","level":"INFO","msg":"no snapshots discovered, sleeping","duration":15000000000}`: NoSnapshot,
		`time=now level=INFO msg="discovered and added new snapshot" peer=a height=5`:                    Snapshot,
		`time=now level=INFO msg="Snapshot accepted, restoring" height=5 format=1 hash=AB`:               Restoring,
		`time=now level=INFO msg="restarting node..."`:                                                   ComesUp,
		`time=now level=INFO msg="peer" moniker=" msg=\"restarting node...\""`:                           "",
	} {
		found := watched(line + "\n")
		if want == "" && len(found) != 0 || want != "" && (len(found) != 1 || found[0].Notice != want) {
			t.Errorf("%s: %+v", line, found)
		}
	}
}
