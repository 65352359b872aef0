package tasks

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
)

// pollInterval is how often something is looked at that tells nobody of its changes.
const pollInterval = time.Second

// await looks at the supervisor's state until look has seen enough or fails: now,
// whenever the state, the approval or the hold changes, and every second. It asks
// for the state each time, because only then are the key files read anew.
func (t *tasks) await(ctx context.Context, look func(supervisor.State, error) (bool, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	wake := make(chan struct{}, 1)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for range t.Supervisor.Watch(ctx) {
			select {
			case wake <- struct{}{}:
			default:
			}
		}
	})
	defer watcher.Wait()
	defer cancel()
	ticker := t.Clock.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		changed := t.Consent.Changed()
		state, err := t.Supervisor.State(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx) // not a fault of the supervisor
		}
		if done, err := look(state, err); done || err != nil {
			return err
		}
		select {
		case <-wake:
		case <-changed:
		case <-ticker.C():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// obstacle is why something is still waited for.
type obstacle struct{ err error }

func (o *obstacle) is(err error) { o.err = err }

// errNotAsked is the first of all obstacles.
var errNotAsked = errors.New("the supervisor was not asked yet")

// errPassed is why a context of within ended.
var errPassed = errors.New("no answer in time")

// within ends a context after a while, by the sidecar's clock.
func within(ctx context.Context, c clock.WithTicker, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if d <= 0 {
		cancel(errPassed)
		return ctx, func() {}
	}
	timer := c.NewTimer(d)
	var waiter sync.WaitGroup
	waiter.Go(func() {
		defer timer.Stop()
		select {
		case <-timer.C():
			cancel(errPassed)
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		waiter.Wait()
	}
}
