package tasks

import (
	"context"
	"errors"

	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
)

// ReleaseHold ends a hold. The node runs again if it is approved.
type ReleaseHold struct{}

// ReleaseHoldResult tells whether there was one.
type ReleaseHoldResult struct {
	Changed bool `json:"changed"`
}

// releaseHold waits for its turn, so that seid does not start under a task that
// removes its data. A hold waits for nobody; so one that was asked for later may
// come first, and is not undone by a release that is older.
func (t *tasks) releaseHold(_ context.Context, x engine.Execution, _ ReleaseHold) (any, error) {
	before := t.Consent.State()
	err := t.do("release", func() error { return t.Consent.Release(x.SubmittedAt()) })
	switch {
	case errors.Is(err, consent.ErrHeldLater):
		return nil, engine.Terminal(ReasonSuperseded, "%w", err)
	case err != nil:
		return nil, volumeError(err)
	}
	return ReleaseHoldResult{Changed: before.Held}, nil
}
