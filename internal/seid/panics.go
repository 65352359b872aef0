package seid

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Fatal is why seid panicked, where its words tell.
type Fatal string

// The reasons.
const (
	// TooNew: the binary has an upgrade that the chain has not executed yet.
	TooNew Fatal = "TooNew"
	// TooOld: the binary lacks an upgrade that the chain has executed.
	TooOld Fatal = "TooOld"
	// SignedElsewhere: the guard found signatures of this key in the last blocks.
	SignedElsewhere Fatal = "SignedElsewhere"
)

// FatalLine is a panic of seid.
type FatalLine struct {
	Reason Fatal
	// Upgrade is the name of the upgrade, where it is about one.
	Upgrade string
	// Text is what seid said.
	Text string
}

// maxText bounds what is kept of a line.
const maxText = 512

// parseFatal recognises the panics that need somebody to act. Only a line that begins
// as Go begins a panic counts: log lines carry text that strangers choose.
func parseFatal(line []byte) (FatalLine, bool) {
	after, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("panic: "))
	if !ok {
		return FatalLine{}, false
	}
	text, _, _ := strings.Cut(string(after), " [recovered")
	fatal := FatalLine{Text: bounded(text)}
	if rest, ok := strings.CutPrefix(text, `BINARY UPDATED BEFORE TRIGGER! UPGRADE "`); ok {
		fatal.Reason = TooNew
		fatal.Upgrade, _, ok = strings.Cut(rest, `"`)
		return fatal, ok
	}
	if rest, ok := strings.CutPrefix(text, "Wrong app version "); ok {
		_, name, named := strings.Cut(rest, ", upgrade handler is missing for ")
		fatal.Reason = TooOld
		fatal.Upgrade, ok = strings.CutSuffix(name, " upgrade plan")
		return fatal, named && ok
	}
	if strings.HasPrefix(text, "critical task failed: ") && strings.HasSuffix(text, "found signature from the same key") {
		fatal.Reason = SignedElsewhere
		return fatal, true
	}
	return FatalLine{}, false
}

// bounded is the beginning of a text.
func bounded(text string) string {
	if len(text) <= maxText {
		return text
	}
	end := maxText
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// Notice is something that seid says on its way.
type Notice string

// The notices.
const (
	// NoSnapshot: a state sync found no snapshot and waits for one.
	NoSnapshot Notice = "NoSnapshot"
	// Snapshot: it found one.
	Snapshot Notice = "Snapshot"
	// Restoring: the application took one, so that a part of it may be on the volume.
	Restoring Notice = "Restoring"
	// GoesDown: seid stops its node because it fell behind, and will start it again in
	// the same process. Until it is up again it has no signal handler.
	GoesDown Notice = "GoesDown"
	// ComesUp: it begins to start the node again.
	ComesUp Notice = "ComesUp"
)

// notices are the messages of the log lines.
var notices = map[string]Notice{
	"no snapshots discovered, sleeping":        NoSnapshot,
	"discovered and added new snapshot":        Snapshot,
	"starting state sync with picked snapshot": Snapshot,
	"Snapshot accepted, restoring":             Restoring,
	"Blocks behind threshold, restarting node": GoesDown,
	"restarting node...":                       ComesUp,
}

// parseNotice looks at the message of a log line, in text or as JSON. Within another
// value its quotes would be escaped.
func parseNotice(line []byte) Notice {
	for _, key := range []string{` msg="`, `"msg":"`} {
		_, after, ok := bytes.Cut(line, []byte(key))
		if !ok {
			continue
		}
		message, _, _ := bytes.Cut(after, []byte{'"'})
		return notices[string(message)]
	}
	return ""
}
