package tasks

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
)

// ReleaseHold ends a hold. The node runs again if it is approved.
type ReleaseHold struct {
	// Hold is the id of the mark-not-ready task whose hold is to be ended; one that
	// somebody else asked for later stays. Without it every hold ends that was asked for
	// before this release.
	Hold uuid.UUID `json:"hold,omitzero"`
}

// Of is the release, as it was asked for.
func (p ReleaseHold) Of(x engine.Execution) consent.Release {
	release := consent.Release{Sequence: x.Sequence(), Resumed: x.Resumed()}
	if p.Hold != uuid.Nil {
		release.Of = p.Hold.String()
	}
	return release
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
	err := t.do("release", func() error { return t.Consent.Release(p.Of(x)) })
	switch {
	case errors.Is(err, consent.ErrHeldLater):
		return nil, engine.Terminal(ReasonSuperseded, "%w", err)
	case err != nil:
		return nil, volumeError(err)
	}
	return ReleaseHoldResult{Changed: before.Held}, nil
}
