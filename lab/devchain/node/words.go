package node

import (
	"slices"
	"strings"
	"sync/atomic"
)

// words puts what the engine says about a state sync into the words of seid, by which those
// who read its log recognise one that finds no snapshot.
type words struct{ discovering atomic.Bool }

func (w *words) translate(message string, keyvals []any) (string, []any) {
	const discovering = "Discovering snapshots for "
	if span, is := strings.CutPrefix(message, discovering); is {
		keyvals = append(slices.Clip(keyvals), "duration", span)
		// The engine asks its peers once, says so, and from then on says the same again.
		if w.discovering.Swap(true) {
			return "no snapshots discovered, sleeping", keyvals
		}
		return "discovering snapshots", keyvals
	}
	if message == "Discovered new snapshot" {
		return "discovered and added new snapshot", keyvals
	}
	return message, keyvals
}
