package seid

import "bytes"

// maxLine is how much of a line is looked at. Everything that is recognised
// stands at the beginning of a line.
const maxLine = 16 << 10

// OutputFinding is something that a line of seid's output told. Exactly one field is
// set.
type OutputFinding struct {
	// Upgrade is needed: seid is about to end.
	Upgrade *Upgrade
	// RuinedAt is the height at which the volume was ruined: no start will succeed.
	RuinedAt *int64
	// Fatal is a panic that says what is wrong: seid is about to end.
	Fatal *FatalLine
	// Notice is something that happens and does not end seid.
	Notice Notice
}

// OutputWatcher looks at one stream of seid's output as it passes. It never holds
// the stream up: a Write takes everything, never fails, keeps nothing of p and
// does not change it, and memory does not grow with the length of lines.
//
// It is for one stream, because lines of two would mix, and for one goroutine.
type OutputWatcher struct {
	found func(OutputFinding)
	// line is the beginning of a line whose end has not come yet.
	line []byte
}

// NewOutputWatcher is a watcher that calls found from within Write and Flush. The
// same finding may come several times: seid repeats itself.
func NewOutputWatcher(found func(OutputFinding)) *OutputWatcher {
	return &OutputWatcher{found: found}
}

// Write takes the next part of the stream.
func (w *OutputWatcher) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		part, rest, complete := bytes.Cut(p, []byte{'\n'})
		if complete && len(w.line) == 0 {
			w.look(part[:min(len(part), maxLine)])
		} else {
			w.line = append(w.line, part[:min(len(part), maxLine-len(w.line))]...)
			if complete {
				w.Flush()
			}
		}
		p = rest
	}
	return n, nil
}

// Flush looks at a last line that has no end. It is for the end of the stream: a
// process that dies does not always end its last line.
func (w *OutputWatcher) Flush() {
	w.look(w.line)
	w.line = w.line[:0]
}

func (w *OutputWatcher) look(line []byte) {
	if upgrade, ok := ParseUpgradeLine(line); ok {
		w.found(OutputFinding{Upgrade: &upgrade})
	}
	if height, ok := RuinedVolume(line); ok {
		w.found(OutputFinding{RuinedAt: &height})
	}
	if fatal, ok := parseFatal(line); ok {
		w.found(OutputFinding{Fatal: &fatal})
	}
	if notice := parseNotice(line); notice != "" {
		w.found(OutputFinding{Notice: notice})
	}
}
