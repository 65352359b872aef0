package tasks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
)

const (
	defaultAwait = 24 * time.Hour
	maxAwait     = 30 * 24 * time.Hour
)

// AwaitCondition waits until the node has come so far. It changes nothing.
type AwaitCondition struct {
	Height         *AwaitHeight   `json:"height,omitempty"`
	CaughtUp       *AwaitCaughtUp `json:"caughtUp,omitempty"`
	TimeoutSeconds int64          `json:"timeoutSeconds,omitempty"`
}

// AwaitHeight is met by a node that has this block.
type AwaitHeight struct {
	TargetHeight int64 `json:"targetHeight"`
}

// AwaitCaughtUp is met by a node that is at the tip of its chain.
type AwaitCaughtUp struct{}

// Validate takes exactly one condition.
func (p *AwaitCondition) Validate() error {
	switch {
	case (p.Height == nil) == (p.CaughtUp == nil):
		return errors.New("set either height or caughtUp")
	case p.Height != nil && p.Height.TargetHeight < 1:
		return errors.New("height.targetHeight is not 1 or more")
	case p.TimeoutSeconds < 0 || p.TimeoutSeconds > int64(maxAwait/time.Second):
		return fmt.Errorf("timeoutSeconds is not between 1 and %d", int64(maxAwait/time.Second))
	}
	return nil
}

func (p *AwaitCondition) timeout() time.Duration {
	if p.TimeoutSeconds == 0 {
		return defaultAwait
	}
	return time.Duration(p.TimeoutSeconds) * time.Second
}

// AwaitConditionResult is how far the node was seen to be; it is kept when the task
// fails, too.
type AwaitConditionResult struct {
	Met           bool  `json:"met"`
	Height        int64 `json:"height"`
	MaxPeerHeight int64 `json:"maxPeerHeight,omitempty"`
}

// awaitPoint is when the waiting ends, whatever happens to the sidecar meanwhile.
type awaitPoint struct {
	Deadline time.Time `json:"deadline"`
}

// awaitCondition takes an RPC that does not answer for "not yet", because during a
// state sync it is closed.
func (t *tasks) awaitCondition(ctx context.Context, x engine.Execution, p AwaitCondition) (any, error) {
	var point awaitPoint
	known, err := x.Resume(&point)
	if err != nil {
		return nil, err
	}
	if !known {
		point.Deadline = t.now().Add(p.timeout())
		if err := x.Checkpoint(point); err != nil {
			return nil, err
		}
	}
	ticker := t.Clock.NewTicker(pollInterval)
	defer ticker.Stop()
	w := waiter{tasks: t, condition: p, trouble: errors.New("the node was not asked yet")}
	for {
		if err := w.poll(ctx); err == nil {
			w.result.Met = true
			return w.result, nil
		} else if ctx.Err() == nil {
			w.trouble = err
		}
		if !t.now().Before(point.Deadline) {
			return w.result, engine.Terminal(ReasonDeadlineExceeded, "not reached within %s: %w", p.timeout(), w.trouble)
		}
		select {
		case <-ticker.C():
		case <-ctx.Done():
			return w.result, fmt.Errorf("%w (%w)", w.trouble, context.Cause(ctx))
		}
	}
}

type waiter struct {
	*tasks
	condition AwaitCondition
	result    AwaitConditionResult
	// alone is the height at which the node was first seen at rest without peers.
	alone int64
	// trouble is why the condition is not met.
	trouble error
}

// poll is nil when the condition is met.
func (w *waiter) poll(ctx context.Context) error {
	ctx, cancel := within(ctx, w.Clock, rpcPatience)
	defer cancel()
	status, err := w.LocalRPC.Status(ctx)
	if err != nil {
		return err
	}
	w.result.Height, w.result.MaxPeerHeight = status.LatestBlockHeight, status.MaxPeerBlockHeight
	if target := w.condition.Height; target != nil {
		if status.LatestBlockHeight < target.TargetHeight {
			return fmt.Errorf("the node is at height %d of %d", status.LatestBlockHeight, target.TargetHeight)
		}
		return nil
	}
	if status.CatchingUp || status.LatestBlockHeight <= 1 {
		return fmt.Errorf("the node is catching up, at height %d", status.LatestBlockHeight)
	}
	return w.atTip(ctx)
}

// atTip looks at the lag, because a node that says it has caught up can fall behind
// without limit. In the first second of every start no peer is known, and no lag
// means nothing; so a node without peers has to make a block while it is watched,
// which the only validator of a chain does.
func (w *waiter) atTip(ctx context.Context) error {
	lag, err := w.LocalRPC.LagStatus(ctx)
	if err != nil {
		return err
	}
	w.result.Height, w.result.MaxPeerHeight = lag.CurrentHeight, lag.MaxPeerHeight
	switch {
	case lag.Lagging:
		return fmt.Errorf("the node is at height %d, its peers at %d", lag.CurrentHeight, lag.MaxPeerHeight)
	case lag.MaxPeerHeight > 0:
		return nil
	case w.alone == 0:
		w.alone = lag.CurrentHeight
	}
	if lag.CurrentHeight > w.alone {
		return nil
	}
	return fmt.Errorf("the node is at height %d and knows no peer to compare it with", lag.CurrentHeight)
}
