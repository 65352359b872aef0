package tasks

import (
	"context"
	"errors"
	"time"

	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
)

// ReleaseHold ends a hold. The node runs again if it is approved.
type ReleaseHold struct {
	// Asked is when the hold was asked for that is to be ended; one that somebody
	// asked for later stays. Without it every hold ends that is older than this.
	Asked time.Time `json:"asked,omitzero"`
}

// Of is the moment up to which holds end with a release that was asked for then.
func (p ReleaseHold) Of(submitted time.Time) time.Time {
	if !p.Asked.IsZero() && p.Asked.Before(submitted) {
		return p.Asked
	}
	return submitted
}

// ReleaseHoldResult tells whether there was one.
type ReleaseHoldResult struct {
	Changed bool `json:"changed"`
}

// releaseHold waits for its turn, so that seid does not start under a task that
// removes its data. A hold waits for nobody; so one that was asked for later may
// come first, and is not undone by a release that is older.
func (t *tasks) releaseHold(_ context.Context, x engine.Execution, p ReleaseHold) (any, error) {
	before := t.Consent.State()
	err := t.do("release", func() error { return t.Consent.Release(p.Of(x.SubmittedAt())) })
	switch {
	case errors.Is(err, consent.ErrHeldLater):
		return nil, engine.Terminal(ReasonSuperseded, "%w", err)
	case err != nil:
		return nil, volumeError(err)
	}
	return ReleaseHoldResult{Changed: before.Held}, nil
}
