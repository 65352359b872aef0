package tasks

import (
	"context"
	"time"

	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
)

// MarkNotReady holds the node: seid stops and stays stopped until the hold is
// released.
type MarkNotReady struct {
	// Reason is for people.
	Reason string `json:"reason,omitempty"`
}

// Validate bounds the reason.
func (p *MarkNotReady) Validate() error { return bounded("reason", p.Reason, 1024) }

// MarkNotReadyResult tells since when the node is held.
type MarkNotReadyResult struct {
	Changed   bool      `json:"changed"`
	HeldSince time.Time `json:"heldSince"`
}

// markNotReady makes the hold durable and is done. It does not wait for seid to
// stop: whoever drives seid sees the hold and stops it, now and after every crash.
func (t *tasks) markNotReady(_ context.Context, x engine.Execution, p MarkNotReady) (any, error) {
	before := t.Consent.State()
	err := t.do("hold", func() error { return t.Consent.Hold(x.ID().String(), p.Reason, x.Sequence()) })
	if err != nil {
		return nil, volumeError(err)
	}
	result := MarkNotReadyResult{Changed: !before.Held}
	if hold := t.Consent.State().Hold; hold != nil {
		result.HeldSince = hold.Since
	}
	return result, nil
}
